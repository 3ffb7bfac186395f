"""What scheduler is told at start; the only reader of its environment."""

import os
from dataclasses import dataclass

from scheduler.domain.fair import Policy
from shared.errors import Refused
from shared.events import CLASSES, MODES
from shared.settings import Listen, read

PREFIX = "WARPBOARD_SCHEDULER"


@dataclass(frozen=True)
class Settings:
    """Addresses, and how long after the start a missing agent is unknown, not gone.

    `classes` and `modes`, apart by spaces, say who is first; no lane of a class and a mode is
    passed over `passed_max` times in a row, no job of several GPUs `gang_passed_max` times.
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
    snapshot_events: int = 20_000
    replicas: int = 1

    def policy(self) -> Policy:
        """What the operator orders. Errors: Refused."""
        return Policy(
            classes=_named("CLASSES", self.classes, CLASSES),
            modes=_named("MODES", self.modes, MODES),
            passed_max=_at_least("PASSED_MAX", self.passed_max, 2),
            gang_passed_max=_at_least("GANG_PASSED_MAX", self.gang_passed_max, 0),
            quarantine_after=_at_least("QUARANTINE_AFTER", self.quarantine_after, 1),
        )


def _named(field: str, text: str, names: tuple[str, ...]) -> tuple[str, ...]:
    found = tuple(text.split())
    if sorted(found) != sorted(names):
        expected = f"expected each of {', '.join(names)} once, the first before the others"
        raise Refused("bad_settings", f"{PREFIX}_{field} is {text!r}: {expected}")
    return found


def _at_least(field: str, value: int, least: int) -> int:
    if value < least:
        raise Refused("bad_settings", f"{PREFIX}_{field} is {value}: expected {least} or more")
    return value


def load() -> Settings:
    """The settings, or Refused with all that is wrong with them."""
    settings = read(Settings, PREFIX, os.environ)
    settings.policy()
    _at_least("SNAPSHOT_EVENTS", settings.snapshot_events, 1)
    return settings
