"""Agents that are started for one job each: on the platform's machine, on GitHub, and on Modal.

The clouds are imitations, which run real agents. One platform without standing agents serves all.
"""

import asyncio
import base64
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from shared.clock import new_id
from tests.support.github_actions import Machines, open_github
from tests.support.launchers import agent_settings, launching, launching_beside, read_launchers
from tests.support.people import HONEST, Person, add_problem
from tests.support.platform import QUICK, ROOT, Running
from tests.support.processes import descendants
from tests.support.waits import eventually, until

pytestmark = [
    pytest.mark.platform,
    pytest.mark.long,
    pytest.mark.server,
    pytest.mark.timeout(240),
    pytest.mark.usefixtures("servers"),
]

WITHIN_S = 150.0
KEY = base64.b64encode(bytes(range(32))).decode()
OTHER_KEY = base64.b64encode(bytes(range(1, 33))).decode()
SLOW = HONEST.replace("    source,", "    time.sleep(0.4)\n    source,")
SLOW = f"import time\n{SLOW}"
LOCAL_AGENT = "launched-1"
GITHUB_AGENT, MODAL_AGENT, LATE_AGENT, BROKEN_AGENT = "gh-1", "mo-1", "late-1", "broken-1"
AGENTS = (GITHUB_AGENT, MODAL_AGENT, LATE_AGENT, BROKEN_AGENT)
# Jobs for any agent go to the launcher of the platform, which costs nothing.
COSTLY = {"GPUS": "CPU:1", "POLL_S": "0.2"}


