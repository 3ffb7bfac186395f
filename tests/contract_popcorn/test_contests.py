"""Competition files, folders and repositories as operators let them in; no server is needed."""

import asyncio
from pathlib import Path

import pytest

from ingest.popcorn.publication import (
    clone_repository,
    competitions_in,
    parse_repositories,
    resolve_directory,
)
from shared.errors import Refused


def test_no_folder_leads_out_of_its_root(tmp_path: Path) -> None:
    for name in ("root/inside", "outside"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "task.yml").write_text("x")
    (tmp_path / "root" / "link").symlink_to(tmp_path / "outside")
    root = (tmp_path / "root",)
    assert resolve_directory(root, "inside").name == "inside"
    for directory in ("../outside", "link", "a\0b", str(tmp_path / "outside"), ".", "nothing"):
        with pytest.raises(Refused, match="not a folder with a task"):
            resolve_directory(root, directory)
    with pytest.raises(Refused, match="WARPBOARD_INGEST_PROBLEM_ROOTS"):
        resolve_directory((), "inside")


def test_a_repositorys_link_is_no_folder_of_contests(tmp_path: Path) -> None:
    for name in ("repository", "private"):
        (tmp_path / name).mkdir()
    (tmp_path / "private" / "set.yaml").write_text("problems: []\n")
    (tmp_path / "repository" / "problems").symlink_to(tmp_path / "private")
    assert competitions_in(tmp_path / "repository", None) == []


async def test_a_repository_comes_from_the_operators_list_alone(tmp_path: Path) -> None:
    for name, branch, code in (
        ("other/set", "main", "unknown_repository"),
        ("ada/set", "--upload-pack=x", "bad_branch"),
        ("ada/set", "a/../b", "bad_branch"),
        ("ada/set", "main", "bad_repository"),
    ):
        known = parse_repositories(f"ada/set=file://{tmp_path}/nothing")
        with pytest.raises(Refused) as caught:
            async with asyncio.timeout(60), clone_repository(known, name, branch):
                pass
        assert caught.value.code == code
