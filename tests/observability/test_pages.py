"""The operators' pages name existing commands and pages."""

import re
from pathlib import Path

import pytest

from tests.observability.prometheus import ROOT
from warpboard.terminal.program import load_command

PAGES = ROOT / "docs" / "operating"
# A command on a page: the words after `warpboard`, up to the first that is no word of ours.
SPAN = re.compile(r"`warpboard ((?:[a-z][a-z-]*)(?: [a-z][a-z-]*)*)")


def used() -> list[str]:
    """The commands that pages tell operators to run, with the words that follow them."""
    commands = {
        command for page in PAGES.glob("*.md") for command in SPAN.findall(page.read_text())
    }
    assert commands
    return sorted(commands)


@pytest.mark.parametrize("words", used())
def test_each_command_exists(words: str) -> None:
    parts = words.split()
    beginnings = (" ".join(parts[:count]) for count in range(1, len(parts) + 1))
    is_known = any(load_command(beginning) for beginning in beginnings)
    assert is_known, f"warpboard {words} is on a page and does not exist"


def test_links_lead_somewhere() -> None:
    def broken(page: Path) -> list[str]:
        links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text())
        return [link for link in links if not (page.parent / link).exists()]

    assert {page.name: broken(page) for page in PAGES.glob("*.md") if broken(page)} == {}
