"""A launcher between the log and Modal's own client, which speaks to an imitation of Modal."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from runpy import run_path

import pytest

pytest.importorskip("modal", reason="modal is not installed: see warpboard-scheduler[modal]")

from harness.gpus import find_gpu_spec
from harness.vocabulary import CPU_TYPE
from scheduler.launcher.modal import FUNCTION, ModalRunner, connect_modal
from scheduler.launcher.service import End, Launcher, LostAnswer, Request
from shared import subjects
from shared.bus_keys.login import BusLogin
from shared.clock import now
from shared.errors import Failed
from shared.events import InstanceEnded, InstanceRequested, LauncherRegistered
from shared.signing import open_credential
from tests.scheduler.test_launcher import KEY, say
from tests.support.memory import MemoryLog
from tests.support.modal_cloud import (
    APP,
    FAILURE,
    FILE,
    FUNCTIONS,
    SUCCESS,
    TERMINATED,
    TOKEN_ID,
    TOKEN_SECRET,
    Modal,
    open_modal,
)
from tests.support.waits import eventually, find_free_ports

REQUEST = Request("r1", "g-1", "j1", "H100")
AGG = subjects.launcher("modal")
URL = "nats://nats.example:4222"
OFFER = LauncherRegistered(
    kind="modal", prices={"H100": 4.0}, agents=["g-1"], daily_cost_max=10, start_s_max=300
)


@pytest.fixture
async def modal(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Modal]:
    async with open_modal() as server:
        monkeypatch.setenv("MODAL_SERVER_URL", server.url)
        yield server


@asynccontextmanager
async def open_runner(folder: Path, secret: str = TOKEN_SECRET) -> AsyncIterator[ModalRunner]:
    """A runner with a client of its own."""
    client = await connect_modal(TOKEN_ID, secret)
    runner = ModalRunner(client, APP, "", folder, poll_s=0.05)
    try:
        yield runner
    finally:
        await runner.close()


@asynccontextmanager
async def launching(
    log: MemoryLog, folder: Path, secret: str = TOKEN_SECRET
) -> AsyncIterator[None]:
    """A launcher at work."""
    async with open_runner(folder, secret) as runner:
        logins = {"g-1": BusLogin(URL)}
        launcher = Launcher("modal", log, now, runner, logins, credential_key=KEY)
        # A launcher that ends fails the test at once.
        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(launcher.run(OFFER))
            yield
            task.cancel()


def list_files(folder: Path) -> list[Path]:
    """The files of open requests."""
    return list(folder.iterdir())


async def ends(log: MemoryLog) -> list[InstanceEnded]:
    facts = [event.fact for event in await log.history(AGG)]
    return [fact for fact in facts if isinstance(fact, InstanceEnded)]


async def request(log: MemoryLog, gpu: str = "H100") -> str:
    """Ask for an agent, as the scheduler does; return the id of the request."""
    start_by_at = now() + timedelta(minutes=5)
    requested = InstanceRequested(
        agent="g-1", job="j1", gpu=gpu, price=4.0, start_by_at=start_by_at
    )
    return await say(log, AGG, requested)


async def test_a_request_becomes_a_call_with_a_credential_for_one_job(
    modal: Modal, tmp_path: Path
) -> None:
    log = MemoryLog()
    async with launching(log, tmp_path):
        await request(log)
        await eventually(lambda: modal.calls)
        [call] = modal.calls
        _, gpu, credential = call.arguments
        assert (call.function, gpu) == ("agent_H100", "H100")
        opened = open_credential(credential, KEY)
        assert (opened["ID"], opened["NATS_URL"]) == ("g-1", URL)
        assert URL not in credential
        call.status = SUCCESS
        [end] = await eventually(lambda: ends(log))
    assert (end.reason, end.url) == ("", "https://modal.com/id/fc-1")
    assert not list_files(tmp_path)


@pytest.mark.parametrize(("status", "word"), [(FAILURE, "failure"), (TERMINATED, "terminated")])
async def test_a_failed_call_is_told_with_the_end_of_its_log(
    modal: Modal, tmp_path: Path, status: int, word: str
) -> None:
    log = MemoryLog()
    async with launching(log, tmp_path):
        await request(log)
        await eventually(lambda: modal.calls)
        modal.calls[0].log = "starting\nRuntimeError: no GPU\n"
        modal.calls[0].status = status
        [end] = await eventually(lambda: ends(log))
    assert end.reason == f"the call ended with {word}: starting\nRuntimeError: no GPU"


@pytest.mark.parametrize(
    ("gpu", "secret", "reason"),
    [("B200", TOKEN_SECRET, "agent_B200"), ("H100", "as-2", "Token ID is malformed")],
)
async def test_an_agent_that_modal_refuses_ends_at_once(
    modal: Modal, tmp_path: Path, gpu: str, secret: str, reason: str
) -> None:
    log = MemoryLog()
    async with launching(log, tmp_path, secret):
        await request(log, gpu)
        [end] = await eventually(lambda: ends(log))
    assert "it could not be started: Modal did not start an agent" in end.reason
    assert reason in end.reason
    assert modal.calls == []
    assert not list_files(tmp_path)


async def test_an_agent_that_nobody_needs_any_more_is_cancelled(
    modal: Modal, tmp_path: Path
) -> None:
    log = MemoryLog()
    async with launching(log, tmp_path):
        requested = await request(log)
        await eventually(lambda: modal.calls)
        ended = InstanceEnded(agent="g-1", job="j1", reason="no agent came", request=requested)
        await say(log, AGG, ended)
        await eventually(lambda: modal.calls[0].status == TERMINATED)


async def test_a_launcher_that_starts_again_goes_on(modal: Modal, tmp_path: Path) -> None:
    log = MemoryLog()
    async with launching(log, tmp_path):
        await request(log)
        # It has heard which call it is.
        await eventually(lambda: [path.read_text() for path in list_files(tmp_path)] == ["fc-1"])
    modal.calls[0].status = SUCCESS
    async with launching(log, tmp_path):
        [end] = await eventually(lambda: ends(log))
    assert end.reason == ""
    assert len(modal.calls) == 1


async def test_an_agent_that_ended_its_request_while_no_launcher_ran_is_cancelled(
    modal: Modal, tmp_path: Path
) -> None:
    log = MemoryLog()
    async with launching(log, tmp_path):
        requested = await request(log)
        await eventually(lambda: [path.read_text() for path in list_files(tmp_path)] == ["fc-1"])
    ended = InstanceEnded(agent="g-1", job="j1", reason="no agent came", request=requested)
    await say(log, AGG, ended)
    async with launching(log, tmp_path):
        await eventually(lambda: modal.calls[0].status == TERMINATED)
        await eventually(lambda: not list_files(tmp_path))


async def test_the_end_of_a_call_is_known_until_it_is_stored(modal: Modal, tmp_path: Path) -> None:
    async with open_runner(tmp_path) as runner:
        await runner.start(REQUEST, "sealed")
        modal.calls[0].status = SUCCESS
        for _ in range(2):
            assert await runner.find_end(REQUEST) == End("", "https://modal.com/id/fc-1")
            assert await runner.has_started(REQUEST)
        runner.forget(REQUEST)
        assert not await runner.has_started(REQUEST)


async def test_a_call_that_may_have_been_made_is_not_made_again(
    modal: Modal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_runner(tmp_path) as runner:
        assert not await runner.has_started(REQUEST)
        modal.answers.clear()
        monkeypatch.setattr("scheduler.launcher.modal.REQUEST_S_MAX", 0.5)
        with pytest.raises(LostAnswer, match=r"did not start an agent within 0\.5 s"):
            await runner.start(REQUEST, "sealed")
        assert len(modal.calls) == 1
        with pytest.raises(Failed, match="may have started it"):
            await runner.has_started(REQUEST)
        assert await runner.find_end(REQUEST) is None
        await runner.stop(REQUEST)
        assert not await runner.has_started(REQUEST)


async def test_who_cannot_reach_modal_fails_with_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    (port,) = find_free_ports(1)
    monkeypatch.setenv("MODAL_SERVER_URL", f"http://127.0.0.1:{port}")
    monkeypatch.setattr("scheduler.launcher.modal.REQUEST_S_MAX", 0.5)
    with pytest.raises(Failed, match="Modal did not accept a connection"):
        await connect_modal(TOKEN_ID, TOKEN_SECRET)


def test_the_ready_app_has_a_function_for_each_gpu_type() -> None:
    gpus = run_path(str(FILE))["GPUS"]
    assert {FUNCTION.format(gpu=gpu) for gpu in gpus} > set(FUNCTIONS)
    assert all(find_gpu_spec(gpu) for gpu in gpus if gpu != CPU_TYPE)
