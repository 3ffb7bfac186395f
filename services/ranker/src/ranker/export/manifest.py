"""The manifest of a backup: each file with its size and SHA-256, and what was left out."""

import hashlib
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import msgspec

from shared.errors import Refused

FORMAT = "warpboard-backup/1"
LOG, BLOBS, ACCOUNTS = "log", "blobs", "accounts"
# The files of a set are in the log's folder and begin with its name, so that it can be moved.
SUFFIXES = {LOG: "", BLOBS: ".blobs.tar", ACCOUNTS: ".accounts.tar.gz"}
SUFFIX = ".manifest.json"
PIECE_BYTES = 1024 * 1024
MANIFEST_BYTES_MAX = 64 * 1024 * 1024
INCOMPLETE_HINT = "give --incomplete to restore without it"


class Part(msgspec.Struct, frozen=True):
    """One file of a backup."""

    bytes: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True):
    """A backup: its log, its other parts, and the parts left out on purpose.

    `blobs_missing` are referred to by events but were not in the store when the backup was made.
    """

    format: str
    made_at: datetime
    events: int
    chain: str
    parts: dict[str, Part]
    left_out: list[str] = []
    blobs_missing: list[str] = []


class BackupSet(NamedTuple):
    """The parts of a verified backup, and what it lacks."""

    parts: frozenset[str]
    lacking: Sequence[str]


def part_path(file: Path, part: str) -> Path:
    """The path of a part; `file` is the backup's log."""
    return file.with_name(f"{file.name}{SUFFIXES[part]}")


def manifest_path(file: Path) -> Path:
    """The path of a backup's manifest."""
    return file.with_name(f"{file.name}{SUFFIX}")


def write_manifest(file: Path, manifest: Manifest) -> None:
    """Write the manifest atomically. It comes last: a set without it is not a backup."""
    path = manifest_path(file)
    fresh = path.with_name(f"{path.name}.part")
    fresh.write_bytes(msgspec.json.format(msgspec.json.encode(manifest)) + b"\n")
    fresh.replace(path)


def describe_parts(file: Path, parts: Iterable[str]) -> dict[str, Part]:
    """The size and digest of each part. Raises OSError."""
    return {part: _describe(part_path(file, part)) for part in parts}


def verify_backup(file: Path, *, is_incomplete_allowed: bool) -> BackupSet:
    """Check every file of a backup against its manifest, before anything is changed.

    Damage is always refused; a missing part is refused unless that is allowed. Raises Refused
    `no_file`, `bad_backup` or `incomplete_backup`.
    """
    if not file.exists():
        raise Refused("no_file", f"there is no file {file}", "file")
    if not manifest_path(file).exists():
        present = frozenset(part for part in SUFFIXES if part_path(file, part).exists())
        absent = sorted(SUFFIXES.keys() - present)
        lacking = [f"the manifest {manifest_path(file).name}", *absent]
        return _check_complete(BackupSet(present, lacking), is_allowed=is_incomplete_allowed)
    manifest = _read_manifest(manifest_path(file))
    lacking = [f"{part} (left out when it was made)" for part in manifest.left_out]
    parts = set[str]()
    for part, expected in manifest.parts.items():
        path = part_path(file, part)
        if not path.exists():
            lacking.append(f"{part} (there is no file {path.name})")
            continue
        _check_part(path, expected)
        parts.add(part)
    if LOG not in parts:
        raise Refused("bad_backup", f"{manifest_path(file)} names no log", "file")
    return _check_complete(BackupSet(frozenset(parts), lacking), is_allowed=is_incomplete_allowed)


def _check_complete(backup: BackupSet, *, is_allowed: bool) -> BackupSet:
    if backup.lacking and not is_allowed:
        reason = f"the backup is incomplete, it lacks: {', '.join(backup.lacking)}"
        raise Refused("incomplete_backup", f"{reason}; {INCOMPLETE_HINT}", "file")
    return backup


def _read_manifest(path: Path) -> Manifest:
    try:
        if path.stat().st_size > MANIFEST_BYTES_MAX:
            raise Refused("bad_backup", f"{path} is over {MANIFEST_BYTES_MAX:,} bytes", "file")
        manifest = msgspec.json.decode(path.read_bytes(), type=Manifest)
    except (OSError, msgspec.DecodeError) as error:
        raise Refused("bad_backup", f"{path} is not a backup manifest: {error}", "file") from error
    if manifest.format != FORMAT:
        reason = f"{path} has the format {manifest.format!r}, not {FORMAT!r}"
        raise Refused("bad_backup", reason, "file")
    if unknown := manifest.parts.keys() - SUFFIXES.keys():
        reason = f"{path} names unknown parts: {', '.join(sorted(unknown))}"
        raise Refused("bad_backup", reason, "file")
    return manifest


def _check_part(path: Path, expected: Part) -> None:
    size = path.stat().st_size
    if size != expected.bytes:
        reason = f"{path} has {size:,} bytes, but its manifest says {expected.bytes:,}"
        raise Refused("bad_backup", f"{reason}: it was cut off or changed", "file")
    if _describe(path).sha256 != expected.sha256:
        reason = f"{path} is not the file in its manifest: its SHA-256 differs"
        raise Refused("bad_backup", reason, "file")


def _describe(path: Path) -> Part:
    digest, size = hashlib.sha256(), 0
    with path.open("rb") as file:
        while piece := file.read(PIECE_BYTES):
            digest.update(piece)
            size += len(piece)
    return Part(size, digest.hexdigest())
