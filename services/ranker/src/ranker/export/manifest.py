"""What a backup consists of: each file with its size and SHA-256, and what was left out."""

import hashlib
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import msgspec

from shared.errors import Refused

FORMAT = "warpboard-backup/1"
LOG, BLOBS, ACCOUNTS = "log", "blobs", "accounts"
# The files of a set lie beside the log's and begin with its name, so that it can be moved.
SUFFIXES = {LOG: "", BLOBS: ".blobs.tar", ACCOUNTS: ".accounts.tar.gz"}
SUFFIX = ".manifest.json"
PIECE_BYTES = 1024 * 1024
MANIFEST_BYTES_MAX = 64 * 1024 * 1024
HOW = "give --incomplete to restore without it"


class Part(msgspec.Struct, frozen=True):
    """One file of a backup."""

    bytes: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True):
    """A backup: its log, what else belongs to it, and what was left out on purpose.

    `blobs_missing` are named by events and were not in the store any more when it was made.
    """

    format: str
    made_at: datetime
    events: int
    chain: str
    parts: dict[str, Part]
    left_out: list[str] = []
    blobs_missing: list[str] = []


class BackupSet(NamedTuple):
    """What a verified backup has to restore, and what it lacks."""

    parts: frozenset[str]
    lacking: Sequence[str]


def path_of(file: Path, part: str) -> Path:
    """Where a part of a backup lies; `file` is its log."""
    return file.with_name(f"{file.name}{SUFFIXES[part]}")


def manifest_of(file: Path) -> Path:
    """Where the manifest of a backup lies."""
    return file.with_name(f"{file.name}{SUFFIX}")


def write_manifest(file: Path, manifest: Manifest) -> None:
    """Write the manifest, whole or not at all. It comes last: without it nothing is a backup."""
    path = manifest_of(file)
    fresh = path.with_name(f"{path.name}.part")
    fresh.write_bytes(msgspec.json.format(msgspec.json.encode(manifest)) + b"\n")
    fresh.replace(path)


def describe_parts(file: Path, parts: Iterable[str]) -> dict[str, Part]:
    """The size and the digest of each part as it lies there. Errors: OSError."""
    return {part: _describe(path_of(file, part)) for part in parts}


def verify_backup(file: Path, *, is_incomplete_allowed: bool) -> BackupSet:
    """Check every file of a backup against its manifest, before anything is changed.

    What is damaged is always refused; what lacks something, unless that is allowed. Errors:
    Refused `no_file`, `bad_backup`, `incomplete_backup`.
    """
    if not file.exists():
        raise Refused("no_file", f"there is no file {file}", "file")
    if not manifest_of(file).exists():
        present = frozenset(part for part in SUFFIXES if path_of(file, part).exists())
        absent = sorted(SUFFIXES.keys() - present)
        lacking = [f"the manifest {manifest_of(file).name}", *absent]
        return _allow(BackupSet(present, lacking), is_allowed=is_incomplete_allowed)
    manifest = _read_manifest(manifest_of(file))
    lacking = [f"{part} (left out when it was made)" for part in manifest.left_out]
    found = set[str]()
    for part, expected in manifest.parts.items():
        path = path_of(file, part)
        if not path.exists():
            lacking.append(f"{part} (there is no file {path.name})")
            continue
        _check(path, expected)
        found.add(part)
    if LOG not in found:
        raise Refused("bad_backup", f"{manifest_of(file)} names no log", "file")
    return _allow(BackupSet(frozenset(found), lacking), is_allowed=is_incomplete_allowed)


def _allow(backup: BackupSet, *, is_allowed: bool) -> BackupSet:
    if backup.lacking and not is_allowed:
        what = f"the backup is incomplete, it lacks: {', '.join(backup.lacking)}"
        raise Refused("incomplete_backup", f"{what}; {HOW}", "file")
    return backup


def _read_manifest(path: Path) -> Manifest:
    try:
        if path.stat().st_size > MANIFEST_BYTES_MAX:
            raise Refused("bad_backup", f"{path} is over {MANIFEST_BYTES_MAX:,} bytes", "file")
        manifest = msgspec.json.decode(path.read_bytes(), type=Manifest)
    except (OSError, msgspec.DecodeError) as error:
        raise Refused("bad_backup", f"{path} is not a manifest of ours: {error}", "file") from error
    if manifest.format != FORMAT:
        what = f"{path} has the format {manifest.format!r}, not {FORMAT!r}"
        raise Refused("bad_backup", what, "file")
    if unknown := manifest.parts.keys() - SUFFIXES.keys():
        what = f"{path} names parts that are not known here: {', '.join(sorted(unknown))}"
        raise Refused("bad_backup", what, "file")
    return manifest


def _check(path: Path, expected: Part) -> None:
    size = path.stat().st_size
    if size != expected.bytes:
        what = f"{path} has {size:,} bytes, and its manifest says {expected.bytes:,}"
        raise Refused("bad_backup", f"{what}: it was cut off or changed", "file")
    if _describe(path).sha256 != expected.sha256:
        what = f"{path} is not the file of its manifest: its SHA-256 differs"
        raise Refused("bad_backup", what, "file")


def _describe(path: Path) -> Part:
    digest, size = hashlib.sha256(), 0
    with path.open("rb") as file:
        while piece := file.read(PIECE_BYTES):
            digest.update(piece)
            size += len(piece)
    return Part(size, digest.hexdigest())
