"""The operators' pages name existing commands, metrics and pages."""

import re
from pathlib import Path

import pytest

from tests.observability.prometheus import ROOT
from warpboard.terminal.program import load_command

PAGES = ROOT / "docs" / "operating"
# A command on a page: the words after `warpboard`, up to the first that is no word of ours.
SPAN = re.compile(r"`warpboard ((?:[a-z][a-z-]*)(?: [a-z][a-z-]*)*)")
ROW = re.compile(r"^\| `warpboard ([a-z -]+)` \|", re.MULTILINE)


def list_commands() -> list[str]:
    """The commands of the index's table."""
    return ROW.findall((PAGES / "README.md").read_text())


def used() -> set[str]:
    """The commands that pages tell operators to run."""
    return {
        command for page in PAGES.glob("*.md") for command in SPAN.findall(page.read_text())
    } - {"up"}


def test_pages_use_only_commands_that_the_index_lists() -> None:
    known = [f"{command} " for command in list_commands()]
    assert known
    assert [item for item in sorted(used()) if not f"{item} ".startswith(tuple(known))] == []


@pytest.mark.parametrize("command", list_commands())
def test_each_command_exists(command: str) -> None:
    assert load_command(command), f"warpboard {command} is on a page and does not exist"


def test_links_lead_somewhere() -> None:
    def broken(page: Path) -> list[str]:
        links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text())
        return [link for link in links if not (page.parent / link).exists()]

    assert {page.name: broken(page) for page in PAGES.glob("*.md") if broken(page)} == {}
