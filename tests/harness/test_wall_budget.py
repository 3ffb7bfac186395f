"""Time that the platform takes to freeze a submission is not the submission's."""

import time
from types import SimpleNamespace
from typing import Any

from harness.time.sides import clock_without_freezing


def test_stopping_a_team_takes_nothing_of_its_wall_time_up_to_a_credit() -> None:
    team: Any = SimpleNamespace(freezing_s=7.0)
    now_s = clock_without_freezing([team], 100.0)
    before = now_s()
    team.freezing_s += 60.0
    assert now_s() < before - 50.0
    team.freezing_s += 600.0
    assert before - 101.0 < now_s() < time.monotonic() - 99.0
