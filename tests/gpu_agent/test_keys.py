"""What an agent's verdicts are signed with, and that no submission ever sees it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from shared.events import JobAssigned, RunCompleted, RunStarted
from shared.signing import load_key, public_key
from shared.verdicts import verify_verdict
from shared.wire import decode
from tests.gpu_agent.world import HONEST, World, serving

shares_a_harness = pytest.mark.asyncio(loop_scope="session")

# A submission that says what it finds where the key lies, in any folder that it can look into.
THIEF = b"""
import os, sys
found = []
for where in ("%(key)s", "%(folder)s", "/proc/%(pid)d/cwd", "/proc/%(pid)d/environ",
              "/proc/%(pid)d/root%(key)s", "/proc/%(pid)d/mem"):
    try:
        found.append(os.listdir(where) if os.path.isdir(where) else open(where, "rb").read(64))
    except OSError as error:
        found.append(error.errno and "shut")
for descriptor in range(3, 64):
    try:
        found.append(os.readlink("/proc/self/fd/%%d" %% descriptor))
    except OSError:
        pass
print("FOUND", found)

def custom_kernel(data):
    data[1].copy_(data[0])
    return data[1]
"""


@shares_a_harness
async def test_a_verdict_is_signed_for_its_run_and_its_token(world: World) -> None:
    agent = world.agent()
    async with serving(agent):
        await world.order(HONEST, "r1")
        await world.until("r1", "RunCompleted")
    assigned, *_, completed = await world.history("r1")
    assert isinstance(assigned.fact, JobAssigned)
    assert isinstance(completed.fact, RunCompleted)
    key = public_key(agent.reporter.key)
    envelope = decode(completed.body)
    assert envelope.sig is not None
    run = assigned.envelope.aggregate
    assert verify_verdict(key, run, assigned.seq, bytes(envelope.data), envelope.sig)
    assert not verify_verdict(key, run, assigned.seq + 1, bytes(envelope.data), envelope.sig)


@shares_a_harness
async def test_what_is_no_verdict_is_not_signed(world: World) -> None:
    async with serving(world.agent()):
        await world.order(HONEST, "r1")
        await world.until("r1", "RunCompleted")
    *others, completed = await world.history("r1")
    assert completed.envelope.sig
    assert {other.envelope.sig for other in others} == {None}


@shares_a_harness
async def test_a_submission_cannot_see_the_key(world: World) -> None:
    agent = world.agent()
    place = {"key": world.folder / "sign_key", "folder": world.folder, "pid": os.getpid()}
    source = THIEF % {
        name.encode(): value if isinstance(value, int) else str(value).encode()
        for name, value in place.items()
    }
    async with serving(agent):
        await world.order(source, "r1")
        started = (await world.until("r1", "RunStarted")).fact
        ended = (await world.until("r1", "RunCompleted")).fact
    assert isinstance(started, RunStarted)
    assert isinstance(ended, RunCompleted)
    if {"namespaces", "uid"} <= set(started.missing):
        pytest.skip("no namespaces and no uid: here a submission may read what its agent may")
    (line_found,) = (line for line in ended.log_head.splitlines() if line.startswith("FOUND"))
    assert line_found.count("shut") == 6, line_found
    assert "sign_key" not in line_found


def test_the_key_command_prints_the_public_key_alone(tmp_path: Path) -> None:
    folder = tmp_path / "agent"
    environ = {
        "WARPBOARD_GPU_AGENT_NATS_URL": "nats://127.0.0.1:1",
        "WARPBOARD_GPU_AGENT_ID": "a1",
        "WARPBOARD_GPU_AGENT_DATA": str(folder),
        "WARPBOARD_GPU_AGENT_OPS_LISTEN": "127.0.0.1:0",
    }
    outputs = [
        subprocess.run(
            [sys.executable, "-m", "gpu_agent", "key"],
            env=os.environ | environ,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        ).stdout
        for _ in range(2)
    ]
    assert outputs[0] == outputs[1] == public_key(load_key(folder / "sign_key")) + "\n"
    assert folder.stat().st_mode & 0o777 == 0o700
