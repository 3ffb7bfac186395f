"""The scheduler's settings; the only reader of its environment."""

import math
import os
from dataclasses import dataclass
from typing import TypeVar

from harness.vocabulary import SUBMISSION_MODES
from scheduler.domain.queue import Policy
from shared.errors import Refused
from shared.events import CLASSES
from shared.settings import Listen, read_settings

PREFIX = "WARPBOARD_SCHEDULER"

Number = TypeVar("Number", int, float)


@dataclass(frozen=True)
class Settings:
    """Addresses, and how long after the start a missing agent is unknown rather than gone.

    `classes` and `modes`, separated by spaces, give the order. No lane of a class and a mode is
    passed over `passed_max` times in a row, and no job of several GPUs `gang_passed_max` times.
    """

    nats_url: str
    ops_listen: Listen
    silent_s_max: float = 15.0
    tick_s: float = 0.5
    classes: str = "canary contest practice rejudge"
    modes: str = "test benchmark profile ranked"
    passed_max: int = 8
    gang_passed_max: int = 32
    quarantine_after: int = 3
    baseline_pause_s: float = 30.0
    snapshot_events: int = 20_000
    replicas: int = 1

    def policy(self) -> Policy:
        """Return the configured policy. Raises Refused."""
        return Policy(
            classes=_parse_order("CLASSES", self.classes, CLASSES),
            modes=_parse_order("MODES", self.modes, SUBMISSION_MODES),
            passed_max=_check_minimum("PASSED_MAX", self.passed_max, 2),
            gang_passed_max=_check_minimum("GANG_PASSED_MAX", self.gang_passed_max, 0),
            quarantine_after=_check_minimum("QUARANTINE_AFTER", self.quarantine_after, 1),
            baseline_pause_s=_check_minimum("BASELINE_PAUSE_S", self.baseline_pause_s, 0.0),
        )


def _parse_order(field: str, text: str, names: tuple[str, ...]) -> tuple[str, ...]:
    values = tuple(text.split())
    if sorted(values) != sorted(names):
        expected = f"expected each of {', '.join(names)} once, the first before the others"
        raise Refused("bad_settings", f"{PREFIX}_{field} is {text!r}: {expected}")
    return values


def _check_minimum(field: str, value: Number, least: Number) -> Number:
    if not least <= value < math.inf:
        raise Refused("bad_settings", f"{PREFIX}_{field} is {value}: expected {least:g} or more")
    return value


def load() -> Settings:
    """Load the settings. Raises Refused and names everything that is wrong with them."""
    settings = read_settings(Settings, PREFIX, os.environ)
    settings.policy()
    _check_minimum("SNAPSHOT_EVENTS", settings.snapshot_events, 1)
    return settings
