"""Guessing at invites: who guesses is stopped, who shares their address is not."""

import pytest

from tests.contract_popcorn.conftest import token_of
from tests.contract_popcorn.polling import refusal
from tests.contract_popcorn.wire import Wire, cli_id
from tests.support.platform import Running

pytestmark = [pytest.mark.server, pytest.mark.long]


def test_ten_wrong_codes_an_hour_are_enough(platform: Running, nobody: Wire) -> None:
    guesser = Wire(nobody.base, cli_id(token_of(platform, "guesser")))
    answers = [guesser.post_json("/user/join", {"code": f"wrong-{n}"}) for n in range(11)]
    statuses = [answer.status for answer in answers]
    assert statuses == sorted(statuses)
    assert set(statuses) <= {400, 429}
    refusal(answers[-1], 429, "rate_limited")
    assert int(answers[-1].headers["retry-after"]) > 60
    neighbour = Wire(nobody.base, cli_id(token_of(platform, "neighbour")))
    refusal(neighbour.post_json("/user/join", {"code": "wrong"}), 400, "invalid_invite")
