"""A build result is cached under one key: complete, bounded, and written once."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.build.plan import ENTRY_BYTES_MAX, BuildCache, build_key, read_memory, seal_memory

ONE, TWO, THREE = ("0" * 63 + digit for digit in "123")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[int]:
    """An open folder."""
    descriptor = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    yield descriptor
    os.close(descriptor)


def test_what_was_put_is_got(folder: int) -> None:
    cache = BuildCache(folder)
    assert cache.get(ONE) is None
    assert cache.put(ONE, b"built")
    assert cache.get(ONE) == b"built"
    assert BuildCache(folder).get(ONE) == b"built"
    assert cache.get(TWO) is None


def test_the_first_writer_of_a_key_wins(folder: int) -> None:
    cache = BuildCache(folder)
    assert cache.put(ONE, b"first")
    assert not cache.put(ONE, b"second")
    assert cache.get(ONE) == b"first"


@pytest.mark.parametrize("data", [b"", bytes(ENTRY_BYTES_MAX + 1)], ids=["none", "too many"])
def test_a_wrong_number_of_bytes_is_not_kept(folder: int, data: bytes) -> None:
    assert not BuildCache(folder).put(ONE, data)
    assert not os.listdir(folder)


@pytest.mark.parametrize("kept", [b"", b"\0" * 32 + b"built", b"x" * 10])
def test_a_damaged_entry_is_thrown_away(folder: int, tmp_path: Path, kept: bytes) -> None:
    cache = BuildCache(folder)
    (tmp_path / ONE).write_bytes(kept)
    assert cache.get(ONE) is None
    assert cache.put(ONE, b"built anew")
    assert cache.get(ONE) == b"built anew"


def test_the_longest_unused_go_first(folder: int, tmp_path: Path) -> None:
    cache = BuildCache(folder, total_bytes_max=3 * 132)
    for number, key in enumerate((ONE, TWO, THREE)):
        assert cache.put(key, bytes(100))
        os.utime(tmp_path / key, (number, number))
    assert cache.get(ONE) == bytes(100)
    assert cache.put("a" * 64, bytes(100))
    assert cache.get(TWO) is None
    assert cache.get(ONE) == cache.get(THREE) == cache.get("a" * 64) == bytes(100)


def test_an_entry_larger_than_all_room_stays_alone(folder: int) -> None:
    cache = BuildCache(folder, total_bytes_max=10)
    assert cache.put(ONE, bytes(100))
    assert cache.put(TWO, bytes(100))
    assert cache.get(ONE) is None
    assert cache.get(TWO) == bytes(100)


def test_what_a_killed_writer_left_is_swept(folder: int, tmp_path: Path) -> None:
    (tmp_path / f"{ONE}.0123.new").write_bytes(b"half")
    cache = BuildCache(folder)
    cache.put(TWO, b"whole")
    cache.sweep()
    assert os.listdir(folder) == [TWO]


@pytest.mark.parametrize("key", ["../" + "0" * 61, "0" * 63, "Z" * 64, ""])
def test_a_key_is_never_a_path(folder: int, key: str) -> None:
    with pytest.raises(AssertionError):
        BuildCache(folder).get(key)


def test_a_link_is_not_followed(folder: int, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"secret")
    (tmp_path / ONE).symlink_to(tmp_path / "secret")
    with pytest.raises(OSError, match="symbolic links"):
        BuildCache(folder).get(ONE)


def test_everything_that_shapes_the_result_shapes_the_key() -> None:
    given = (b"source", ("-O2",), {"g++": "12"}, "sm_90a", "2")
    others = [
        (b"source ", *given[1:]),
        (given[0], (), *given[2:]),
        (*given[:2], {"g++": "13"}, *given[3:]),
        (*given[:3], "sm_100a", "2"),
        (*given[:4], "3"),
    ]
    keys = {build_key(*one) for one in (given, *others)}
    assert len(keys) == 6
    assert all(len(key) == 64 for key in keys)
    assert build_key(*given) == build_key(b"source", ["-O2"], {"g++": "12"}, "sm_90a", "2")


def test_a_sealed_memory_cannot_be_changed() -> None:
    descriptor = seal_memory(b"built")
    assert os.pread(descriptor, 10, 0) == b"built"
    for change in (
        lambda: os.pwrite(descriptor, b"x", 0),
        lambda: os.ftruncate(descriptor, 0),
        lambda: os.ftruncate(descriptor, 100),
    ):
        with pytest.raises(PermissionError):
            change()
    os.close(descriptor)


def test_too_much_from_a_guest_is_nothing(memory: int) -> None:
    os.write(memory, b"0123456789")
    assert read_memory(memory) == b"0123456789"
    assert read_memory(memory, bytes_max=9) == b""
