"""An exported log: the same bytes back, and whatever is wrong with a file found and named."""

import gzip
from pathlib import Path

import pytest

from ranker.domain.kept import Damaged, Kept
from ranker.export.file import Reader, Writer
from shared import chain
from shared.errors import Refused

BODIES = [
    b'{"id":"e1","data":{"x":"\xc3\xa9\\n"}}',
    b'{ "id": "e2",\n "data": {} }',
    b"no json at all \x00\xff",
    b'{"id":"e4"} ',
]
EVENTS = [
    Kept(seq, f"events.problem.p{seq}", f"e{seq}", body) for seq, body in enumerate(BODIES, 1)
]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "log.gz"
    writer = Writer(path, len(EVENTS), "a key")
    for one in EVENTS:
        writer.write(one)
    writer.close()
    return path


def rewrite(file: Path, lines: list[bytes]) -> None:
    file.write_bytes(gzip.compress(b"".join(lines)))


def lines(file: Path) -> list[bytes]:
    return gzip.decompress(file.read_bytes()).splitlines(keepends=True)


def test_every_byte_comes_back(file: Path) -> None:
    reader = Reader(file)
    assert list(reader.events()) == list(reader.events()) == EVENTS
    h = chain.START
    for one in EVENTS:
        h = chain.after(h, one.link)
    assert reader.end is not None
    assert (reader.header.key, reader.header.count, reader.end.h) == ("a key", 4, h.hex())


def test_a_body_stands_in_its_line_as_it_is(file: Path) -> None:
    assert BODIES[0] in lines(file)[1]


def test_an_export_that_was_broken_off_leaves_no_file(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "log.gz", 2, None)
    writer.write(EVENTS[0])
    writer.drop()
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_ends_early_is_damaged(file: Path) -> None:
    rewrite(file, lines(file)[:3])
    with pytest.raises(Damaged, match="ends after event 2") as damaged:
        list(Reader(file).events())
    assert damaged.value.seq == 2


def test_a_torn_file_is_damaged(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-12])
    with pytest.raises(Damaged, match="cannot be read on"):
        list(Reader(file).events())


def test_a_file_that_lacks_an_event_is_damaged(file: Path) -> None:
    kept = lines(file)
    rewrite(file, kept[:2] + kept[3:])
    with pytest.raises(Damaged, match="but has 3"):
        list(Reader(file).events())


def test_a_file_of_something_else_is_damaged(tmp_path: Path) -> None:
    other = tmp_path / "other.gz"
    rewrite(other, [b'{"hello":1}\n'])
    with pytest.raises(Damaged, match="none of ours"):
        Reader(other)
    other.write_bytes(b"not gzip")
    with pytest.raises(Damaged, match="cannot be read"):
        Reader(other)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="there is no file"):
        Reader(tmp_path / "nothing.gz")
