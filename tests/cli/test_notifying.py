"""How one is told on Discord is shown, and chosen, from a terminal."""

import json

import pytest

from shared.events import PREFERENCES
from tests.cli.asked import asked
from tests.cli.standin import in_turn
from tests.cli.tree import PREFERENCES as CHOSEN
from warpboard.service.notifying import CHOICES


def test_a_terminal_offers_all_there_is_to_choose() -> None:
    assert {name.replace("-", "_"): said for name, said in CHOICES.items()} == PREFERENCES


def test_what_one_chose_is_shown_and_one_thing_is_changed() -> None:
    result, (heard,) = asked(in_turn((200, CHOSEN)), "notify")
    assert (heard.method, heard.path) == ("GET", "/v1/me/preferences")
    assert result.stdout.splitlines()[:2] == ["overtaken: dm", "run-finished: off"]
    result, (heard,) = asked(in_turn((200, CHOSEN)), "notify", "run-finished", "thread")
    assert (heard.method, json.loads(heard.body)) == ("PUT", {"run_finished": "thread"})


@pytest.mark.parametrize("said", [("overtaken",), ("overtaken", "on"), ("threads", "off")])
def test_what_cannot_be_chosen_is_told_before_anybody_is_asked(said: tuple[str, ...]) -> None:
    result, heard = asked(in_turn(), "notify", *said)
    assert (result.exit_code, len(heard)) == (2, 0)
    assert "how you are told of" in result.stderr
