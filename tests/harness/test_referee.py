"""In a run, only the referee has a real-time priority, and only while a call is timed."""

import os

import pytest

from harness.entry import Started
from harness.sandbox import realtime
from tests.support.harness import HONEST, REFERENCE, Host

TRIES = """
import os
def custom_kernel(data):
    assert os.sched_getscheduler(0) == os.SCHED_OTHER
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except PermissionError:
        data[1].copy_(data[0])
    return data[1]
"""
SHOWS = """
import os
def check_implementation(data, output):
    return False, str(os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK == os.SCHED_OTHER)
"""


def test_a_submission_has_no_real_time_priority(host: Host) -> None:
    assert host.run(TRIES).verdict == "passed"


def test_an_authors_code_runs_at_the_ordinary_priority(host: Host) -> None:
    host.files["reference.py"] = REFERENCE + SHOWS
    assert host.run(HONEST).cases[0].message == "True"


@pytest.mark.parametrize("is_shared", [False, True])
def test_a_referee_has_priority_unless_it_shares_its_core(host: Host, is_shared: bool) -> None:
    host.run(HONEST, suffix=".py", is_shared=is_shared)
    can_have_priority = not realtime.find_obstacle() and len(os.sched_getaffinity(0)) > 1
    (started,) = (message for message in host.messages if isinstance(message, Started))
    recorded = started.environment["referee_priority"]
    assert recorded == ("real-time" if can_have_priority and not is_shared else "normal")
