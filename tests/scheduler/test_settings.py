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


def test_the_usual_order_is_that_of_the_specification() -> None:
    assert policy() == Policy()


def test_classes_and_modes_may_be_put_in_another_order() -> None:
    configured = policy(
        CLASSES="contest canary practice rejudge", MODES="ranked test benchmark profile"
    )
    assert configured.rank("contest/ranked") < configured.rank("canary/test")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CLASSES", "contest practice"),
        ("MODES", "test test benchmark ranked"),
        ("PASSED_MAX", "1"),
        ("GANG_PASSED_MAX", "-1"),
        ("BASELINE_PAUSE_S", "-0.5"),
        ("BASELINE_PAUSE_S", "nan"),
        ("QUARANTINE_AFTER", "0"),
    ],
)
def test_a_setting_that_makes_no_sense_is_named(name: str, value: str) -> None:
    with pytest.raises(Refused, match=f"{PREFIX}_{name} is .*: expected") as caught:
        policy(**{name: value})
    assert caught.value.code == "bad_settings"
