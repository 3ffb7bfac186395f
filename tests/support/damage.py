"""What a failing disk does to a log: a flipped bit in a block of its stream, or no room at all."""

import os
import shutil
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from shared.bus_keys.login import BusLogin
from shared.clock import new_id
from shared.nats.connection import MESSAGE_ID_HEADER, connect, publish
from shared.nats.streams import ensure_streams
from shared.servers.nats import NatsServer
from shared.subjects import STREAM

# nats-server keeps a stream in files of 8 MB: this many events of this size fill two and a bit.
FILLERS = 160
FILLER_BYTES = 128 * 1024


def find_messages(folder: Path) -> Path:
    """Where a nats-server keeps the log, below its own folder."""
    (account,) = (folder / "store" / "jetstream").glob(f"*/streams/{STREAM}/msgs")
    return account


def find_blocks(folder: Path) -> list[Path]:
    """The files of the log, oldest first, below the folder of its nats-server."""
    return sorted(find_messages(folder).glob("*.blk"), key=lambda block: int(block.stem))


def flip_bit(path: Path, place: float = 0.5) -> None:
    """Change one bit of a file, at a share of its length."""
    with path.open("r+b") as file:
        at = int(path.stat().st_size * place)
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1]))


class EventRecord(NamedTuple):
    """Where a message of a stream is in its file, and the places of its parts in bytes."""

    block: Path
    places: dict[str, int]

    def flip(self, part: str) -> None:
        """Change the lowest bit of a part's first byte."""
        with self.block.open("r+b") as file:
            file.seek(self.places[part])
            byte = file.read(1)[0]
            file.seek(self.places[part])
            file.write(bytes([byte ^ 1]))


# Of a record: length (its highest bit says that there are headers), sequence, time, length of the
# subject. Then come subject, headers, body and a checksum of 8 bytes.
RECORD = struct.Struct("<IQQH")
HAS_HEADERS = 1 << 31


def find_record(folder: Path, seq: int) -> EventRecord:
    """Find an event of the log in the files of its nats-server, which is stopped."""
    for block in find_blocks(folder):
        data, at = block.read_bytes(), 0
        while at < len(data):
            length, found_seq, _, subject_bytes = RECORD.unpack_from(data, at)
            size = length & ~HAS_HEADERS
            if found_seq == seq:
                subject, end = at + RECORD.size, at + size
                places = {"length": at, "sequence": at + 4, "time": at + 12, "subject": subject}
                places |= {"headers": subject + subject_bytes + 4, "body": end - 16}
                return EventRecord(block, places | {"checksum": end - 8})
            at += size
    raise LookupError(f"event {seq} is in no file of {folder}")


async def fill_log(login: BusLogin | str, count: int = FILLERS) -> None:
    """Append large events that mean nothing to anybody, so that the log has several files."""
    nc = await connect(login, "fill")
    body = b'{"filler": "%b"}' % (b"x" * FILLER_BYTES)
    try:
        await ensure_streams(nc)
        for number in range(count):
            subject = f"events.report.local.filler{number % 8}"
            await publish(nc, subject, body, {MESSAGE_ID_HEADER: new_id()})
    finally:
        await nc.close()


def break_middle(server: NatsServer) -> None:
    """End a server as a power cut would, flip a bit in the middle of its log, and start it."""
    server.kill()
    blocks = find_blocks(server.folder)
    assert len(blocks) > 2, "a log of one file loses its end, not its middle"
    flip_bit(blocks[1])
    server.start()


@contextmanager
def small_disk(folder: Path, size_mib: int) -> Iterator[Path]:
    """A file system of its own in memory; skips where nobody may mount one."""
    with mounted_disk(folder, size_mib) as problem:
        if problem:
            pytest.skip(f"NOT RUN: {problem}")
        yield folder


@contextmanager
def mounted_disk(folder: Path, size_mib: int) -> Iterator[str]:
    """Mount a file system in memory on a folder; yield why it is not there, "" if it is."""
    folder.mkdir(parents=True, exist_ok=True)
    options = f"size={size_mib}m,mode=0711"
    mount, umount = shutil.which("mount"), shutil.which("umount")
    if mount is None or umount is None:
        yield "there is no mount command, so no disk can be filled"
        return
    command = [mount, "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    mounted = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    if mounted.returncode:
        yield f"a small disk cannot be mounted here: {mounted.stderr.strip()}"
        return
    try:
        yield ""
    finally:
        for _ in range(50):
            ended = subprocess.run([umount, str(folder)], capture_output=True, check=False)
            if ended.returncode == 0:
                break
            time.sleep(0.1)


def fill_disk(folder: Path) -> Path:
    """Take all the room that a file system has left, and return the file that has it."""
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file:
        for size in (1024 * 1024, 4096):
            while True:
                try:
                    file.write(os.urandom(size))
                except OSError:
                    break
    return ballast
