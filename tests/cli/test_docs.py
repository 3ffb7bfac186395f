"""The page about the command line names what there is."""

import re
from pathlib import Path

import pytest

from tests.cli.test_tree import COMMANDS
from warpboard.domain import outcome

PAGE = (Path(__file__).parent.parent.parent / "docs" / "cli.md").read_text()
CODES = ("OK", "FAILED", "REFUSED", "INFRASTRUCTURE", "QUOTA", "NOT_RANKED", "INTERRUPTED")


def words() -> set[str]:
    """Every word that the page has as code."""
    spans = re.findall(r"`([^`\n]+)`", PAGE)
    return {word for span in spans for word in re.findall(r"[a-z][a-z-]*", span)}


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_is_on_the_page(command: str) -> None:
    said = set(command.split()) - {"pause", "resume", "canary", "no-canary", "skip", "redrive"}
    group = {"participant", "role", "token", "identity", "leaderboard", "invite", "deadletters"}
    if said & group:
        said &= {*group, "admin"}
    assert said <= words()


@pytest.mark.parametrize("name", [*CODES, "TERMINATED", "UNREAD"])
def test_each_exit_code_is_on_the_page_and_in_the_help(name: str) -> None:
    code = str(getattr(outcome, name))
    rows = re.findall(r"^\| ([0-9, ]+) \|", PAGE, re.MULTILINE)
    assert code in " ".join(rows).replace(",", "").split()
    assert re.search(rf"\b{code} ", outcome.EXIT_CODES)
