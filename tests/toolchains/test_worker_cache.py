"""Compile caches are carried from one box to the next, and cannot write elsewhere."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from harness.worker import submission
from harness.worker.submission import InvalidPack, pack_built, unpack_built

from .builds import contents


def _filled(folder: Path) -> Path:
    (folder / "fixed").mkdir(parents=True)
    (folder / "fixed/fixed.so").write_bytes(b"\x7fELF")
    (folder / "fixed/fixed.so").chmod(0o755)
    (folder / "fixed/.ninja_log").write_text("# ninja log v5\n")
    os.utime(folder / "fixed/fixed.so", ns=(1, 1_700_000_000_123_456_789))
    return folder


def _packed(memory: int, names: Any, data: bytes = b"") -> int:
    head = json.dumps(names).encode()
    os.write(memory, len(head).to_bytes(8) + head + data)
    return memory


def test_files_come_back_with_bits_modes_and_times(tmp_path: Path, memory: int) -> None:
    assert pack_built(str(_filled(tmp_path / "a")), memory)
    assert unpack_built(memory, str(tmp_path / "b")) == 2
    library = tmp_path / "b/fixed/fixed.so"
    assert library.read_bytes() == b"\x7fELF"
    assert (library.stat().st_mode & 0o777, library.stat().st_mtime_ns) == (
        0o755,
        1_700_000_000_123_456_789,
    )
    assert (tmp_path / "b/fixed/.ninja_log").read_text() == "# ninja log v5\n"


def test_a_pack_is_unpacked_any_number_of_times(tmp_path: Path, memory: int) -> None:
    pack_built(str(_filled(tmp_path / "a")), memory)
    assert [unpack_built(memory, str(tmp_path / name)) for name in "bcd"] == [2, 2, 2]


def test_equal_folders_make_equal_packs(tmp_path: Path, memory: int) -> None:
    folder = str(_filled(tmp_path / "a"))
    pack_built(folder, memory)
    other = os.memfd_create("other")
    pack_built(folder, other)
    assert contents(memory) == contents(other)
    os.close(other)


def test_nothing_compiled_means_nothing_packed(tmp_path: Path, memory: int) -> None:
    assert not pack_built(str(tmp_path / "absent"), memory)
    (tmp_path / "mark.txt").write_text("I was here")
    assert not pack_built(str(tmp_path), memory)
    assert contents(memory) == b""


def test_of_other_folders_only_those_with_compiled_files_are_packed(
    tmp_path: Path, memory: int
) -> None:
    home = tmp_path / "home"
    for name in ("cache/graphs/a.json", "mine/k.so", "mine/k.cpp", "data/large.bin"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_bytes(b"x")
    assert pack_built(str(home), memory)
    assert unpack_built(memory, str(tmp_path / "b")) == 3
    assert not (tmp_path / "b/data").exists()


def test_links_and_devices_are_left_out(tmp_path: Path, memory: int) -> None:
    folder = _filled(tmp_path / "a")
    (folder / "shadow.so").symlink_to("/etc/shadow")
    (folder / "up").symlink_to(tmp_path)
    os.mkfifo(folder / "pipe.o")
    assert pack_built(str(folder), memory)
    assert unpack_built(memory, str(tmp_path / "b")) == 2


def test_too_much_is_not_packed(tmp_path: Path, memory: int) -> None:
    folder = _filled(tmp_path / "a")
    with (folder / "large.o").open("wb") as file:
        file.truncate(submission.PACK_BYTES_MAX)
    assert not pack_built(str(folder), memory)
    assert contents(memory) == b""


@pytest.mark.parametrize(
    "name", ["../up", "/etc/cron.d/x", "a/../../up", "", ".", "..", "a\0b", "a/../.."]
)
def test_a_name_that_leads_out_is_refused(tmp_path: Path, memory: int, name: str) -> None:
    with pytest.raises(InvalidPack, match="forbidden name"):
        unpack_built(_packed(memory, [[name, 1, 0o644, 1]], b"x"), str(tmp_path / "b"))
    assert not (tmp_path / "up").exists()


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ([["a", 2, 0o644, 1]], "ends within 'a'"),
        ([["a", -1, 0o644, 1]], "forbidden name 'a'"),
        ([["a", 2**40, 0o644, 1]], "contains more than is allowed"),
        ([["a", 1, 0o644]], "cannot be read"),
        ([["a", "1", 0o644, 1]], "cannot be read"),
        ({"a": 1}, "cannot be read"),
        ([None], "cannot be read"),
        ([[5, 1, 1, 1]], "cannot be read"),
    ],
)
def test_a_pack_that_is_none_is_refused(tmp_path: Path, memory: int, names: Any, text: str) -> None:
    with pytest.raises(InvalidPack, match=text):
        unpack_built(_packed(memory, names, b"x"), str(tmp_path / "b"))


@pytest.mark.parametrize("data", [b"", b"\xff" * 100, b"\0" * 8], ids=["none", "long", "no list"])
def test_noise_is_refused(tmp_path: Path, memory: int, data: bytes) -> None:
    os.write(memory, data)
    with pytest.raises(InvalidPack):
        unpack_built(memory, str(tmp_path / "b"))


def test_nothing_is_overwritten(tmp_path: Path, memory: int) -> None:
    target = tmp_path / "b"
    target.mkdir()
    (target / "a").symlink_to(tmp_path / "outside")
    with pytest.raises(FileExistsError):
        unpack_built(_packed(memory, [["a", 1, 0o644, 1]], b"x"), str(target))
    assert not (tmp_path / "outside").exists()


def test_special_modes_are_dropped(tmp_path: Path, memory: int) -> None:
    unpack_built(_packed(memory, [["a", 1, 0o4755, 1]], b"x"), str(tmp_path / "b"))
    assert (tmp_path / "b/a").stat().st_mode & 0o7777 == 0o755
