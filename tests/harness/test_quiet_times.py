"""On a processor, the time of a call is that of a quiet machine."""

import gzip
import json
from statistics import median
from typing import Any

import pytest

from tests.support.harness import Host, Warm

# Each is timed for seconds.
pytestmark = pytest.mark.long

SLEEPS = """
import time
def custom_kernel(data):
    time.sleep(0.005)
    return data[1].copy_(data[0])
"""
SLEEP_US = 5000.0


@pytest.fixture(scope="module")
def timed_case(warm: Warm, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The records of a case whose calls sleep."""
    host = Host(tmp_path_factory.mktemp("timed"), warm)
    report = host.run(SLEEPS, "benchmark")
    assert report.verdict == "passed", report.reason
    cases = json.loads(gzip.decompress((host.out / "samples.json.gz").read_bytes()))["cases"]
    case: dict[str, Any] = next(iter(cases.values()))
    return case


def test_a_submission_that_waits_by_itself_has_lost_nothing(timed_case: dict[str, Any]) -> None:
    blocks = [block for process in timed_case["processes"] for block in process["blocks"]]
    times_us = [time_us for block in blocks for time_us in block["time_us"]]
    # The calls themselves: the case's time is scaled to the usual speed of the machine.
    assert median(times_us) > 0.9 * SLEEP_US
    lost_us = sum(sum(block["lost_us"].values()) for block in blocks)
    assert lost_us < 0.5 * len(times_us) * SLEEP_US


def test_the_probe_alternates_with_the_calls(timed_case: dict[str, Any]) -> None:
    (process, *_) = timed_case["processes"]
    assert len(process["probes"]) == sum(min(8, len(b["time_us"])) for b in process["blocks"])
    assert len(process["first_probes"]) >= 5
    assert len(process["last_probes"]) >= 5
