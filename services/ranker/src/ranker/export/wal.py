"""`python -m ranker.export.wal`: encrypted base backups and write-ahead log of Postgres.

Postgres itself runs `archive` and `restore`, for each segment, so this imports little.
"""

import argparse
import hashlib
import os
import shlex
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, BinaryIO

import pyrage

from ranker.export.age import decrypt_into, parse_recipient, read_identity
from ranker.export.encrypted import extract_all
from shared.errors import Refused
from shared.private_files import create_private_folder, open_private

INSTANT = "%Y%m%dT%H%M%SZ"


def archive_segment(segment: Path, folder: Path, recipient: str) -> None:
    """Encrypt a segment into a folder; harmless to repeat.

    Raises Refused if the folder has another segment of that name, and OSError.
    """
    key = parse_recipient(recipient)
    target, digest_file = folder / f"{segment.name}.age", folder / f"{segment.name}.sha256"
    digest = hashlib.sha256(segment.read_bytes()).hexdigest()
    if target.exists():
        if digest_file.read_text() != digest:
            reason = f"{target} is another segment: is the folder that of another server?"
            raise Refused("other_segment", reason, "folder")
        return
    create_private_folder(folder)
    digest_file.write_text(digest)
    with segment.open("rb") as plain:
        _encrypt(plain, target, key)


def restore_segment(name: str, folder: Path, target: Path, identity: Path) -> bool:
    """Decrypt a segment; False if the folder does not have it. Raises Refused and OSError."""
    file = folder / f"{name}.age"
    if not file.exists():
        return False
    key = read_identity(identity)
    with file.open("rb") as encrypted, open_private(target) as out:
        decrypt_into(encrypted, out, key, file)
    return True


def write_base(dsn: str, folder: Path, recipient: str, program: str) -> Path:
    """Write an encrypted copy of the whole server, from which segments are replayed; its path.

    Raises Refused and OSError.
    """
    key = parse_recipient(recipient)
    create_private_folder(folder)
    target = folder / f"base-{datetime.now(UTC).strftime(INSTANT)}.tar.age"
    command = (program, "-d", dsn, "-D", "-", "-F", "tar", "-X", "none", "-c", "fast")
    with TemporaryFile(dir=folder) as errors:
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors) as process:
            assert process.stdout is not None
            part = _encrypt_part(process.stdout, target, key)
        if process.returncode != 0:
            part.unlink()
            errors.seek(0)
            reason = f"pg_basebackup failed: {errors.read().decode(errors='replace').strip()}"
            raise Refused("no_base", reason)
    part.replace(target)
    return target


def open_base(file: Path, data: Path, folder: Path, identity: Path, until: datetime | None) -> None:
    """Unpack a base into an empty data folder, and let Postgres recover to an instant at its start.

    Without `until` it recovers to the end of the archive. Raises Refused and OSError.
    """
    key = read_identity(identity)
    if data.exists() and any(data.iterdir()):
        raise Refused("not_empty", f"{data} is not empty: name a new folder", "data")
    create_private_folder(data)
    with TemporaryFile(dir=data.parent) as plain:
        with file.open("rb") as encrypted:
            decrypt_into(encrypted, plain, key, file)
        plain.seek(0)
        with tarfile.open(fileobj=plain, mode="r:") as tar:
            extract_all(tar, data)
    words = (sys.executable, "-P", "-m", "ranker.export.wal", "restore", "%f", folder, "%p")
    command = shlex.join([*map(str, words), "--identity", str(identity.absolute())])
    settings = {"restore_command": command, "recovery_target_action": "promote"}
    if until is not None:
        settings["recovery_target_time"] = until.isoformat()
    with (data / "postgresql.auto.conf").open("a", encoding="utf-8") as conf:
        conf.writelines(f"{name} = '{value}'\n" for name, value in settings.items())
    (data / "recovery.signal").touch()


def _encrypt(plain: BinaryIO, target: Path, key: Any) -> None:
    _encrypt_part(plain, target, key).replace(target)


def _encrypt_part(plain: Any, target: Path, key: Any) -> Path:
    part = target.with_name(f"{target.name}.part")
    with open_private(part) as out:
        pyrage.encrypt_io(plain, out, [key])
        out.flush()
        os.fsync(out.fileno())
    return part


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m ranker.export.wal", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    archive = commands.add_parser("archive", help="archive_command: SEGMENT is %%p").add_argument
    archive("segment", type=Path)
    archive("folder", type=Path)
    archive("--recipient", required=True)
    restore = commands.add_parser("restore", help="restore_command: NAME is %%f").add_argument
    restore("name")
    restore("folder", type=Path)
    restore("target", type=Path)
    restore("--identity", type=Path, required=True)
    base = commands.add_parser("base", help="write an encrypted base backup").add_argument
    base("folder", type=Path)
    base("--recipient", required=True)
    base("--dsn", default="", help="default: libpq's own variables")
    base("--program", default="pg_basebackup")
    opened = commands.add_parser("open", help="unpack a base backup for recovery").add_argument
    opened("file", type=Path)
    opened("data", type=Path)
    opened("folder", type=Path, help="where the segments are")
    opened("--identity", type=Path, required=True)
    opened("--until", type=datetime.fromisoformat, help="an instant; default: the newest")
    return parser


def main(arguments: Sequence[str]) -> int:
    """Run one command: 0, 1 if there is no such segment, 2 if it is refused or failed."""
    options = _make_parser().parse_args(arguments)
    try:
        match options.command:
            case "archive":
                archive_segment(options.segment, options.folder, options.recipient)
            case "restore":
                is_found = restore_segment(
                    options.name, options.folder, options.target, options.identity
                )
                return 0 if is_found else 1
            case "base":
                base = write_base(options.dsn, options.folder, options.recipient, options.program)
                sys.stdout.write(f"{base}\n")
            case _:
                open_base(
                    *(options.file, options.data, options.folder, options.identity),
                    options.until,
                )
    except Refused as refused:
        sys.stderr.write(f"{refused.reason}\n")
        return 2
    except OSError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