@pytest.fixture(scope="module")
def running(servers: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:  # noqa: ARG001
    """A platform without standing agents, with a launcher of its own and more accounts."""
    settings = QUICK | {"WARPBOARD_AGENTS": " ".join(AGENTS)}
    folder = tmp_path_factory.mktemp("runners") / "home"
    platform = Running(folder, settings, "--device", "none", "--launch", "1")
    try:
        platform.launch()
        until(lambda: read_launchers(platform))
        add_problem(platform.url, ROOT / "problems" / "identity")
        yield platform
    finally:
        platform.end()


def has_no_agent(running: Running) -> bool:
    """Whether no launcher runs anything, and no agent is listed."""
    launchers = read_launchers(running).values()
    is_idle = bool(launchers) and not any(launcher["running"] for launcher in launchers)
    return is_idle and not httpx.get(f"{running.url}/v1/agents").json()["items"]


def submit(person: Person, runner: str, mode: str = "test") -> int:
    """Submit with a runner; the number."""
    data = {"problem": "identity", "mode": mode, "gpu": "CPU", "runner": runner}
    files = {"file": ("kernel.py", HONEST.encode())}
    headers = {"Idempotency-Key": new_id()}
    answer = person.http.post("/v1/submissions", data=data, files=files, headers=headers)
    assert answer.status_code == 202, answer.text
    return int(answer.json()["submissions"][0]["number"])


def check_ranked(submission: dict[str, Any], agent: str) -> None:
    """Check that an agent ran a submission, which is ranked."""
    assert submission["outcome"] == "passed", submission
    assert (submission["ranking"]["status"], submission["agent"]) == ("ranked", agent)


@pytest.mark.feature("A11")
def test_an_agent_is_started_for_a_job_that_no_agent_takes(running: Running) -> None:
    with Person(running.url, "ada") as ada:
        # It dies in the middle of its job, which another one then runs.
        number = ada.submit(SLOW)
        until(lambda: ada.seen(number)["state"] == "running", WITHIN_S)
        launcher = running.pid("launcher")
        assert launcher is not None
        os.kill(next(iter(descendants(launcher, "gpu_agent"))), signal.SIGKILL)
        found = ada.end(number, WITHIN_S)
        assert (found["outcome"], found["attempt"]) == ("passed", 2)
        check_ranked(ada.end(ada.submit(HONEST, "ranked"), WITHIN_S), LOCAL_AGENT)
    until(lambda: has_no_agent(running))


def test_an_agent_that_cannot_start_is_a_failure_of_the_platform(running: Running) -> None:
    body = {"bucket": "identity.CPU.test", "participant": "bob", "limit": 1}
    body |= {"window_s": 3600, "reason": "a test"}
    url = f"{running.url}/v1/admin/quota"
    assert httpx.put(url, json=body, headers=running.operator).is_success
    settings = COSTLY | {"WARPBOARD_GPU_AGENT_TIERS": "nonsense"}
    with (
        launching(running, "broken", BROKEN_AGENT, **settings),
        Person(running.url, "bob") as bob,
    ):
        # The quota of the first one is refunded.
        for _ in range(2):
            ended = bob.end(submit(bob, "broken"), WITHIN_S)
            assert (ended["outcome"], ended["code"]) == ("infra_failed", "runner_failed")
            assert "TIERS 'nonsense'" in ended["reason"]


def test_an_agent_that_comes_too_late_is_a_failure_of_the_platform(running: Running) -> None:
    with (
        launching(running, "late", LATE_AGENT, START_S_MAX="0.1", **COSTLY),
        Person(running.url, "cleo") as cleo,
    ):
        ended = cleo.end(submit(cleo, "late"), WITHIN_S)
        assert (ended["outcome"], ended["code"]) == ("infra_failed", "runner_failed")
        assert "no agent came within 0.1 s" in ended["reason"]
        until(lambda: has_no_agent(running))


async def test_agents_in_clouds_rank_submissions(
    running: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("modal", reason="modal is not installed: see warpboard-scheduler[modal]")
    # Imported here, for its client is optional.
    from tests.support.modal_cloud import TOKEN_ID, TOKEN_SECRET, open_modal

    async with (
        open_github(make_machines(running, tmp_path / "github"), OTHER_KEY) as github,
        open_modal(make_machines(running, tmp_path / "modal"), KEY) as modal,
    ):
        monkeypatch.setenv("MODAL_SERVER_URL", modal.url)
        common = COSTLY | {"CREDENTIAL_KEY": KEY}
        by_github = common | github.launcher_settings
        by_modal = common | {"KIND": "modal", "MODAL_TOKEN_ID": TOKEN_ID}
        by_modal |= {"MODAL_TOKEN_SECRET": TOKEN_SECRET}
        async with (
            launching_beside(running, "github", GITHUB_AGENT, **by_github),
            launching_beside(running, "modal", MODAL_AGENT, **by_modal),
        ):
            command = asyncio.create_task(submit_by_command(running, tmp_path, "github"))
            with Person(running.url, "dora") as dora:
                number = submit(dora, "modal", "ranked")
                # The first run cannot open its credential, the next one can.
                await eventually(lambda: github.runs)
                github.key = KEY
                check_ranked(await asyncio.to_thread(dora.end, number, WITHIN_S), MODAL_AGENT)
            done = await command
            assert done.returncode == 0, done.stderr
            assert GITHUB_AGENT.encode() in done.stdout
            assert (len(github.runs), len(modal.calls)) == (2, 1)
            log = tmp_path / "github" / "0.log"
            assert "the credential cannot be opened" in log.read_text()
            # Each has left.
            await eventually(lambda: has_no_agent(running))
    audit = await asyncio.to_thread(running.audit, "identity", "CPU")
    assert audit["is_clean"]


def make_machines(running: Running, folder: Path) -> Machines:
    """The machines of a cloud."""
    folder.mkdir()
    return Machines(folder, agent_settings(running))


async def submit_by_command(
    running: Running, folder: Path, runner: str
) -> subprocess.CompletedProcess[bytes]:
    """Submit with the command line and wait for the verdict."""
    kernel = folder / "kernel.py"
    kernel.write_text(HONEST)
    command = [sys.executable, "-m", "warpboard", "submit", str(kernel), "--leaderboard"]
    command += ["identity", "--gpu", "CPU", "--mode", "ranked", "--runner", runner, "--json"]
    environ = os.environ | {"WARPBOARD_URL": running.url, "WARPBOARD_PARTICIPANT": "emma"}
    return await asyncio.to_thread(
        subprocess.run, command, env=environ, capture_output=True, timeout=WITHIN_S, check=False
    )
