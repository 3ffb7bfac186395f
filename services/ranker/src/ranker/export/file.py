"""An exported log: gzip of JSON lines, the events byte for byte, chained from line to line."""

import base64
import gzip
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import msgspec

from ranker.domain.kept import Damaged, Kept
from shared import chain
from shared.errors import Refused

FORMAT = "warpboard-log/1"
LEVEL = 6
LINE_BYTES_MAX = 1024 * 1024


class Header(msgspec.Struct):
    """The first line: what follows, and the public key of its seals if they have one."""

    format: str
    count: int
    h: str
    key: str | None = None


class End(msgspec.Struct):
    """The last line: how many events there were, and the chain up to the last."""

    end: int
    h: str


class _Line(msgspec.Struct, omit_defaults=True):
    """One event; a body that is not one plain line of JSON stands in base64 instead."""

    seq: int
    subject: str
    id: str
    body: msgspec.Raw = msgspec.Raw()
    base64: str = ""


_header = msgspec.json.Decoder(Header).decode
_line = msgspec.json.Decoder(_Line).decode
_end = msgspec.json.Decoder(End).decode
_raw = msgspec.json.Decoder(msgspec.Raw).decode

Found = TypeVar("Found")


class Writer:
    """Writes events in order; `close` ends the file, without which it is not whole."""

    def __init__(self, path: Path, count: int, key: str | None) -> None:
        self._path = path
        self._part = path.with_name(f"{path.name}.part")
        self._file = gzip.open(self._part, "wb", LEVEL)  # noqa: SIM115  (closed in `close`)
        self._chain = chain.START
        self._seq = 0
        self._put(Header(FORMAT, count, chain.START.hex(), key))

    def write(self, one: Kept) -> None:
        """The next event."""
        assert one.seq == self._seq + 1, f"after event {self._seq} comes {one.seq}"
        line = _Line(one.seq, one.subject, one.id, msgspec.Raw(one.body))
        if not _is_plain(one.body):
            line = _Line(one.seq, one.subject, one.id, base64=base64.b64encode(one.body).decode())
        self._put(line)
        self._seq, self._chain = one.seq, chain.after(self._chain, one.link)

    def close(self) -> str:
        """End the file and give it its name; the chain up to the last event, hex."""
        self._put(End(self._seq, self._chain.hex()))
        self._file.close()
        self._part.replace(self._path)
        return self._chain.hex()

    def drop(self) -> None:
        """Leave nothing, if `close` was not reached."""
        self._file.close()
        self._part.unlink(missing_ok=True)

    def _put(self, line: msgspec.Struct) -> None:
        self._file.write(msgspec.json.encode(line) + b"\n")


def _is_plain(body: bytes) -> bool:
    """Whether a body can stand in a line as it is, and is read back as the same bytes."""
    try:
        return b"\n" not in body and bytes(_raw(body)) == body
    except msgspec.DecodeError:
        return False


class Reader:
    """Reads an exported log, again and again; `end` is there once all events were read.

    Errors: Damaged, with the last event before the damage.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.end: End | None = None
        with self._lines() as lines:
            self.header = _parsed(_header, lines, 0)
        if self.header.format != FORMAT:
            raise Damaged(0, f"{path} has the format {self.header.format!r}, not {FORMAT!r}")

    def events(self) -> Iterator[Kept]:
        """Every event, in the file's order, then the check that the file is whole."""
        seq, found = 0, 0
        with self._lines() as lines:
            _parsed(_header, lines, 0)
            while True:
                text = _next(lines, seq)
                if text.startswith(b'{"end":'):
                    break
                one = _event(text, seq)
                seq, found = one.seq, found + 1
                yield one
        end = _decoded(_end, text, seq)
        if not found == end.end == self.header.count:
            said = f"{self.header.count} at its start and {end.end} at its end"
            raise Damaged(seq, f"the file says that it has {said} events, but has {found}")
        self.end = end

    @property
    def last_h(self) -> str | None:
        """The chain in the last line, once it was read."""
        return None if self.end is None else self.end.h

    @contextmanager
    def _lines(self) -> Iterator["_Lines"]:
        try:
            with gzip.open(self.path, "rb") as file:
                yield _Lines(file)
        except FileNotFoundError as error:
            raise Refused("no_file", f"there is no file {self.path}", "file") from error


class _Lines:
    """The lines of a gzip file, each of bounded length."""

    def __init__(self, file: gzip.GzipFile) -> None:
        self._file = file

    def read_line(self, seq: int) -> bytes:
        """The next line, empty at the end. Errors: Damaged."""
        try:
            text = self._file.readline(LINE_BYTES_MAX)
        except (EOFError, OSError, zlib.error) as error:
            raise Damaged(seq, f"the file cannot be read on after event {seq}: {error}") from error
        if len(text) == LINE_BYTES_MAX:
            raise Damaged(seq, f"after event {seq} comes a line over {LINE_BYTES_MAX} bytes")
        return text


def _next(lines: _Lines, seq: int) -> bytes:
    text = lines.read_line(seq)
    if not text:
        raise Damaged(seq, f"the file ends after event {seq}, before its last line")
    return text


def _event(text: bytes, seq: int) -> Kept:
    line = _decoded(_line, text, seq)
    body = base64.b64decode(line.base64) if line.base64 else bytes(line.body)
    return Kept(line.seq, line.subject, line.id, body)


def _parsed(decode: Callable[[bytes], Found], lines: _Lines, seq: int) -> Found:
    return _decoded(decode, _next(lines, seq), seq)


def _decoded(decode: Callable[[bytes], Found], text: bytes, seq: int) -> Found:
    try:
        return decode(text)
    except (msgspec.DecodeError, ValueError) as error:
        raise Damaged(
            seq, f"after event {seq} comes a line that is none of ours: {error}"
        ) from error
