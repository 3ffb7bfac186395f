"""Enrols the platform's own agent: what it signs with its key from now on counts."""

import asyncio
import time
from asyncio.subprocess import PIPE
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import httpx

from shared.errors import Failed

KEY_S_MAX = 30.0
ENROL_S_MAX = 30.0
STEP_S = 0.1
# The agent was revoked, which is for ever: it works on, and nothing that it says is ranked.
REVOKED = "wrong_state"


class Desk(NamedTuple):
    """Where an operator enrols agents."""

    url: str
    operator_token: str


async def enrol(desk: Desk, command: Sequence[str], environ: Mapping[str, str]) -> None:
    """Enrol the agent of this command with its own key; again is harmless. Errors: Failed."""
    agent = environ["WARPBOARD_GPU_AGENT_ID"]
    key = await _key((*command, "key"), environ)
    headers = {
        "Authorization": f"Bearer {desk.operator_token}",
        "Warpboard-Operator": "warpboard-up",
    }
    said = {"sign_key": key, "owner": "local", "reason": "it runs on the platform's own machine"}
    url = f"{desk.url}/v1/admin/agents/{agent}/enroll"
    async with httpx.AsyncClient(headers=headers, timeout=ENROL_S_MAX, trust_env=False) as http:
        answer = await _asked(http, url, said)
    if not answer.is_success and _code(answer) != REVOKED:
        raise Failed(f"agent {agent} was not enrolled: {answer.status_code} {answer.text}")


def _code(answer: httpx.Response) -> str:
    try:
        return str(answer.json()["code"])
    except (ValueError, KeyError, TypeError):
        return ""


async def _key(command: Sequence[str], environ: Mapping[str, str]) -> str:
    process = await asyncio.create_subprocess_exec(*command, env=environ, stdout=PIPE, stderr=PIPE)
    try:
        async with asyncio.timeout(KEY_S_MAX):
            out, errors = await process.communicate()
    except TimeoutError:
        raise Failed(f"the agent's key was not there within {KEY_S_MAX:.0f} s") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        raise Failed(f"the agent has no key: {errors.decode(errors='replace').strip()}")
    return out.decode().strip()


async def _asked(http: httpx.AsyncClient, url: str, said: dict[str, str]) -> httpx.Response:
    """The answer, as soon as ingest is up to give one; it starts at the same time as this."""
    until = time.monotonic() + ENROL_S_MAX
    while True:
        try:
            answer = await http.post(url, json=said)
            if answer.status_code != httpx.codes.SERVICE_UNAVAILABLE:
                return answer
            trouble = answer.text
        except httpx.TransportError as error:
            trouble = str(error)
        if time.monotonic() > until:
            raise Failed(f"ingest took no enrolment within {ENROL_S_MAX:.0f} s: {trouble}")
        await asyncio.sleep(STEP_S)
