"""Competition files, folders and repositories as operators let them in; no server is needed."""

import asyncio
from pathlib import Path

import pytest

from ingest.popcorn.contests import contest, with_gpus
from ingest.popcorn.publishing import contests_in
from ingest.popcorn.repositories import cloned, directory_in, files_of, listed
from shared.errors import Refused

SET = b"""
name: A set
deadline: "2099-01-01"
problems:
  - {directory: a, name: First}
  - {directory: b, name: second, deadline: "2098-05-06 7:30", gpus: [H100, A100]}
"""


def test_a_competition_file_names_its_problems() -> None:
    first, second = contest("set.yaml", SET) or []
    assert (first.slug, first.directory, first.gpus) == ("first", "a", ())
    assert str(first.deadline_at) == "2099-01-01 00:00:00+00:00"
    assert str(second.deadline_at) == "2098-05-06 07:30:00+00:00"
    assert second.gpus == ("H100", "A100")


def test_another_yaml_file_is_no_competition() -> None:
    assert contest("x.yaml", b"name: x\n") is None
    assert contest("x.yaml", b"# problems: none\nname: x\n") is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"problems:\n  - {directory: a, name: x, deadline: soon}\n", "deadline"),
        (b"problems:\n  - {name: x}\n", "no text"),
        (b"problems:\n  - x\n", "no problem"),
        (b"problems:\n  - {directory: a, name: x, gpus: H100}\n", "no list"),
    ],
)
def test_an_odd_competition_file_is_refused_with_its_line(text: bytes, words: str) -> None:
    with pytest.raises(Refused, match=words) as caught:
        contest("set.yaml", text)
    assert "set.yaml, line" in caught.value.reason


def test_a_contests_gpus_stand_unless_the_problem_names_its_own() -> None:
    assert with_gpus({"warpboard.yml": b"title: T\n"}, ("H100",)) == {
        "warpboard.yml": b'title: T\ngpus: ["H100"]\n'
    }
    own = {"warpboard.yml": b"gpus: [A100]\n"}
    assert with_gpus(own, ("H100",)) == own
    with pytest.raises(Refused, match="no GPU type"):
        with_gpus({}, ('H"]',))


def test_no_folder_leads_out_of_its_root(tmp_path: Path) -> None:
    for name in ("root/inside", "outside"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "task.yml").write_text("x")
    (tmp_path / "root" / "link").symlink_to(tmp_path / "outside")
    root = (tmp_path / "root",)
    assert directory_in(root, "inside").name == "inside"
    for directory in ("../outside", "link", "a\0b", str(tmp_path / "outside"), ".", "nothing"):
        with pytest.raises(Refused, match="no folder with a task"):
            directory_in(root, directory)
    with pytest.raises(Refused, match="WARPBOARD_INGEST_PROBLEM_ROOTS"):
        directory_in((), "inside")


def test_a_repositorys_link_is_no_folder_of_contests(tmp_path: Path) -> None:
    for name in ("repository", "private"):
        (tmp_path / name).mkdir()
    (tmp_path / "private" / "set.yaml").write_text("problems: []\n")
    (tmp_path / "repository" / "problems").symlink_to(tmp_path / "private")
    assert contests_in(tmp_path / "repository", None) == []


def test_neither_links_nor_solutions_are_read(tmp_path: Path) -> None:
    (tmp_path / "task.yml").write_text("x")
    (tmp_path / "secret.py").symlink_to("/etc/passwd")
    (tmp_path / "solutions").mkdir()
    (tmp_path / "solutions" / "right.py").write_text("x")
    assert set(files_of(tmp_path)) == {"task.yml"}


async def test_a_repository_comes_from_the_operators_list_alone(tmp_path: Path) -> None:
    for name, branch, code in (
        ("other/set", "main", "unknown_repository"),
        ("ada/set", "--upload-pack=x", "bad_branch"),
        ("ada/set", "a/../b", "bad_branch"),
        ("ada/set", "main", "bad_repository"),
    ):
        known = listed(f"ada/set=file://{tmp_path}/nothing")
        with pytest.raises(Refused) as caught:
            async with asyncio.timeout(60), cloned(known, name, branch):
                pass
        assert caught.value.code == code
