"""Which files `submit` and `run` send: some paths, or those of a folder."""

from pathlib import Path

import pytest

from shared.errors import Refused
from warpboard.files import read_submission


def write(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# {name}\n")


def names_of(*paths: Path) -> list[str]:
    return [file.name for file in read_submission(*paths)]


def test_the_first_path_is_the_entry_and_names_the_others(tmp_path: Path) -> None:
    write(tmp_path, "k/kernel.py", "k/lib/tile.cuh", "k/helper.cu", "other.py")
    folder = tmp_path / "k"
    paths = (folder / "kernel.py", folder / "lib/../lib/tile.cuh", folder / "helper.cu")
    assert names_of(*paths) == ["kernel.py", "lib/tile.cuh", "helper.cu"]
    for path, words in ((tmp_path / "other.py", "not beside"), (folder / "lib", "is a folder")):
        with pytest.raises(Refused, match=words):
            read_submission(folder / "kernel.py", path)


def test_a_folder_stands_for_its_source_files(tmp_path: Path) -> None:
    write(tmp_path, "kernel.py", "helper.py", "lib/tile.cuh", ".git/x.py", ".hidden.py")
    write(tmp_path, "README.md", "lib/__pycache__/tile.py", "problem/reference.py")
    assert names_of(tmp_path) == ["kernel.py", "helper.py", "lib/tile.cuh"]


def test_a_folder_without_one_entry_is_refused_with_the_fix(tmp_path: Path) -> None:
    write(tmp_path, "a.py", "b.py")
    with pytest.raises(Refused, match=r"could be a\.py and b\.py: call one submission or kernel"):
        read_submission(tmp_path)
    (tmp_path / "b.py").unlink()
    assert names_of(tmp_path) == ["a.py"]
    (tmp_path / "a.py").unlink()
    with pytest.raises(Refused, match="could be none"):
        read_submission(tmp_path)
