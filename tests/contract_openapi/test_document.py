"""The API keeps what its own document says, whoever asks and whatever they send."""

from pathlib import Path

import pytest

from tests.contract_openapi.asking import QUICK, ask, askers
from tests.support.town import founded

pytestmark = [pytest.mark.long, pytest.mark.platform, pytest.mark.timeout(600)]
CASES_MIN = 300


def test_what_is_asked_at_random_is_answered_as_documented(servers: None, tmp_path: Path) -> None:  # noqa: ARG001
    cases = 0
    # An operator who asks at random closes and bans: nobody else can use this platform.
    with founded(tmp_path) as town:
        for name, headers in askers(town).items():
            found = ask(town, headers, QUICK[name])
            assert found.is_well, f"{name}:\n{found.text}"
            cases += found.cases
    assert cases > CASES_MIN
