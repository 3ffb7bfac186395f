"""The page about the command line names what there is."""

import re
from pathlib import Path

import pytest

from tests.cli.test_tree import COMMANDS
from warpboard.domain import output

PAGE = (Path(__file__).parent.parent.parent / "docs" / "cli.md").read_text()
CODES = ("OK", "FAILED", "REFUSED", "INFRASTRUCTURE", "QUOTA", "NOT_RANKED", "INTERRUPTED")


# The words of a command, up to its arguments; the last may have alternatives.
LEADING_WORDS = re.compile(r"^[a-z][a-z-]*(?: [a-z][a-z-]*)*(?:\\\|[a-z-]+)*|^")


def commands_on_the_page() -> set[str]:
    """The commands in the page's table; `role grant\\|revoke` stands for two."""
    commands = set()
    group = ""
    for line in PAGE.partition("## Commands")[2].partition("## Exit codes")[0].splitlines():
        cells = re.split(r"(?<!\\)\|", line)
        if len(cells) != 5 or cells[1].strip() in ("group", "---"):
            continue
        group = cells[1].strip(" `") or ("" if is_at_the_top(cells[2]) else group)
        for span in re.findall(r"`([^`]+)`", cells[2]):
            *words, last = LEADING_WORDS.findall(span)[0].split(" ")
            names = ["", *last.split("\\|")]
            commands |= {" ".join([group, *words, name]).strip() for name in names}
    return commands


def is_at_the_top(cell: str) -> bool:
    """Whether a row begins with a command that is in no group."""
    found = re.search(r"`([a-z-]+)", cell)
    return found is not None and found[1] in COMMANDS


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_is_on_the_page(command: str) -> None:
    assert command in commands_on_the_page()


@pytest.mark.parametrize("name", [*CODES, "TERMINATED", "UNREAD"])
def test_each_exit_code_is_on_the_page_and_in_the_help(name: str) -> None:
    code = str(getattr(output, name))
    rows = re.findall(r"^\| ([0-9, ]+) \|", PAGE, re.MULTILINE)
    assert code in " ".join(rows).replace(",", "").split()
    assert re.search(rf"\b{code}\s", output.EXIT_CODES)
