"""Each way to choose a runner, before launchers of each kind; their clouds run real agents."""

import asyncio
import base64
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from shared.clock import new_id
from tests.support.github_actions import TOKEN, GitHub, Machines, open_github
from tests.support.launchers import agent_settings, launching, read_launchers
from tests.support.modal_cloud import TOKEN_ID, TOKEN_SECRET, Modal, open_modal
from tests.support.people import HONEST, Person, add_problem
from tests.support.platform import QUICK, ROOT, Running
from tests.support.processes import descendants
from tests.support.waits import eventually, until

pytestmark = [
    pytest.mark.platform,
    pytest.mark.long,
    pytest.mark.server,
    pytest.mark.timeout(400),
    pytest.mark.usefixtures("servers"),
]

WITHIN_S = 150.0
KEY = base64.b64encode(bytes(range(32))).decode()
OTHER_KEY = base64.b64encode(bytes(range(1, 33))).decode()
ENDLESS = "def custom_kernel(data):\n    while True:\n        pass\n"
GITHUB_AGENT, MODAL_AGENT = "gh-1", "mo-1"


@asynccontextmanager
async def open_platform(folder: Path) -> AsyncIterator[Running]:
    """A platform without standing agents, with a launcher of its own and two accounts more."""
    settings = QUICK | {"WARPBOARD_AGENTS": f"{GITHUB_AGENT} {MODAL_AGENT}"}
    running = Running(folder / "home", settings, "--device", "none", "--launch", "1")
    try:
        running.launch()
        await asyncio.to_thread(until, lambda: read_launchers(running))
        await asyncio.to_thread(add_problem, running.url, ROOT / "problems" / "identity")
        yield running
    finally:
        await asyncio.to_thread(running.end)


def make_machines(running: Running, name: str) -> Machines:
    """The machines of a cloud."""
    folder = running.folder / name
    folder.mkdir()
    return Machines(folder, agent_settings(running))


@asynccontextmanager
async def with_github(running: Running, key: str = KEY, **settings: str) -> AsyncIterator[GitHub]:
    """A launcher of kind github; `key` is the secret of its repository."""
    async with open_github(make_machines(running, "github"), key) as github:
        own = {"KIND": "github", "CREDENTIAL_KEY": KEY, "GITHUB_TOKEN": TOKEN}
        own |= {"GITHUB_REPOSITORY": "team/kernels", "GITHUB_API_URL": github.url}
        launcher = launching(running, "github", GITHUB_AGENT, **(own | settings))
        await asyncio.to_thread(launcher.__enter__)
        try:
            yield github
        finally:
            await asyncio.to_thread(launcher.__exit__, None, None, None)


@asynccontextmanager
async def with_modal(running: Running, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Modal]:
    """A launcher of kind modal."""
    async with open_modal(make_machines(running, "modal"), KEY) as modal:
        monkeypatch.setenv("MODAL_SERVER_URL", modal.url)
        own = {"KIND": "modal", "CREDENTIAL_KEY": KEY}
        own |= {"MODAL_TOKEN_ID": TOKEN_ID, "MODAL_TOKEN_SECRET": TOKEN_SECRET}
        launcher = launching(running, "modal", MODAL_AGENT, **own)
        await asyncio.to_thread(launcher.__enter__)
        try:
            yield modal
        finally:
            await asyncio.to_thread(launcher.__exit__, None, None, None)


def submit(person: Person, runner: str, source: str = HONEST, mode: str = "ranked") -> int:
    """Submit with a runner; the number."""
    data = {"problem": "identity", "mode": mode, "gpu": "CPU", "runner": runner}
    files = {"file": ("kernel.py", source.encode())}
    headers = {"Idempotency-Key": new_id()}
    answer = person.http.post("/v1/submissions", data=data, files=files, headers=headers)
    assert answer.status_code == 202, answer.text
    return int(answer.json()["submissions"][0]["number"])


async def find_end(person: Person, number: int) -> dict[str, Any]:
    """How a submission ended."""
    return await asyncio.to_thread(person.end, number, WITHIN_S)


def check_ranked(submission: dict[str, Any], agent: str) -> None:
    """Check that an agent ran a submission, which is ranked."""
    assert submission["outcome"] == "passed", submission
    assert (submission["ranking"]["status"], submission["agent"]) == ("ranked", agent)


async def submit_by_cli(
    running: Running, folder: Path, runner: str
) -> subprocess.CompletedProcess[bytes]:
    """Submit with the command line and wait for the verdict."""
    kernel = folder / "kernel.py"
    kernel.write_text(HONEST)
    command = [sys.executable, "-m", "warpboard", "submit", str(kernel), "--leaderboard"]
    command += ["identity", "--gpu", "CPU", "--mode", "ranked", "--runner", runner, "--json"]
    environ = os.environ | {"WARPBOARD_URL": running.url, "WARPBOARD_PARTICIPANT": "ada"}
    return await asyncio.to_thread(
        subprocess.run, command, env=environ, capture_output=True, timeout=WITHIN_S, check=False
    )


async def test_each_kind_of_runner_ranks_a_submission(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        open_platform(tmp_path) as running,
        with_github(running) as github,
        with_modal(running, monkeypatch) as modal,
    ):
        with Person(running.url, "ada") as ada:
            check_ranked(await find_end(ada, submit(ada, "local")), "launched-1")
            check_ranked(await find_end(ada, submit(ada, "modal")), MODAL_AGENT)
            done = await submit_by_cli(running, tmp_path, "github")
            assert done.returncode == 0, done.stderr
            assert GITHUB_AGENT.encode() in done.stdout
            assert (len(github.runs), len(modal.calls)) == (1, 1)
            # Each has left, and the next job gets a fresh agent.
            await eventually(
                lambda: all(not it["running"] for it in read_launchers(running).values())
            )

            # It dies in the middle of its job, which is no fault of the participant.
            number = submit(ada, "modal", ENDLESS, "test")
            await eventually(lambda: ada.seen(number)["state"] == "running", WITHIN_S)
            assert modal.machines is not None
            call = modal.machines.processes[-1]
            os.kill(next(iter(descendants(call.pid, "gpu_agent"))), signal.SIGKILL)
            ended = await find_end(ada, number)
            assert ended["outcome"] == "infra_failed", ended
            check_ranked(await find_end(ada, submit(ada, "modal")), MODAL_AGENT)
        audit = await asyncio.to_thread(running.audit, "identity", "CPU")
        assert audit["is_clean"]


async def test_a_workflow_that_fails_is_told(tmp_path: Path) -> None:
    # Its repository has another key, so that no agent opens its credential.
    async with open_platform(tmp_path) as running, with_github(running, OTHER_KEY) as github:
        with Person(running.url, "ada") as ada:
            ended = await find_end(ada, submit(ada, "github"))
            assert (ended["outcome"], ended["code"]) == ("infra_failed", "runner_failed")
            assert "the workflow ended with failure in step 'Run one job'" in ended["reason"]
            assert "the credential cannot be opened" in ended["reason"]
            assert len(github.runs) == 2


async def test_an_agent_that_starts_late_is_given_up_and_the_next_one_runs_the_job(
    tmp_path: Path,
) -> None:
    limits = {"START_S_MAX": "45"}
    async with open_platform(tmp_path) as running, with_github(running, **limits) as github:
        github.held = 1
        with Person(running.url, "ada") as ada:
            check_ranked(await find_end(ada, submit(ada, "github")), GITHUB_AGENT)
            # The first one was cancelled.
            assert (len(github.runs), github.cancelled) == (2, [100])
