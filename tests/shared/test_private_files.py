"""Private files are readable by their owner alone, whatever the umask is and was there before."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from ranker.archive.log_file import LogFileWriter
from shared.private_files import (
    close_empty_folder,
    create_private_folder,
    is_open_to_others,
    open_private,
)
from warpboard.files import write_file, write_files


@pytest.fixture(autouse=True)
def lax_umask() -> Iterator[None]:
    """Let new files be open to all, as far as the process itself does not close them."""
    before = os.umask(0)
    yield
    os.umask(before)


def mode_of(path: Path) -> int:
    """The permissions of a file or folder."""
    return stat.S_IMODE(path.stat().st_mode)


def test_a_private_file_replaces_an_open_one(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_bytes(b"old")
    with file.open("rb") as reader:
        with open_private(file) as writer:
            assert mode_of(file) == 0o600
            writer.write(b"new")
        assert reader.read() == b"old"
    assert (file.read_bytes(), mode_of(file)) == (b"new", 0o600)


def test_a_private_file_does_not_follow_a_link(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"theirs")
    link.symlink_to(target)
    with open_private(link) as writer:
        writer.write(b"ours")
    assert (target.read_bytes(), link.is_symlink()) == (b"theirs", False)


def test_missing_folders_are_private_and_existing_ones_stay(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    create_private_folder(tmp_path / "a" / "b")
    assert [mode_of(tmp_path / name) for name in ("", "a", "a/b")] == [0o755, 0o700, 0o700]
    assert (is_open_to_others(tmp_path), is_open_to_others(tmp_path / "a")) == (True, False)
    close_empty_folder(tmp_path)
    assert mode_of(tmp_path) == 0o755


def test_a_log_is_private_while_it_is_written(tmp_path: Path) -> None:
    writer = LogFileWriter(tmp_path / "log.gz", 0, None)
    assert mode_of(tmp_path / "log.gz.part") == 0o600
    writer.close()
    writer.drop()
    assert mode_of(tmp_path / "log.gz") == 0o600


def test_what_a_client_saves_of_submissions_is_private(tmp_path: Path) -> None:
    results = tmp_path / "results.csv"
    results.write_bytes(b"old")
    write_file(results, b"new")
    write_files(tmp_path / "run", {"log.txt": b"log"})
    assert (mode_of(results), mode_of(tmp_path / "run" / "log.txt")) == (0o600, 0o600)
    assert mode_of(tmp_path / "run") == 0o700
    # A new problem is meant for others.
    write_files(tmp_path / "problem", {"task.yml": b"name: x"}, is_private=False)
    assert mode_of(tmp_path / "problem" / "task.yml") == 0o666
