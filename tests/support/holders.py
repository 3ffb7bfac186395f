"""Who has which token, as an operator makes them."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import httpx

from ingest.identity.accounts.service import NewToken, Tokens
from shared.clock import now
from tests.support.door import KERNEL_FILE, Door

USUAL = ["submit", "submit:ranked", "read:own", "delete:own", "join", "account"]
FORM = {"problem": "copy", "mode": "test", "gpu": "CPU"}


def code(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


async def role(door: Door, name: str, wanted: str) -> None:
    """Let somebody new have a role."""
    assert (await door.admin("POST", "participants", name=name, reason="r")).status_code in (
        200,
        201,
    )
    answer = await door.admin("POST", f"participants/{name}/roles", role=wanted, reason="r")
    assert answer.status_code == 200, answer.text


async def made(door: Door, name: str, *scopes: str, **more: Any) -> dict[str, Any]:
    """A token of somebody, who is new or not, as an operator makes it."""
    await door.admin("POST", "participants", name=name, reason="r")
    body = {"participant": name, "name": "t", "scopes": list(scopes or USUAL), "reason": "r"} | more
    answer = await door.admin("POST", "tokens", **body)
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


def bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


async def token(door: Door, name: str, *scopes: str, **more: Any) -> dict[str, str]:
    """The header of somebody's token."""
    return bearer((await made(door, name, *scopes, **more))["token"])


async def expired_token(tokens: Tokens, account: str, kind: str, *scopes: str) -> str:
    """A token that ended half an hour ago; ingest refuses to issue one."""
    issued_at = now() - timedelta(hours=1)
    earlier = replace(tokens, decisions=replace(tokens.decisions, clock=lambda: issued_at))
    new = NewToken(kind, "t", scopes, issued_at + timedelta(minutes=30))
    return (await earlier.issue(account, new, "operator:olga")).secret


async def submit(door: Door, headers: Mapping[str, str], **fields: str) -> httpx.Response:
    return await door.ask(FORM | fields, KERNEL_FILE, headers)
