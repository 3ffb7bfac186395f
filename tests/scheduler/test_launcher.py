"""A launcher between the log and GitHub's API, which a small server here imitates."""

import asyncio
import base64
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from importlib import import_module
from pathlib import Path

import pytest
from nacl.signing import SigningKey

from scheduler.launcher import settings as launcher_settings
from scheduler.launcher.runners import GitHubRunner, connect_github
from scheduler.launcher.service import Launcher
from shared import subjects
from shared.bus_keys.authority import Authority
from shared.bus_keys.login import BusLogin
from shared.clock import new_id, now
from shared.errors import Refused
from shared.event_log import NewEvent
from shared.events import (
    AgentEnrolled,
    AgentRevoked,
    Fact,
    InstanceEnded,
    InstanceRequested,
    LauncherRegistered,
)
from shared.signing import open_credential, public_key
from shared.wire import EventMetadata, make_envelope
from tests.support.github_actions import TOKEN, GitHub, open_github
from tests.support.memory import MemoryLog
from tests.support.waits import eventually

AGG = subjects.launcher("github")
KEY = base64.b64encode(bytes(range(32))).decode()
URL = "nats://nats.example:4222"
OFFER = LauncherRegistered(
    kind="github", prices={"H100": 4.0}, agents=["g-1"], daily_cost_max=10, start_s_max=300
)


@pytest.fixture
async def github() -> AsyncIterator[GitHub]:
    async with open_github() as server:
        yield server


@asynccontextmanager
async def launching(log: MemoryLog, github: GitHub, token: str = TOKEN) -> AsyncIterator[None]:
    """A launcher at work."""
    http = connect_github(github.url, "team/kernels", token)
    runner = GitHubRunner(http, "agent.yml", "main", poll_s=0.05)
    launcher = Launcher("github", log, now, runner, {"g-1": BusLogin(URL)}, credential_key=KEY)
    task = asyncio.create_task(launcher.run(OFFER))
    try:
        await eventually(lambda: registrations(log))
        yield
        if task.done():
            task.result()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await runner.close()


async def registrations(log: MemoryLog) -> list[LauncherRegistered]:
    facts = [event.fact for event in await log.history(AGG)]
    return [fact for fact in facts if isinstance(fact, LauncherRegistered)]


async def say(log: MemoryLog, aggregate: str, fact: Fact) -> str:
    """Append an event of the scheduler; return its id."""
    stamp = EventMetadata(new_id(), now(), "service:scheduler", "j1", "j1")
    await log.append(NewEvent(make_envelope(fact, aggregate, stamp), None))
    return stamp.id


async def request(log: MemoryLog, job: str = "j1", agent: str = "g-1") -> str:
    """Ask for an agent, as the scheduler does; return the id of the request."""
    start_by_at = now() + timedelta(minutes=5)
    requested = InstanceRequested(
        agent=agent, job=job, gpu="H100", price=4.0, start_by_at=start_by_at
    )
    return await say(log, AGG, requested)


async def ends(log: MemoryLog, count: int = 1) -> list[InstanceEnded]:
    """Return the ends of agents once there are so many."""
    facts = [event.fact for event in await log.history(AGG)]
    ended = [fact for fact in facts if isinstance(fact, InstanceEnded)]
    return ended if len(ended) >= count else []


@pytest.mark.feature("A11")
async def test_a_request_becomes_a_workflow_with_a_credential_for_one_job(github: GitHub) -> None:
    log = MemoryLog()
    async with launching(log, github):
        await request(log)
        await eventually(lambda: github.inputs)
        [inputs] = github.inputs
        opened = open_credential(inputs["credential"], KEY)
        assert (inputs["gpu"], opened["ID"], opened["NATS_URL"]) == ("H100", "g-1", URL)
        key = SigningKey(base64.b64decode(opened["SIGN_SEED"]))
        [enrolled] = [event.fact for event in await log.history(subjects.agent("g-1"))]
        assert isinstance(enrolled, AgentEnrolled)
        assert enrolled.sign_key == public_key(key)
        assert URL not in json.dumps(inputs)
        github.finish("success")
        [end] = await eventually(lambda: ends(log))
        assert (end.reason, end.url) == ("", github.runs[0]["html_url"])
        # The next agent gets another key.
        await request(log, "j2")
        await eventually(lambda: len(github.inputs) == 2)
        other = open_credential(github.inputs[1]["credential"], KEY)
        assert other["SIGN_SEED"] != opened["SIGN_SEED"]


async def test_a_failed_workflow_is_told_with_its_step_and_log(github: GitHub) -> None:
    log = MemoryLog()
    async with launching(log, github):
        await request(log)
        await eventually(lambda: github.runs)
        github.finish("failure")
        [end] = await eventually(lambda: ends(log))
    assert end.reason.startswith("the workflow ended with failure in step 'Run one job': ")
    assert end.reason.endswith("RuntimeError: no GPU")


