"""The scheduler's settings; the only reader of its environment."""

import math
import os
from dataclasses import dataclass
from typing import Annotated, TypeVar

from scheduler.domain.queue import Policy
from shared.errors import Refused
from shared.settings import BusSettings, Doc, OpsListen, Replicas, Tracing, read_settings

PREFIX = "WARPBOARD_SCHEDULER"

Number = TypeVar("Number", int, float)


@dataclass(frozen=True)
class Settings(BusSettings):
    """Addresses, and the limits of the rules."""

    ops_listen: OpsListen
    silent_s_max: Annotated[
        float,
        Doc(
            "for this many seconds after its own start, a missing agent counts as unknown, not as "
            "gone",
            "under three heartbeats of an agent: runs of live agents are ended after each start "
            "of the scheduler",
        ),
    ] = 15.0
    tick_s: Annotated[
        float,
        Doc(
            "the rules also run after this time without an event; tests shorten it",
            "more: what is overdue ends later",
        ),
    ] = 0.5
    gang_passed_max: Annotated[
        int,
        Doc(
            "after this many leases to others, a host is kept free for a job of several GPUs",
            "low: agents idle while they wait for the others of their host; high: a job of several "
            "GPUs may wait until its deadline",
        ),
    ] = 32
    baseline_pause_s: Annotated[
        float,
        Doc(
            "a new baseline waits so many seconds, for its author is about to submit; tests "
            "shorten it",
            "0: the author's first submission waits for baselines",
        ),
    ] = 30.0
    replicas: Replicas = 1
    tracing: Tracing = False

    def policy(self) -> Policy:
        """Return the configured policy. Raises Refused."""
        return Policy(
            gang_passed_max=_check_minimum("GANG_PASSED_MAX", self.gang_passed_max, 0),
            baseline_pause_s=_check_minimum("BASELINE_PAUSE_S", self.baseline_pause_s, 0.0),
        )


def _check_minimum(field: str, value: Number, least: Number) -> Number:
    if not least <= value < math.inf:
        raise Refused("bad_settings", f"{PREFIX}_{field} is {value}: expected {least:g} or more")
    return value


def load() -> Settings:
    """Load the settings. Raises `BadSettings` with everything that is wrong with them."""
    return read_settings(Settings, PREFIX, os.environ, (Settings.policy,))
