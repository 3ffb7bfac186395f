"""Referee and worker open a GPU at the same time, before anything of the submission is loaded."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from tests.devices import early_runs
from tests.devices import imitated_contexts as contexts
from tests.support.platform import ROOT

pytestmark = [pytest.mark.box, pytest.mark.long]

RUNS_S_MAX = 100.0
DIED = "a worker cannot open the device: the process "


@pytest.fixture(scope="module")
def ended() -> dict[str, Any]:
    """How a run ended, by the way in which its device opened."""
    with tempfile.TemporaryDirectory(prefix="early-") as folder:
        # Workers of another account read it.
        Path(folder).chmod(0o755)
        command = [sys.executable, "-m", "tests.devices.early_runs", folder]
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=RUNS_S_MAX, check=False
        )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_referee_and_worker_open_the_device_at_the_same_time(ended: dict[str, Any]) -> None:
    """Each waits until the other one has begun, so in turn they would never end."""
    run = ended[contexts.OPENS]
    assert (run["verdict"], run["failure_code"]) == ("passed", ""), run["reason"]


def test_the_device_is_open_before_the_submission_is_imported(ended: dict[str, Any]) -> None:
    assert ended[contexts.OPENS]["log"] == ["the context is open", "the submission is imported"]


@pytest.mark.parametrize(
    ("way", "reason"),
    [
        (contexts.EXITS, f"{DIED}exited with code 3"),
        (contexts.RAISES, f"{DIED}exited with code 1: RuntimeError: {contexts.REFUSAL}"),
        (contexts.FAULTS, f"{DIED}was killed by SIGSEGV"),
        (early_runs.REFEREE_FAILS, "CUDA's driver cannot be used: no device"),
    ],
)
def test_a_device_that_does_not_open_is_the_fault_of_the_machine(
    ended: dict[str, Any], way: str, reason: str
) -> None:
    run = ended[way]
    assert (run["verdict"], run["failure_code"]) == ("", "device")
    assert run["reason"] == reason


def test_a_device_that_never_opens_is_not_waited_for_longer_than_an_import(
    ended: dict[str, Any],
) -> None:
    run = ended[contexts.WAITS]
    assert (run["verdict"], run["failure_code"]) == ("", "device")
    limit = f"the opening of the device took more than {early_runs.IMPORT_S:g} s"
    assert f"a worker cannot open the device: {limit}" in run["reason"]
    assert run["took_s"] >= early_runs.IMPORT_S


def test_all_processes_of_a_ranked_run_open_the_device_before_anything_is_timed(
    ended: dict[str, Any],
) -> None:
    run = ended[early_runs.RANKED]
    assert (run["verdict"], run["spares"]) == ("passed", 0), run["reason"]
    opened_at, yardstick_opened_at = (
        sorted(float(line.removeprefix("opened at ")) for line in run[name])
        for name in ("log", "yardstick_log")
    )
    first, *later = opened_at
    marks = run["marks"]
    assert first < marks["build ended"]
    assert (len(later), len(yardstick_opened_at)) == (2, 3)
    for at in (*later, *yardstick_opened_at):
        assert marks["build ended"] < at < marks["check ended"] < marks["time began"]


@pytest.mark.parametrize("way", early_runs.WAYS)
def test_no_box_of_it_is_left(ended: dict[str, Any], way: str) -> None:
    assert ended[way]["boxes"] == 0
    assert ("the submission is imported" in ended[way]["log"]) == (way == contexts.OPENS)