async def test_an_agent_that_github_refuses_ends_at_once(github: GitHub) -> None:
    log = MemoryLog()
    async with launching(log, github, token="an-old-token"):
        await request(log)
        [end] = await eventually(lambda: ends(log))
    assert "401" in end.reason
    assert "Bad credentials" in end.reason


async def test_an_agent_that_nobody_needs_any_more_is_cancelled(github: GitHub) -> None:
    log = MemoryLog()
    async with launching(log, github):
        requested = await request(log)
        await eventually(lambda: github.runs)
        ended = InstanceEnded(agent="g-1", job="j1", reason="no agent came", request=requested)
        await say(log, AGG, ended)
        await eventually(lambda: github.cancelled == [100])


async def test_the_late_end_of_a_request_leaves_the_next_one_open(github: GitHub) -> None:
    log = MemoryLog()
    async with launching(log, github):
        first = await request(log)
        await eventually(lambda: github.runs)
        ended = InstanceEnded(agent="g-1", job="j1", reason="no agent came", request=first)
        await say(log, AGG, ended)
        second = await request(log)
        await say(log, AGG, ended)
        # Events are handled in their order; this one has no account, and ends at once.
        await request(log, agent="g-2")
        await eventually(lambda: ends(log, 3))
        assert github.cancelled == [100]
        github.finish("success")
        [*_, end] = await eventually(lambda: ends(log, 4))
        assert (end.reason, end.request) == ("", second)


async def test_a_run_that_is_listed_late_is_cancelled_then(github: GitHub) -> None:
    log = MemoryLog()
    github.lists_runs = False
    async with launching(log, github):
        requested = await request(log)
        ended = InstanceEnded(agent="g-1", job="j1", reason="no agent came", request=requested)
        await say(log, AGG, ended)
        # It asks for the runs, and finds none.
        await eventually(lambda: github.searches > 1)
        assert github.cancelled == []
        github.lists_runs = True
        await eventually(lambda: github.cancelled == [100])


