"""Ctrl-C and SIGKILL at any moment leave no orphan and no broken data directory."""

import asyncio
import signal

import pytest

from tests.support.people import HONEST, Person
from tests.support.platform import Running
from tests.support.waits import eventually

pytestmark = [pytest.mark.platform, pytest.mark.long, pytest.mark.server, pytest.mark.timeout(240)]


async def is_empty(running: Running, within_s: float = 30) -> None:
    """Wait until nothing of the platform is left."""
    await eventually(lambda: not running.left(), within_s=within_s)


@pytest.mark.parametrize("after_s", [0.05, 0.4, 0.9, 1.5, 2.5])
async def test_ctrl_c_while_it_starts_leaves_nothing(own_platform: Running, after_s: float) -> None:
    process = own_platform.launch()
    await asyncio.sleep(after_s)  # The moment itself is what this test varies.
    process.send_signal(signal.SIGINT)
    status = process.wait(30)
    # Python ends with 1 if it is interrupted before it runs a program, however long that takes.
    is_before_up = status == 1 and not own_platform.folder.exists()
    assert is_before_up or status in (0, 130, -signal.SIGINT)
    await is_empty(own_platform)


async def test_what_was_accepted_survives_ctrl_c_in_the_middle_of_a_run(
    platform_to_kill: Running,
) -> None:
    url = platform_to_kill.url
    with Person(url, "ada") as ada:
        first = ada.submit(HONEST, mode="ranked")
        numbers = [ada.submit(HONEST) for _ in range(3)]
        assert platform_to_kill.stop(signal.SIGINT) in (0, 130)
        await is_empty(platform_to_kill)
        platform_to_kill.up()
        assert platform_to_kill.url == url
        outcomes = {ada.end(number)["outcome"] for number in [first, *numbers]}
    assert outcomes <= {"passed", "infra_failed"}
    assert platform_to_kill.rebuild()["is_equal"] is True


async def test_sigkill_of_up_leaves_no_orphan_and_the_next_up_works(
    platform_to_kill: Running,
) -> None:
    with Person(platform_to_kill.url, "ada") as ada:
        number = ada.submit(HONEST)
        assert platform_to_kill.stop(signal.SIGKILL) == -signal.SIGKILL
        await is_empty(platform_to_kill)
        platform_to_kill.up()
        assert ada.end(number)["outcome"] in ("passed", "infra_failed")
