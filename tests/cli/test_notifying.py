"""How one is told on Discord is shown, and chosen, from a terminal."""

import json

import pytest

from ingest.identity.access.preferences import PREFERENCES
from tests.cli.command_cases import PREFERENCES as CHOSEN
from tests.cli.command_runner import run_against
from tests.cli.stand_in import respond_in_turn
from warpboard.terminal.accounts import PREFERENCE_CHOICES


def test_a_terminal_offers_all_there_is_to_choose() -> None:
    assert {
        name.replace("-", "_"): choices for name, choices in PREFERENCE_CHOICES.items()
    } == PREFERENCES


def test_what_one_chose_is_shown_and_one_thing_is_changed() -> None:
    result, (heard,) = run_against(respond_in_turn((200, CHOSEN)), "notification", "list")
    assert (heard.method, heard.path) == ("GET", "/v1/me/preferences")
    assert result.stdout.splitlines()[:2] == ["overtaken: dm", "run-finished: off"]
    result, (heard,) = run_against(
        respond_in_turn((200, CHOSEN)), "notification", "set", "run-finished", "thread"
    )
    assert (heard.method, json.loads(heard.body)) == ("PUT", {"run_finished": "thread"})


@pytest.mark.parametrize("arguments", [("overtaken",), ("overtaken", "on"), ("threads", "off")])
def test_what_cannot_be_chosen_is_told_before_anybody_is_asked(arguments: tuple[str, ...]) -> None:
    result, heard = run_against(respond_in_turn(), "notification", "set", *arguments)
    assert (result.exit_code, len(heard)) == (2, 0)
    assert "expected one of" in result.stderr
