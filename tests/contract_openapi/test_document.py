"""The API keeps what its own document says, whoever asks and whatever they send."""

import pytest

from tests.contract_openapi.asking import QUICK, ask, askers
from tests.support.town import Town

# An operator who asks at random closes leaderboards and bans users.
pytestmark = [pytest.mark.long, pytest.mark.server, pytest.mark.timeout(600), pytest.mark.last]
CASES_MIN = 300


def test_what_is_asked_at_random_is_answered_as_documented(town: Town) -> None:
    cases = 0
    for name, headers in askers(town).items():
        found = ask(town, headers, QUICK[name])
        assert found.is_well, f"{name}:\n{found.text}"
        cases += found.cases
    assert cases > CASES_MIN
