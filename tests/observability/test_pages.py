"""The operators' pages name what there is: commands, metrics, other pages."""

import re
from pathlib import Path

import click
import pytest

from tests.observability.prometheus import ROOT
from warpboard.__main__ import desk
from warpboard.terminal.group import commands

PAGES = ROOT / "docs" / "operating"
# A command on a page: the words after `warpboard`, up to the first that is no word of ours.
SPAN = re.compile(r"`warpboard ((?:[a-z][a-z-]*)(?: [a-z][a-z-]*)*)")
ROW = re.compile(r"^\| `warpboard ([a-z -]+)` \|", re.MULTILINE)


def listed() -> list[str]:
    """The commands of the index's table."""
    return ROW.findall((PAGES / "README.md").read_text())


def used() -> set[str]:
    """The commands that pages tell operators to run, whatever follows them."""
    return {
        command for page in PAGES.glob("*.md") for command in SPAN.findall(page.read_text())
    } - {"up"}


def command_line() -> click.Group:
    """The command `warpboard`."""
    return commands(desk)


def exists(words: list[str]) -> bool:
    """Whether the command line has a command of these words, no more and no fewer."""
    found: click.Command | None = command_line()
    for word in words:
        found = found.commands.get(word) if isinstance(found, click.Group) else None
    return found is not None


def test_pages_use_only_commands_that_the_index_lists() -> None:
    known = [f"{command} " for command in listed()]
    assert known
    assert [one for one in sorted(used()) if not f"{one} ".startswith(tuple(known))] == []


@pytest.mark.parametrize("command", listed())
def test_each_command_exists(command: str) -> None:
    assert exists(command.split()), f"warpboard {command} is on a page and does not exist"


def test_links_lead_somewhere() -> None:
    def broken(page: Path) -> list[str]:
        links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text())
        return [link for link in links if not (page.parent / link).exists()]

    assert {page.name: broken(page) for page in PAGES.glob("*.md") if broken(page)} == {}
