"""The check of a problem on an agent: it has a limit, and leaves the agent in service."""

import json
from datetime import timedelta
from typing import Any

import pytest

from gpu_agent import runs
from shared.checks.problem_files import compile_files
from shared.checks.request import REPORT_NAME, CheckRequest, encode_request
from shared.clock import now
from shared.events import RunCompleted
from tests.gpu_agent.world import HONEST, World, serving

# The loop of the file's world.
pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.box, pytest.mark.long]

LIMIT_S = 1.0
SLUG = "endless"
ENDLESS = b"""\
import time


def generate_input(size: int = 64, seed: int = 0):
    time.sleep(0.2)
    return [seed] * size


def ref_kernel(data):
    time.sleep(600)
    return data


def check_implementation(user_output, reference_output) -> bool:
    return user_output == reference_output
"""


async def test_a_check_that_takes_too_long_is_refused(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "CHECK_S_MAX", LIMIT_S)
    digest = compile_files(SLUG, {"reference.py": ENDLESS}, ["CPU"]).digest
    source = await world.blobs.put(ENDLESS)
    request = CheckRequest(SLUG, digest, ["CPU"], {"reference.py": source.digest})
    agent = world.agent()
    async with serving(agent):
        order: dict[str, Any] = {
            "problem": SLUG,
            "problem_digest": digest,
            "mode": "check",
            "class_": "check",
        }
        order |= {"deadline_at": now() + timedelta(hours=1)}
        await world.order(encode_request(request), "slow", **order)
        fact = (await world.until("slow", "RunCompleted")).fact
        assert isinstance(fact, RunCompleted)
        assert fact.verdict == "check_failed"
        assert fact.took_s < 60
        blobs = {file.name: file.blob for file in fact.artefacts}
        report = json.loads(await world.blobs.get(blobs[REPORT_NAME].digest))
        assert [finding["code"] for finding in report["findings"]] == ["check_slow"]
        assert "took more than 1 s: make its cases smaller" in report["findings"][0]["text"]
        assert (report["digest"], report["is_clean"]) == (digest, False)
        # Nothing of it is left, and the agent takes the next job.
        assert agent.registration.quarantine == ""
        await world.order(HONEST, "next")
        end = (await world.until("next", "RunCompleted")).fact
        assert isinstance(end, RunCompleted)
        assert end.verdict == "passed"
