"""An exported log keeps all bytes, and any damage to the file is found and named."""

import gzip
from pathlib import Path

import pytest

from ranker.archive.log_file import LogFileReader, LogFileWriter
from ranker.domain.stored_log import CHAIN_START, DamagedCopy, StoredEvent
from shared.errors import Refused

BODIES = [
    b'{"id":"e1","data":{"x":"\xc3\xa9\\n"}}',
    b'{ "id": "e2",\n "data": {} }',
    b"no json at all \x00\xff",
    b'{"id":"e4"} ',
]
EVENTS = [
    StoredEvent(seq, f"events.problem.p{seq}", f"e{seq}", body)
    for seq, body in enumerate(BODIES, 1)
]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "log.gz"
    writer = LogFileWriter(path, len(EVENTS), "a key")
    for event in EVENTS:
        writer.write(event)
    writer.close()
    return path


def rewrite(file: Path, lines: list[bytes]) -> None:
    file.write_bytes(gzip.compress(b"".join(lines)))


def lines(file: Path) -> list[bytes]:
    return gzip.decompress(file.read_bytes()).splitlines(keepends=True)


def test_every_byte_comes_back(file: Path) -> None:
    reader = LogFileReader(file)
    assert list(reader.events()) == list(reader.events()) == EVENTS
    h = CHAIN_START
    for event in EVENTS:
        h = event.chain_after(h)
    assert reader.end is not None
    assert (reader.header.key, reader.header.count, reader.end.h) == ("a key", 4, h.hex())


def test_a_body_stands_in_its_line_as_it_is(file: Path) -> None:
    assert BODIES[0] in lines(file)[1]


def test_an_export_that_was_broken_off_leaves_no_file(tmp_path: Path) -> None:
    writer = LogFileWriter(tmp_path / "log.gz", 2, None)
    writer.write(EVENTS[0])
    writer.drop()
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_ends_early_is_damaged(file: Path) -> None:
    rewrite(file, lines(file)[:3])
    with pytest.raises(DamagedCopy, match="ends after event 2") as damaged:
        list(LogFileReader(file).events())
    assert damaged.value.seq == 2


def test_a_torn_file_is_damaged(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-12])
    with pytest.raises(DamagedCopy, match="cannot be read after"):
        list(LogFileReader(file).events())


def test_a_file_that_lacks_an_event_is_damaged(file: Path) -> None:
    all_lines = lines(file)
    rewrite(file, all_lines[:2] + all_lines[3:])
    with pytest.raises(DamagedCopy, match="but has 3"):
        list(LogFileReader(file).events())


def test_a_file_of_something_else_is_damaged(tmp_path: Path) -> None:
    other = tmp_path / "other.gz"
    rewrite(other, [b'{"hello":1}\n'])
    with pytest.raises(DamagedCopy, match="not in the expected format"):
        LogFileReader(other)
    other.write_bytes(b"not gzip")
    with pytest.raises(DamagedCopy, match="cannot be read"):
        LogFileReader(other)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="there is no file"):
        LogFileReader(tmp_path / "nothing.gz")
