"""Encrypted backups: one file in the age format, made for a public key, and how long it is kept.

The host that makes or stores them has the public key alone, so it cannot read them. Whoever
restores has the identity, which `make_identity` writes once.
"""

import os
import re
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import pyrage

from ranker.export.age import HEADER, decrypt_into, parse_recipient, read_identity
from ranker.export.backup import SUFFIXES, export_log, manifest_path, part_path, verify_backup
from ranker.settings import Settings
from shared.clock import now
from shared.errors import Failed, Refused
from shared.private_files import close_empty_folder, create_private_folder, open_private

LOG_NAME, SEAL_KEY = "log.gz", "seal.key"
FILE_NAME = re.compile(r"warpboard-(\d{8}T\d{6}Z)\.age\Z")
INSTANT = "%Y%m%dT%H%M%SZ"
METRIC = "warpboard_backup_completed_timestamp_seconds"
METRIC_HELP = "When the last backup was complete and verified."


class Retention(NamedTuple):
    """How many backups are kept: the newest of each of so many days, weeks and months."""

    daily: int = 7
    weekly: int = 5
    monthly: int = 12


async def make_encrypted_backup(
    settings: Settings,
    folder: Path,
    recipient: str,
    retention: Retention,
    metrics: Path | None = None,
) -> dict[str, Any]:
    """Write an encrypted backup into a folder, and remove those that are kept no longer.

    It contains the log, its blobs, the accounts and the seal key. It is verified before it is
    encrypted. `metrics` is a file for node_exporter's textfile collector. Returns a summary. Raises
    Refused or Failed.
    """
    key, made_at = parse_recipient(recipient), now()
    try:
        create_private_folder(folder)
        close_empty_folder(folder)
        target = folder / f"warpboard-{made_at.strftime(INSTANT)}.age"
        with tempfile.TemporaryDirectory(prefix="warpboard-backup-", dir=folder) as temporary:
            log = Path(temporary, LOG_NAME)
            summary = await export_log(settings, log, "stream")
            verify_backup(log, is_incomplete_allowed=False)
            members = {path.name: path for path in (manifest_path(log), *_part_paths(log))}
            if settings.seal_key is not None and settings.seal_key.exists():
                members[SEAL_KEY] = settings.seal_key
            _encrypt(members, Path(temporary, target.name), target, key)
        removed = remove_old(folder, retention)
        if metrics is not None:
            write_metric(metrics, made_at)
    except OSError as error:
        raise Failed(f"the backup cannot be written into {folder}: {error}") from error
    return {
        **summary,
        "file": str(target),
        "bytes": target.stat().st_size,
        "has_seal_key": SEAL_KEY in members,
        "removed": [path.name for path in removed],
    }


def _part_paths(log: Path) -> list[Path]:
    return [part_path(log, part) for part in SUFFIXES]


def _encrypt(members: dict[str, Path], part: Path, target: Path, key: Any) -> None:
    """Encrypt files as one tar, which is written to no disk in between, and give it its name."""
    read_end, write_end = os.pipe()

    def write_tar() -> None:
        with (
            os.fdopen(write_end, "wb") as out,
            tarfile.open(fileobj=out, mode="w|") as tar,
        ):
            for name, path in members.items():
                tar.add(path, name)

    with (
        ThreadPoolExecutor(1) as worker,
        open_private(part) as out,
        os.fdopen(read_end, "rb") as tar,
    ):
        written = worker.submit(write_tar)
        pyrage.encrypt_io(tar, out, [key])
        written.result()
        out.flush()
        os.fsync(out.fileno())
    part.replace(target)


def remove_old(folder: Path, retention: Retention) -> Sequence[Path]:
    """Remove the backups of a folder that are kept no longer; other files stay."""
    instants = {
        path: datetime.strptime(match[1], INSTANT)  # noqa: DTZ007  (only compared)
        for path in folder.iterdir()
        if (match := FILE_NAME.match(path.name))
    }
    newest_first = sorted(instants, key=lambda path: instants[path], reverse=True)
    retained = set(newest_first[:1])
    periods = (("%Y%j", retention.daily), ("%G%V", retention.weekly), ("%Y%m", retention.monthly))
    for period, count in periods:
        newest_by_period: dict[str, Path] = {}
        for path in newest_first:
            newest_by_period.setdefault(instants[path].strftime(period), path)
        retained |= set(list(newest_by_period.values())[:count])
    removed = [path for path in newest_first if path not in retained]
    for path in removed:
        path.unlink()
    return removed


def write_metric(file: Path, at: datetime) -> None:
    """Replace a file of node_exporter's textfile collector, which must be able to read it."""
    text = f"# HELP {METRIC} {METRIC_HELP}\n# TYPE {METRIC} gauge\n{METRIC} {at.timestamp():.0f}\n"
    fresh = file.with_name(f"{file.name}.new")
    fresh.write_text(text, encoding="utf-8")
    fresh.chmod(0o644)
    fresh.replace(file)


class OpenedBackup(NamedTuple):
    """The log of a backup, with its other files beside it, and the seal key if it has one."""

    log: Path
    seal_key: Path | None


@contextmanager
def open_backup(file: Path, identity: Path | None) -> Iterator[OpenedBackup]:
    """Decrypt a backup into a folder that is removed afterwards; one that is plain stays in place.

    Raises Refused `no_file`, `no_identity`, `wrong_identity` or `bad_backup`.
    """
    if not _is_encrypted(file):
        if identity is not None:
            reason = f"{file} is not an encrypted backup: it was damaged, or needs no --identity"
            raise Refused("bad_backup", reason, "file")
        yield OpenedBackup(file, None)
        return
    if identity is None:
        reason = f"{file} is encrypted: name the file with its secret key with --identity"
        raise Refused("no_identity", reason, "identity")
    key = read_identity(identity)
    with tempfile.TemporaryDirectory(prefix="warpboard-restore-") as temporary:
        _decrypt(file, Path(temporary), key)
        log, seal_key = Path(temporary, LOG_NAME), Path(temporary, SEAL_KEY)
        yield OpenedBackup(log, seal_key if seal_key.exists() else None)


def _is_encrypted(file: Path) -> bool:
    try:
        with file.open("rb") as opened:
            return opened.read(len(HEADER)) == HEADER
    except OSError as error:
        raise Refused("no_file", f"{file} cannot be read: {error.strerror}", "file") from error


def extract_all(tar: tarfile.TarFile, folder: Path) -> None:
    """Extract a tar file that holds only files and folders inside of it, as our own files.

    The filters of tarfile came with 3.11.4, and Debian 12 has 3.11.2. Raises TarError.
    """
    for member in tar.getmembers():
        path = PurePosixPath(member.name)
        if not (member.isfile() or member.isdir()) or path.is_absolute() or ".." in path.parts:
            raise tarfile.ExtractError(f"{member.name} is no file or folder inside of it")
        member.mode &= 0o755
        member.uid, member.gid, member.uname, member.gname = os.getuid(), os.getgid(), "", ""
    tar.extractall(folder)  # noqa: S202


def _decrypt(file: Path, folder: Path, key: Any) -> None:
    tar_file = folder / "backup.tar"
    try:
        with file.open("rb") as encrypted, open_private(tar_file) as out:
            decrypt_into(encrypted, out, key, file)
        with tarfile.open(tar_file, "r:") as tar:
            extract_all(tar, folder)
    except (OSError, tarfile.TarError) as error:
        reason = f"{file} is damaged: it was cut off or changed ({error})"
        raise Refused("bad_backup", reason, "file") from error
    tar_file.unlink()
