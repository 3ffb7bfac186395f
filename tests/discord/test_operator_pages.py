"""Operators who ask the bot for an act that it does not offer get a page or command that exists."""

from discord_edge.operators import PAGES, SHELL_COMMANDS
from ingest.site.admin import catalogue
from ingest.site.admin.pages import OVERVIEW_PAGE
from warpboard.terminal.commands import COMMANDS


def test_the_bot_names_every_page_of_operators() -> None:
    pages = {page for name, page in vars(catalogue).items() if name.endswith("_PAGE")}
    # The page of one participant is found from the page of all.
    pages.remove(catalogue.PARTICIPANT_PAGE)
    assert set(PAGES) == {*pages, OVERVIEW_PAGE, "/queue"}


def test_the_bot_names_commands_that_exist() -> None:
    assert {command.removeprefix("warpboard ") for command in SHELL_COMMANDS} <= set(COMMANDS)
