"""What an operator may set, and what is refused with a sentence."""

import pytest

from scheduler.domain.queue import Policy
from scheduler.settings import PREFIX, Settings
from shared.errors import Refused
from shared.settings import read_settings

GIVEN = {f"{PREFIX}_NATS_URL": "nats://127.0.0.1:1", f"{PREFIX}_OPS_LISTEN": "127.0.0.1:0"}


def policy(**other: str) -> Policy:
    environ = {f"{PREFIX}_{name}": value for name, value in other.items()}
    return read_settings(Settings, PREFIX, GIVEN | environ).policy()


def test_the_usual_numbers_are_those_of_the_rules() -> None:
    assert policy() == Policy()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("GANG_PASSED_MAX", "-1"),
        ("BASELINE_PAUSE_S", "-0.5"),
        ("BASELINE_PAUSE_S", "nan"),
    ],
)
def test_a_setting_that_makes_no_sense_is_named(name: str, value: str) -> None:
    with pytest.raises(Refused, match=f"{PREFIX}_{name} is .*: expected") as caught:
        policy(**{name: value})
    assert caught.value.code == "bad_settings"
