"""The simulator asked at random by Discord's own document, on demand: is it right in all it says?

`pytest -s tests/discord/test_by_document.py` with the documents in the environment.
"""

import asyncio
import json
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from discord_sim import shapes
from discord_sim.documents import Validators
from discord_sim.operations import every_operation
from discord_sim.settings import OPENAPI
from discord_sim.simulator import Simulator
from discord_sim.state import COMMAND, COMPONENT
from tests.discord.pins import PINS
from tests.discord.raw import Raw, raw
from tests.support.documents import Found

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

HERE = Path(__file__).parent
LIMIT_S, SEED, CASES_MIN = 800, 20261121, 200
INTERACTIONS = 200
# Whether an answer is as documented is for the simulator's own judge, which knows where the
# document errs; and a path of 64 KiB is refused by the server below it, in plain text.
CHECKS = "not_a_server_error"
COUNT = re.compile(r"^\s+(\d+) generated", re.MULTILINE)


async def pinned(asking: Raw) -> dict[str, list[str]]:
    """What there is, by the name of a parameter, or by path and name."""
    sim = asking.sim
    person, role = sim.person("ada"), await sim.add_role("authors")
    text, forum = await sim.add_channel("text"), await sim.add_channel("forum", shapes.FORUM)
    said = (await asking("POST", f"/channels/{text}/messages", {"content": "hello"})).body
    begun = {"name": "a thread", "type": shapes.PUBLIC_THREAD}
    thread = (await asking("POST", f"/channels/{text}/threads", begun)).body
    fresh = [asking.begun(kind) for kind in (COMMAND, COMPONENT) for _ in range(INTERACTIONS)]
    answered = asking.begun()
    await asking.answer(answered, {"type": 4, "data": {"content": "hello"}})
    callback = "/interactions/{interaction_id}/{interaction_token}/callback"
    return {
        "guild_id": [sim.guild.id],
        "channel_id": [text, thread["id"], forum],
        "message_id": [said["id"]],
        "application_id": [sim.application_id],
        "user_id": [person.id, sim.guild.owner_id],
        "role_id": [role],
        "webhook_id": [sim.application_id],
        "webhook_token": [answered.token],
        f"{callback} interaction_id": [one.id for one in fresh],
        f"{callback} interaction_token": [one.token for one in fresh],
    }


async def asked(sim: Simulator, pins: dict[str, list[str]], how: Sequence[str]) -> Found:
    """Ask every operation that the simulator has."""
    wanted = [part for one in every_operation() for part in ("--include-operation-id", one.id)]
    process = await asyncio.create_subprocess_exec(
        Path(sys.executable).with_name("schemathesis"),
        *("run", os.environ[OPENAPI], "--url", sim.api_url, *wanted),
        *("-H", f"Authorization: Bot {sim.token}", "-H", "User-Agent: DiscordBot (document, 1)"),
        *("--seed", str(SEED), "--generation-deterministic", "--continue-on-failure"),
        *("--checks", CHECKS, "--warnings", "off", "--request-timeout", "30", *how),
        env={
            **os.environ,
            "SCHEMATHESIS_HOOKS": str(HERE / "pins.py"),
            "NO_COLOR": "1",
            PINS: json.dumps(pins),
        },
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        out, _ = await asyncio.wait_for(process.communicate(), LIMIT_S)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    counted = COUNT.search(out.decode())
    assert counted, out.decode()[-4000:]
    return Found(int(counted[1]), process.returncode == 0, out.decode())


async def test_the_simulator_answers_as_the_document_says(
    documents: Validators, tmp_path: Path, monkeypatch: Any
) -> None:
    pytest.importorskip("schemathesis", reason="schemathesis is not installed: nothing is asked")
    monkeypatch.chdir(tmp_path)
    async with Simulator(documents) as sim, raw(sim) as asking:
        asking.listen()
        pins = await pinned(asking)
        # A request may ask for what is not there; an answer of ours may never be wrong.
        found = await asked(sim, pins, ("--phases", "examples,fuzzing", "--max-examples", "5"))
        sys.stdout.write(f"{found.cases} cases, {len(sim.record.calls)} requests\n")
        assert not sim.record.own_faults, "\n".join(sorted(set(sim.record.own_faults))[:40])
        assert found.is_well, found.text
        assert found.cases > CASES_MIN
