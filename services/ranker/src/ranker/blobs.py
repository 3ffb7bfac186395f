"""The blobs that the log refers to: finding them, removing others, saving and restoring them."""

import hashlib
import io
import re
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from ranker.domain.fold import DIGEST
from ranker.service.progress import log_progress
from shared.blobs import (
    BLOB_BYTES_MAX,
    BLOB_RETENTION_S,
    BlobNotFound,
    BlobStore,
    PrunableBlobStore,
    StoredBlob,
)
from shared.errors import Failed, Refused
from shared.event_log import EventLog
from shared.events import HARNESS_CODE, Blob
from shared.private_files import open_private
from shared.wire import Envelope


def find_blob_digests(envelope: Envelope) -> Iterator[str]:
    """Yield the digest of every blob in an event's data, whatever its type and version.

    >>> from datetime import datetime
    >>> data = b'{"log":{"digest":"ab","bytes":2},"details":{"harness_code":"%s"}}' % (b"c" * 64)
    >>> event = Envelope(id="", type="", v=1, at=datetime(2026, 1, 1), aggregate="", actor="",
    ...     corr="", cause="", data=msgspec.Raw(data))
    >>> [digest[:4] for digest in find_blob_digests(event)]
    ['ab', 'cccc']
    """
    data = bytes(envelope.data)
    if b'"digest"' not in data and HARNESS_CODE.encode() not in data:
        return
    try:
        decoded = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return  # An agent may write unreadable bytes: they refer to nothing.
    yield from _find_in_value(decoded)


def _find_in_value(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for item in value:
            yield from _find_in_value(item)
    elif isinstance(value, dict) and {"digest", "bytes"} <= value.keys():
        with suppress(msgspec.ValidationError):
            yield msgspec.convert(value, Blob).digest
    elif isinstance(value, dict):
        code = value.get(HARNESS_CODE)
        if isinstance(code, str) and DIGEST.match(code):
            yield code
        for item in value.values():
            yield from _find_in_value(item)


# Everything that looks like a digest is a reference: an unknown event type may hold some too.
DIGEST_PATTERN = re.compile(rb'"([0-9a-f]{64})"')


@dataclass(frozen=True)
class Collection:
    """What a garbage collection found and, unless it was a dry run, removed."""

    is_trial: bool
    seq: int
    blobs: int
    blobs_old: int
    removed: int
    removed_bytes: int


async def collect_blobs(
    log: EventLog, archive: PrunableBlobStore, moment: datetime, *, is_trial: bool
) -> Collection:
    """Remove blobs older than two days that no event refers to; a dry run only counts them.

    The store is listed before the log is read: a put after the listing renews the blob under a key
    that the listing does not have. Needs 32 bytes of memory per old blob.

    Raises Failed, also if the log is empty but the store is not, and Gap if the log lost its
    beginning.
    """
    blobs = [blob async for blob in archive.kept()]
    before = moment - timedelta(seconds=BLOB_RETENTION_S)
    old_blobs = [blob for blob in blobs if blob.at < before]
    seq = await log.last()
    if old_blobs and not seq:
        raise Failed(
            "the log is empty and the store is not: check that both belong to the same platform"
        )
    unnamed = await _unnamed(log, old_blobs, seq)
    removed = unnamed if is_trial else [blob for blob in unnamed if await archive.remove(blob)]
    removed_bytes = sum(blob.bytes for blob in removed)
    return Collection(is_trial, seq, len(blobs), len(old_blobs), len(removed), removed_bytes)


async def _unnamed(log: EventLog, blobs: list[StoredBlob], until: int) -> list[StoredBlob]:
    digests = {bytes.fromhex(blob.digest) for blob in blobs}
    feed, last_seq = log.follow(0), 0
    try:
        while last_seq < until:
            for event in await feed.take():
                names = DIGEST_PATTERN.findall(event.body)
                digests.difference_update(bytes.fromhex(name.decode()) for name in names)
                last_seq = event.seq
    finally:
        await feed.close()
    # An unfinished blob has no digest: it counts as b"", which no event refers to.
    return [blob for blob in blobs if bytes.fromhex(blob.digest) in digests]


# A complete tar ends with two blocks of zeros; one that was cut off between two members is read
# without an error.
END_BYTES = 2 * tarfile.BLOCKSIZE


async def save_blobs(path: Path, digests: Sequence[str], blobs: BlobStore) -> tuple[int, list[str]]:
    """Write the blobs; returns their number and the digests that are missing.

    Only the file's owner can read it. Raises Failed.
    """
    part = path.with_name(f"{path.name}.part")
    count, missing = 0, []
    try:
        with open_private(part) as file, tarfile.open(fileobj=file, mode="w") as tar:
            for digest in digests:
                try:
                    data = await blobs.get(digest)
                except BlobNotFound:
                    missing.append(digest)
                    continue
                log_progress("blobs", count + len(missing), len(digests))
                member = tarfile.TarInfo(digest)
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
                count += 1
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return count, missing


def check_blobs(path: Path) -> set[str]:
    """The digests in a tar, each checked against its bytes. Raises Refused `bad_blobs`."""
    digests: set[str] = set()
    try:
        with tarfile.open(path, "r:") as tar:
            for member in tar:
                _read_member(tar, member)
                digests.add(member.name)
            end_at = tar.offset
        with path.open("rb") as file:
            file.seek(end_at)
            is_complete = file.read(END_BYTES) == bytes(END_BYTES)
    except (tarfile.TarError, OSError) as error:
        raise Refused("bad_blobs", f"{path} cannot be read: {error}", "file") from error
    if not is_complete:
        raise Refused("bad_blobs", f"{path} was cut off after {len(digests)} blobs", "file")
    return digests


async def load_blobs(path: Path, blobs: BlobStore, total: int) -> int:
    """Store the `total` blobs of a tar; returns their number. Raises Refused `bad_blobs` or Failed.

    Nothing is unpacked to disk, and only blobs that match their digest are stored.
    """
    count = 0
    try:
        with tarfile.open(path, "r:") as tar:
            for member in tar:
                log_progress("blobs", count, total)
                await blobs.put(_read_member(tar, member))
                count += 1
    except (tarfile.TarError, OSError) as error:
        raise Refused("bad_blobs", f"{path} cannot be read: {error}", "file") from error
    return count


def _read_member(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = tar.extractfile(member) if member.isfile() and member.size <= BLOB_BYTES_MAX else None
    data = b"" if file is None else file.read()
    if file is None or hashlib.sha256(data).hexdigest() != member.name:
        raise Refused("bad_blobs", f"{member.name[:80]!r} in the tar is not the blob of its name")
    return data
