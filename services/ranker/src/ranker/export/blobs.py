"""The blobs that a log names, beside its file, in a tar whose names are digests."""

import hashlib
import io
import tarfile
from collections.abc import Iterable
from pathlib import Path

from shared.blobs import BLOB_BYTES_MAX, Blobs, Missing
from shared.errors import Refused

# A tar that is whole ends with two blocks of zeros; one that was cut off between two members is
# read without a word.
END_BYTES = 2 * tarfile.BLOCKSIZE


async def save(path: Path, digests: Iterable[str], blobs: Blobs) -> tuple[int, list[str]]:
    """Write the blobs; how many there were, and which are not kept any more. Errors: Failed."""
    part = path.with_name(f"{path.name}.part")
    count, missing = 0, []
    try:
        with tarfile.open(part, "w") as tar:
            for digest in digests:
                try:
                    data = await blobs.get(digest)
                except Missing:
                    missing.append(digest)
                    continue
                member = tarfile.TarInfo(digest)
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
                count += 1
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return count, missing


def check_blobs(path: Path) -> set[str]:
    """The digests in a tar, each with the bytes of its name. Errors: Refused `bad_blobs`."""
    found: set[str] = set()
    try:
        with tarfile.open(path, "r:") as tar:
            for member in tar:
                _data(tar, member)
                found.add(member.name)
            end_at = tar.offset
        with path.open("rb") as file:
            file.seek(end_at)
            is_whole = file.read(END_BYTES) == bytes(END_BYTES)
    except (tarfile.TarError, OSError) as error:
        raise Refused("bad_blobs", f"{path} cannot be read: {error}", "file") from error
    if not is_whole:
        raise Refused("bad_blobs", f"{path} was cut off after {len(found)} blobs", "file")
    return found


async def load(path: Path, blobs: Blobs) -> int:
    """Keep every blob of a tar; how many. Errors: Refused `bad_blobs`; Failed.

    Nothing is unpacked to disk, and only what has the digest that it is named by is kept.
    """
    count = 0
    try:
        with tarfile.open(path, "r:") as tar:
            for member in tar:
                await blobs.put(_data(tar, member))
                count += 1
    except (tarfile.TarError, OSError) as error:
        raise Refused("bad_blobs", f"{path} cannot be read: {error}", "file") from error
    return count


def _data(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = tar.extractfile(member) if member.isfile() and member.size <= BLOB_BYTES_MAX else None
    data = b"" if file is None else file.read()
    if file is None or hashlib.sha256(data).hexdigest() != member.name:
        raise Refused("bad_blobs", f"{member.name[:80]!r} in the tar is not the blob of its name")
    return data