async def test_a_run_that_github_may_have_started_is_no_failure(
    github: GitHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scheduler.launcher.runners.REQUEST_S_MAX", 0.5)
    log = MemoryLog()
    github.answers.clear()
    async with launching(log, github):
        requested = await request(log)
        await eventually(lambda: github.runs)
        ended = InstanceEnded(agent="g-1", job="j1", reason="no agent came", request=requested)
        await say(log, AGG, ended)
        await request(log, "j2")
        # Requests are handled in their order.
        await eventually(lambda: len(github.runs) == 2)
        assert github.cancelled == [100]
    assert await ends(log) == [ended]


async def test_a_log_that_does_not_end_is_left(
    github: GitHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scheduler.launcher.runners.REQUEST_S_MAX", 0.5)
    log = MemoryLog()
    async with launching(log, github):
        await request(log)
        await eventually(lambda: github.runs)
        github.answers.clear()
        github.finish("failure")
        [end] = await eventually(lambda: ends(log))
    assert "its log cannot be read: GitHub did not answer to GET actions/jobs" in end.reason


async def test_a_launcher_that_starts_again_goes_on(github: GitHub) -> None:
    log = MemoryLog()
    # It was requested while no launcher ran.
    await request(log)
    async with launching(log, github):
        await eventually(lambda: github.runs)
    github.finish("success")
    async with launching(log, github):
        [end] = await eventually(lambda: ends(log))
        assert end.reason == ""
    assert len(github.runs) == 1
    assert await registrations(log) == [OFFER]


async def test_a_revoked_agent_is_not_started(github: GitHub) -> None:
    log = MemoryLog()
    await say(log, subjects.agent("g-1"), AgentRevoked(reason="its password leaked"))
    async with launching(log, github):
        await request(log)
        [end] = await eventually(lambda: ends(log))
    assert "g-1 was revoked" in end.reason
    assert github.runs == []


async def test_an_agent_whose_account_was_taken_away_is_not_started(github: GitHub) -> None:
    log = MemoryLog()
    await request(log, agent="g-2")
    async with launching(log, github):
        [end] = await eventually(lambda: ends(log))
    assert "launcher github has no credentials of agent g-2 any more" in end.reason
    assert await log.history(subjects.agent("g-2")) == []


SETTINGS = {
    "NATS_URL": "nats://127.0.0.1:1",
    "OPS_LISTEN": "127.0.0.1:0",
    "DATA": "/nowhere",
    "GPUS": "A100:2 H100:3.95",
    "TOOLCHAINS": "g++ triton",
}
DEVICE = "WARPBOARD_GPU_AGENT_DEVICE"


@pytest.fixture
def environ(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    keys = Authority(tmp_path)
    keys.create()
    paths = [str(keys.ensure_user(user)) for user in ("agent-a", "agent-b")]
    monkeypatch.setenv("WARPBOARD_LAUNCHER_AGENT_CREDENTIALS", ":".join(paths))
    for name, value in SETTINGS.items():
        monkeypatch.setenv(f"WARPBOARD_LAUNCHER_{name}", value)
    monkeypatch.setenv(DEVICE, "cuda")
    return monkeypatch


def test_without_modals_client_other_kinds_work(environ: pytest.MonkeyPatch) -> None:
    environ.setitem(sys.modules, "modal", None)
    for module in ("scheduler.launcher.modal", "scheduler.launcher.__main__"):
        environ.delitem(sys.modules, module, raising=False)
    import_module("scheduler.launcher.__main__")
    assert launcher_settings.load().kind == "local"
    environ.setenv("WARPBOARD_LAUNCHER_KIND", "modal")
    with pytest.raises(Refused, match=r"install its client, warpboard-scheduler\[modal\]"):
        launcher_settings.load()


def test_a_repository_needs_its_owner(environ: pytest.MonkeyPatch) -> None:
    for name, value in {"KIND": "github", "GITHUB_TOKEN": "t", "CREDENTIAL_KEY": KEY}.items():
        environ.setenv(f"WARPBOARD_LAUNCHER_{name}", value)
    environ.setenv("WARPBOARD_LAUNCHER_GITHUB_REPOSITORY", "kernels")
    with pytest.raises(Refused, match="GITHUB_REPOSITORY is 'kernels': expected owner/name"):
        launcher_settings.load()
    environ.setenv("WARPBOARD_LAUNCHER_GITHUB_REPOSITORY", "team/kernels")
    assert launcher_settings.load().name == "github"


def test_modal_needs_a_token(environ: pytest.MonkeyPatch) -> None:
    pytest.importorskip("modal", reason="modal is not installed: see warpboard-scheduler[modal]")
    environ.setenv("WARPBOARD_LAUNCHER_KIND", "modal")
    with pytest.raises(Refused, match="MODAL_TOKEN_ID is missing"):
        launcher_settings.load()


def test_settings_say_what_a_launcher_offers(environ: pytest.MonkeyPatch) -> None:
    settings = launcher_settings.load()
    offer = settings.offer()
    assert (settings.name, offer.agents) == ("local", ["a", "b"])
    assert offer.prices == {"A100": 2.0, "H100": 3.95}
    assert offer.toolchains == ["g++", "triton"]
    # Each agent times a GPU of its own.
    assert settings.gpu_indexes == {"a": 0, "b": 1}
    assert settings.agent_environ[DEVICE] == "cuda"
    environ.setenv("WARPBOARD_GPU_AGENT_GPU_INDEX", "3")
    assert launcher_settings.load().gpu_indexes == {}


def test_agents_that_time_the_processor_serve_no_gpu(environ: pytest.MonkeyPatch) -> None:
    environ.delenv(DEVICE)
    with pytest.raises(Refused, match=f"time the processor: set {DEVICE}"):
        launcher_settings.load()
    environ.setenv("WARPBOARD_LAUNCHER_GPUS", "CPU:0")
    assert launcher_settings.load().gpu_indexes == {}


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("GPUS", "H100", "GPUS has 'H100'"),
        ("GPUS", "H100:-1", "GPUS has 'H100:-1'"),
        ("GPUS", "", "GPUS is empty"),
        ("GPUS", "H100:1 CPU:0", "GPUS has CPU, but agents here time a GPU"),
        ("AGENT_CREDENTIALS", "/nowhere/a.creds", "No such file"),
        ("AGENT_CREDENTIALS", "", "AGENT_CREDENTIALS is empty"),
        ("KIND", "gitlab", "expected local, github, modal"),
        ("KIND", "github", "GITHUB_REPOSITORY is missing"),
        ("CREDENTIAL_KEY", "c2hvcnQ=", "CREDENTIAL_KEY is not base64 of 32 bytes"),
        ("CREDENTIAL_KEY", "!", "CREDENTIAL_KEY is not base64 of 32 bytes"),
        ("START_S_MAX", "0", "START_S_MAX must be a positive number"),
        ("NAME", "a b", "NAME 'a b' is not an id"),
    ],
)
def test_wrong_settings_are_refused(
    environ: pytest.MonkeyPatch, name: str, value: str, reason: str
) -> None:
    environ.setenv(f"WARPBOARD_LAUNCHER_{name}", value)
    with pytest.raises(Refused, match=reason):
        launcher_settings.load()
