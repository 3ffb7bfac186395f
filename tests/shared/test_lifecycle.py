"""A service's process runs until a signal, drains within its limit and reports how it ended.

Run as a program, this file is the service under test: `test_lifecycle.py MAIN PORT`.
"""

import asyncio
import json
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from shared.errors import Failed
from shared.lifecycle import Lifecycle, run_until_first, run_until_signal
from shared.settings import Listen
from shared.version import VERSION
from tests.support.waits import eventually, free_port

# Longer than any drain of a test may take, and one that a service is meant to exceed.
DRAIN_S, SHORT_DRAIN_S = 30.0, 0.3
Main = Callable[[Lifecycle], Awaitable[None]]


async def patient(life: Lifecycle) -> None:
    """Drains when asked."""
    await life.stopping.wait()


async def stubborn(life: Lifecycle) -> None:
    """Never drains."""
    life.report_unhealthy("log", "unreachable for 60 s")
    await asyncio.Event().wait()


async def failing(_: Lifecycle) -> None:
    """Fails at once."""
    raise RuntimeError("the log is gone")


class Service:
    """This file as a service, and its responses."""

    def __init__(self, main: Main, port: int, drain_s: float) -> None:
        self.port = port
        words = main.__name__, str(port), str(drain_s)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.shared.test_lifecycle", *words],
            stderr=subprocess.PIPE,
            cwd=Path(__file__).parents[2],
        )

    def answer(self, path: str) -> tuple[int, bytes] | None:
        try:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{self.port}{path}", timeout=30
            ) as response:
                return response.status, response.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()
        except urllib.error.URLError:
            return None

    async def is_up(self) -> None:
        await eventually(lambda: self.answer("/healthz"))

    def end(self) -> tuple[int, list[str]]:
        """Return the exit code, and the messages it logged after the one about its version."""
        lines = self.process.communicate(timeout=20)[1].splitlines()
        first, *messages = [json.loads(line)["message"] for line in lines]
        assert first == f"starting version {VERSION}"
        return self.process.returncode, messages


class Start:
    """Starts this file as a service."""

    def __init__(self) -> None:
        self.services: list[Service] = []

    def __call__(self, main: Main, port: int = 0, drain_s: float = DRAIN_S) -> Service:
        self.services.append(Service(main, port or free_port(), drain_s))
        return self.services[-1]


@pytest.fixture
def start() -> Iterator[Start]:
    start = Start()

    yield start
    for service in start.services:
        service.process.kill()
        service.process.communicate(timeout=20)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_a_drained_service_well(start: Start, number: signal.Signals) -> None:
    service = start(patient)
    await service.is_up()
    service.process.send_signal(number)
    assert service.end() == (0, [f"stopping on {number.name}"])


async def test_a_drain_over_its_limit_is_a_failure(start: Start) -> None:
    service = start(stubborn, drain_s=SHORT_DRAIN_S)
    await service.is_up()
    service.process.terminate()
    code, messages = service.end()
    assert code == 1
    assert messages[-1] == "did not drain within 0 s: cancelling"


async def test_a_second_signal_ends_at_once(start: Start) -> None:
    service = start(stubborn)
    await service.is_up()
    for number in (signal.SIGTERM, signal.SIGINT):  # Two alike may arrive as one.
        service.process.send_signal(number)
    code, messages = service.end()
    assert code == 1
    assert messages[-1].endswith("exiting now")


def test_a_failure_is_logged_and_tells_by_its_exit_code(start: Start) -> None:
    assert start(failing).end() == (1, ["the process failed: the log is gone"])


def test_a_taken_address_is_a_failure_at_the_start(start: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, messages = start(patient, taken.getsockname()[1]).end()
    assert code == 1
    assert messages[0].startswith("cannot listen on 127.0.0.1:")


async def test_health_names_the_part_that_ails(start: Start) -> None:
    service = start(stubborn)
    await service.is_up()
    health = {"status": "unhealthy", "parts": {"log": "unreachable for 60 s"}}
    body = json.dumps(health | {"version": VERSION}).encode() + b"\n"
    await eventually(lambda: service.answer("/healthz") == (503, body))


async def test_ops_answers_health_metrics_and_nothing_else(start: Start) -> None:
    service = start(patient)
    await service.is_up()
    metrics = service.answer("/metrics")
    assert metrics is not None
    assert metrics[0] == 200
    assert b"process_start_time_seconds" in metrics[1]
    assert f'warpboard_test_build_info{{version="{VERSION}"}} 1.0' in metrics[1].decode()
    body = json.dumps({"status": "ok", "version": VERSION}).encode() + b"\n"
    assert service.answer("/healthz") == (200, body)
    assert (service.answer("/other") or (0,))[0] == 404


def test_a_part_is_well_again() -> None:
    life = Lifecycle()
    life.report_unhealthy("log", "gone")
    assert life.unhealthy_parts() == {"log": "gone"}
    life.report_unhealthy("log", None)
    assert life.unhealthy_parts() == {}


async def test_the_first_loop_that_ends_cancels_the_others() -> None:
    ended = asyncio.Event()

    async def endless() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    await run_until_first(endless(), asyncio.sleep(0))
    assert ended.is_set()


async def test_the_failure_of_a_loop_is_ours() -> None:
    with pytest.raises(RuntimeError, match="the log is gone"):
        await run_until_first(asyncio.Event().wait(), failing(Lifecycle()))


async def test_no_failure_of_several_is_lost() -> None:
    with pytest.raises(BaseExceptionGroup) as failures:
        await run_until_first(failing(Lifecycle()), failing(Lifecycle()))
    assert len(failures.value.exceptions) == 2


async def away(name: str) -> None:
    raise Failed(name)


async def test_an_outage_that_several_loops_meet_at_once_is_one_failure() -> None:
    with pytest.raises(Failed, match="Postgres"):
        await run_until_first(away("Postgres"), away("Postgres, too"))
    with pytest.raises(RuntimeError, match="the log is gone"):
        await run_until_first(away("Postgres"), failing(Lifecycle()))


if __name__ == "__main__":
    mains = {main.__name__: main for main in (patient, stubborn, failing)}
    chosen, port, drain_s = sys.argv[1:]
    listen = Listen("127.0.0.1", int(port))
    sys.exit(run_until_signal("test", listen, mains[chosen], float(drain_s)))
