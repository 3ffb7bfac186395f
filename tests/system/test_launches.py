"""Jobs that no agent takes get one of their own, from a launcher that starts real processes."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.people import HONEST, Person, add_problem
from tests.support.platform import QUICK, ROOT, Running
from tests.support.processes import descendants
from tests.support.waits import until

pytestmark = [
    pytest.mark.platform,
    pytest.mark.long,
    pytest.mark.server,
    pytest.mark.timeout(240),
    pytest.mark.usefixtures("servers"),
]

WITHIN_S = 120.0
AGENT = "launched-1"
ENDLESS = "def custom_kernel(data):\n    while True:\n        pass\n"


@contextmanager
def platform_with_launcher(folder: Path, **settings: str) -> Iterator[Running]:
    """A platform without standing agents, whose launcher may run one at a time."""
    running = Running(folder / "home", QUICK | settings, "--device", "none", "--launch", "1")
    try:
        running.launch()
        until(lambda: read_launcher(running))
        add_problem(running.url, ROOT / "problems" / "identity")
        yield running
    finally:
        running.end()


def read_launcher(running: Running) -> dict[str, Any]:
    """The launcher as everybody sees it; empty until the platform knows it."""
    try:
        pools = httpx.get(f"{running.url}/v1/queue", timeout=5).json()["pools"]
    except (OSError, KeyError, ValueError, httpx.HTTPError):
        return {}
    return next((launcher for pool in pools for launcher in pool["launchers"]), {})


def has_no_agent(running: Running) -> bool:
    """Whether the launcher runs nothing, and no agent is listed."""
    is_idle = read_launcher(running).get("running") == 0
    return is_idle and not httpx.get(f"{running.url}/v1/agents").json()["items"]


def fill_quota(running: Running, participant: str) -> None:
    """Allow a participant one test a day."""
    body = {"bucket": "identity.CPU.test", "participant": participant, "limit": 1}
    body |= {"window_s": 3600, "reason": "a test"}
    url = f"{running.url}/v1/admin/quota"
    answer = httpx.put(url, json=body, headers=running.operator)
    assert answer.is_success, answer.text


def test_a_submission_is_ranked_by_an_agent_that_was_started_for_it(tmp_path: Path) -> None:
    with platform_with_launcher(tmp_path) as running, Person(running.url, "ada") as ada:
        found = ada.end(ada.submit(HONEST, "ranked"), WITHIN_S)
        assert (found["outcome"], found["ranking"]["status"]) == ("passed", "ranked"), found
        assert found["agent"] == AGENT
        until(lambda: has_no_agent(running))

        # It dies in the middle of its job: that is no fault of the participant, and the next works.
        number = ada.submit(ENDLESS)
        until(lambda: ada.seen(number)["state"] == "running", WITHIN_S)
        launcher = running.pid("launcher")
        assert launcher is not None
        os.kill(next(iter(descendants(launcher, "gpu_agent"))), signal.SIGKILL)
        assert ada.end(number, WITHIN_S)["outcome"] == "infra_failed"
        assert ada.end(ada.submit(HONEST), WITHIN_S)["verdict"] == "passed"
        until(lambda: has_no_agent(running))
        assert running.audit("identity", "CPU")["is_clean"]


def test_an_agent_that_cannot_start_is_a_failure_of_the_platform(tmp_path: Path) -> None:
    with (
        platform_with_launcher(tmp_path, WARPBOARD_GPU_AGENT_TIERS="nonsense") as running,
        Person(running.url, "ada") as ada,
    ):
        fill_quota(running, "ada")
        for _ in range(2):
            # The quota is refunded each time.
            found = ada.end(ada.submit(HONEST), WITHIN_S)
            assert (found["outcome"], found["code"]) == ("infra_failed", "runner_failed")
            assert "TIERS 'nonsense'" in found["reason"]


def test_an_agent_that_comes_too_late_is_a_failure_of_the_platform(tmp_path: Path) -> None:
    with (
        platform_with_launcher(tmp_path, WARPBOARD_LAUNCHER_START_S_MAX="0.1") as running,
        Person(running.url, "ada") as ada,
    ):
        found = ada.end(ada.submit(HONEST), WITHIN_S)
        assert (found["outcome"], found["code"]) == ("infra_failed", "runner_failed")
        assert "no agent came within 0.1 s" in found["reason"]
        until(lambda: has_no_agent(running))
