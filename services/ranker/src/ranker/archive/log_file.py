"""An exported log: gzipped JSON lines with the events byte for byte, chained line by line."""

import gzip
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import msgspec

from ranker.domain.stored_log import CHAIN_START, DamagedCopy, StoredEvent
from shared.errors import Refused
from shared.private_files import open_private
from shared.segments import EventLine, decode_event_line, encode_event_line

FORMAT = "warpboard-log/1"
LEVEL = 6
LINE_BYTES_MAX = 1024 * 1024


class Header(msgspec.Struct):
    """The first line: what follows, and the public key of the seals if there is one."""

    format: str
    count: int
    h: str
    key: str | None = None


class End(msgspec.Struct):
    """The last line: the number of events, and the chain up to the last."""

    end: int
    h: str


_decode_header = msgspec.json.Decoder(Header).decode
_decode_end = msgspec.json.Decoder(End).decode

Decoded = TypeVar("Decoded")


class LogFileWriter:
    """Writes events in order, for its owner alone; the file is complete only after `close`."""

    def __init__(self, path: Path, count: int, key: str | None) -> None:
        self._path = path
        self._part = path.with_name(f"{path.name}.part")
        self._raw = open_private(self._part)
        self._file = gzip.GzipFile(filename="", mode="wb", compresslevel=LEVEL, fileobj=self._raw)
        self._chain = CHAIN_START
        self._seq = 0
        self._write_line(Header(FORMAT, count, CHAIN_START.hex(), key))

    def write(self, stored: StoredEvent) -> None:
        """Write the next event."""
        assert stored.seq == self._seq + 1, f"event {stored.seq} follows event {self._seq}"
        self._file.write(encode_event_line(EventLine(*stored[:4])) + b"\n")
        self._seq, self._chain = stored.seq, stored.chain_after(self._chain)

    def close(self) -> str:
        """Finish the file and rename it into place; returns its chain in hex."""
        self._write_line(End(self._seq, self._chain.hex()))
        self._close()
        self._part.replace(self._path)
        return self._chain.hex()

    def drop(self) -> None:
        """Delete an unfinished file."""
        self._close()
        self._part.unlink(missing_ok=True)

    def _close(self) -> None:
        self._file.close()
        self._raw.close()

    def _write_line(self, line: msgspec.Struct) -> None:
        self._file.write(msgspec.json.encode(line) + b"\n")


class LogFileReader:
    """Reads an exported log, any number of times; `end` is set after all events were read.

    Raises DamagedCopy with the last event before the damage.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.end: End | None = None
        with self._lines() as lines:
            self.header = _decode(_decode_header, _read_line(lines, 0), 0)
        if self.header.format != FORMAT:
            raise DamagedCopy(0, f"{path} has the format {self.header.format!r}, not {FORMAT!r}")

    def events(self) -> Iterator[StoredEvent]:
        """Every event in the file's order; then checks that the file is complete."""
        seq, count = 0, 0
        with self._lines() as lines:
            _read_line(lines, 0)  # The header.
            while True:
                text = _read_line(lines, seq)
                if text.startswith(b'{"end":'):
                    break
                line = _decode(decode_event_line, text, seq)
                seq, count = line.seq, count + 1
                yield StoredEvent(*line)
        end = _decode(_decode_end, text, seq)
        if not count == end.end == self.header.count:
            counts = f"{self.header.count} at its start and {end.end} at its end"
            raise DamagedCopy(seq, f"the file says that it has {counts} events, but has {count}")
        self.end = end

    @contextmanager
    def _lines(self) -> Iterator[gzip.GzipFile]:
        try:
            with gzip.open(self.path, "rb") as file:
                yield file
        except FileNotFoundError as error:
            raise Refused("no_file", f"there is no file {self.path}", "file") from error


def _read_line(file: gzip.GzipFile, seq: int) -> bytes:
    """The line after an event, of bounded length. Raises DamagedCopy."""
    try:
        text = file.readline(LINE_BYTES_MAX)
    except (EOFError, OSError, zlib.error) as error:
        raise DamagedCopy(seq, f"the file cannot be read after event {seq}: {error}") from error
    if len(text) == LINE_BYTES_MAX:
        raise DamagedCopy(seq, f"the line after event {seq} is over {LINE_BYTES_MAX} bytes")
    if not text:
        raise DamagedCopy(seq, f"the file ends after event {seq}, before its last line")
    return text


def _decode(decode: Callable[[bytes], Decoded], text: bytes, seq: int) -> Decoded:
    try:
        return decode(text)
    except (msgspec.DecodeError, ValueError) as error:
        raise DamagedCopy(
            seq, f"the line after event {seq} is not in the expected format: {error}"
        ) from error


def open_log_file(path: Path) -> LogFileReader:
    """Open a file that an operator named. Raises Refused."""
    try:
        return LogFileReader(path)
    except DamagedCopy as damaged:
        raise Refused("bad_export", damaged.reason, "file") from damaged
