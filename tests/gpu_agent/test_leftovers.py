"""What would not die takes an agent out of service; what an author makes up about it does not."""

import os
import secrets
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from gpu_agent.service import Agent
from harness.pool import HarnessPool
from harness.sandbox.linux import descendants
from shared.events import RunCompleted, RunFailed
from tests.gpu_agent.world import HONEST, REFERENCE, World, serving
from tests.support.waits import eventually

FORGES = """
import sys
from harness.messages import RunReport
frame = sys._getframe()
while not hasattr(frame.f_locals.get("self"), "channel"):
    frame = frame.f_back
why = "a process of the submission could not be killed"
frame.f_locals["self"].tell(RunReport("", "check", why, 0.1, "", failure_code="sandbox"))
"""
NAME = "stubborn"
GONE_S_MAX = 30
# The harness waits for it several times in turn, 45 s each by default.
END_S_MAX = 2.0
STUBBORN = f"""
def custom_kernel(data):
    with open("/proc/self/comm", "w") as name:
        name.write("{NAME}")
    while True:
        pass
""".encode()


class Ice:
    """A group of ours: what is frozen in it no signal ends until it is thawed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()

    def take(self) -> bool:
        """Freeze the worker of the submission; whether there is one yet."""
        for pid in descendants(os.getpid()):
            with suppress(OSError):
                if Path(f"/proc/{pid}/comm").read_text().strip() == NAME:
                    (self.folder / "cgroup.procs").write_text(str(pid))
                    (self.folder / "freezer.state").write_text("FROZEN")
                    return True
        return False

    def melt(self) -> None:
        """Let go of what is in it, which has been killed long ago, and see it off."""
        (self.folder / "freezer.state").write_text("THAWED")
        until = time.monotonic() + GONE_S_MAX
        while (self.folder / "cgroup.procs").read_text():
            assert time.monotonic() < until, "what was killed does not die, though it may"
            time.sleep(0.01)
        self.folder.rmdir()


@pytest.fixture
def ice() -> Iterator[Ice]:
    """Skips where there is no freezer, or it is not ours to use."""
    root = Path("/sys/fs/cgroup/freezer")
    if not os.access(root, os.W_OK):
        pytest.skip("there is no freezer of our own here that holds a process against SIGKILL")
    created = Ice(root / f"warpboard-test-{secrets.token_hex(4)}")
    try:
        yield created
    finally:
        created.melt()


# The loop of the file's world.
pytestmark = pytest.mark.asyncio(loop_scope="session")


def reason(agent: Agent) -> str:
    return agent.registration.quarantine


@pytest.mark.long
@pytest.mark.timeout(600)
async def test_an_agent_with_a_process_that_would_not_die_runs_nothing_beside_it(
    world: World, ice: Ice
) -> None:
    async with HarnessPool(1, end_s_max=END_S_MAX) as world.pool:
        world.budget_s = 5
        agent = world.agent()
        async with serving(agent):
            await world.order(STUBBORN, "r1")
            await eventually(ice.take)
            ended = (await world.until("r1", "RunCompleted", 300)).fact
            await eventually(lambda: reason(agent), 300)
    assert isinstance(ended, RunCompleted)
    assert ended.verdict == "timed_out"
    assert "could not be killed" in ended.reason
    assert reason(agent) == "something of job j1 could not be killed"


@pytest.mark.long
async def test_an_author_who_says_that_something_would_not_die_stops_no_agent(
    world: World,
) -> None:
    agent = world.agent()
    async with serving(agent):
        world.reference = REFERENCE + FORGES
        await world.order(HONEST, "r1")
        failed = (await world.until("r1", "RunFailed")).fact
        world.reference = REFERENCE
        await world.order(HONEST, "r2")
        await world.until("r2", "RunCompleted")
    assert isinstance(failed, RunFailed)
    assert failed.code == "sandbox"
    assert failed.has_passed_self_test
    assert reason(agent) == ""


@pytest.mark.long
@pytest.mark.parametrize("slots", [1, 2])
async def test_an_agent_where_a_known_kernel_fails_takes_no_more_jobs(
    world: World, slots: int
) -> None:
    world.pool = HarnessPool(slots, launcher="none")
    agent = world.agent(slots=slots)
    async with serving(agent):
        if slots == 1:
            await world.order(HONEST, "r1")
        else:
            await world.order_chunk("r1", [HONEST.decode()] * 3)
        failed = (await world.until("r1", "RunFailed", 60)).fact
        await eventually(lambda: reason(agent), 60)
    await world.pool.close()
    assert isinstance(failed, RunFailed)
    assert not failed.has_passed_self_test
    assert reason(agent).startswith("a known kernel failed after job j1")
