"""Every route of ingest's own by every kind of caller, compared with docs/access.md."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from ingest.http import document
from ingest.identity.scopes import SCOPES_BY_ROLE
from tests.support.door import FILES, KERNEL, OPERATOR, Door
from tests.support.holders import bearer, expired_token, made, role, token
from tests.support.waits import eventually

pytestmark = pytest.mark.server

PAGE = Path(__file__).parents[2] / "docs" / "access.md"
CALLERS = (
    *("nobody", "owner", "participant", "author", "creator", "moderator", "admin"),
    *("banned", "expired", "revoked", "operator's token"),
)
KEPT_OUT = {401: "401", 403: "403"}
SUBMIT = "POST /v1/submissions"
PUBLISH = "POST /v1/problems"
CHECK = "POST /v1/checks"
# An empty body is refused for what it is once who sends it was let in, and so changes nothing.
BODIES: Mapping[str, Any] = {
    "POST /v1/submissions/{number}/cancel": {"reason": "r"},
    "DELETE /v1/submissions/{number}": {"reason": "r"},
    "POST /v1/submissions/{number}/appeal": {"text": "why?"},
    "POST /v1/admin/submissions/{number}/hold": {"rule": "r", "reason": "r"},
    "POST /v1/admin/submissions/{number}/release": {"reason": "r"},
}


async def callers(door: Door) -> dict[str, dict[str, str]]:
    """One caller of each kind, each with a token that has every scope of their role."""
    roles = {"creator": "creator", "moderator": "moderator", "admin": "admin"}
    headers: dict[str, dict[str, str]] = {"nobody": {}, "operator's token": dict(OPERATOR)}
    for name, allowed in roles.items():
        await role(door, name, allowed)
    for name in CALLERS:
        if name in headers:
            continue
        scopes = sorted(SCOPES_BY_ROLE[roles.get(name, "participant")])
        if name == "author":
            scopes = sorted(SCOPES_BY_ROLE["creator"])
        headers[name] = await token(door, "ann" if name == "author" else name, *scopes)
    account = await door.commands.people.find("expired")
    assert account is not None
    headers["expired"] = bearer(await expired_token(door.commands.tokens, account, "api", "submit"))
    gone = await made(door, "revoked", "submit", "account")
    headers["revoked"] = bearer(gone["token"])
    await door.http.delete(f"/v1/tokens/{gone['id']}", headers=headers["revoked"])
    await door.admin("POST", "participants/banned/ban", reason="r")

    async def has_expired() -> bool:
        answer = await door.http.get("/v1/me", headers=headers["expired"])
        return answer.status_code == 401

    await eventually(has_expired)
    return headers


def routes(door: Door) -> list[str]:
    """Every route that ingest answers itself, as the table names it."""
    paths: Mapping[str, Mapping[str, Any]] = door.app.openapi()["paths"]
    reads = json.loads((Path(document.__file__).parent / document.READS).read_text())["paths"]
    return sorted(
        f"{method.upper()} {path}"
        for path, methods in paths.items()
        for method in methods
        if method not in reads.get(path, {})
    )


async def outcome(door: Door, route: str, headers: Mapping[str, str], number: int) -> str:
    """Whether a route lets somebody in, or how it keeps them out."""
    method, _, path = route.partition(" ")
    filled = path.replace("{number}", str(number)).replace("{slug}", "copy")
    filled = filled.replace("{role}", "admin").replace("{act}", "pause").replace("{name}", "target")
    filled = re.sub(r"\{\w+\}", "999999", filled)
    if route == SUBMIT:
        data = {"problem": "copy", "mode": "test", "gpu": "CPU"}
        files: Any = {"file": ("k.py", KERNEL)}
        answer = await door.http.post(filled, data=data, files=files, headers=headers)
    elif route in (PUBLISH, CHECK):
        files = [("files", (name, text)) for name, text in FILES.items()]
        answer = await door.http.post(filled, data={"slug": "copy"}, files=files, headers=headers)
    else:
        body = None if method == "GET" else BODIES.get(route, {})
        answer = await door.http.request(method, filled, json=body, headers=headers)
    assert answer.status_code < 500, f"{route}: {answer.text}"
    assert answer.headers["cache-control"] == "no-store", route
    assert answer.headers["x-content-type-options"] == "nosniff"
    return KEPT_OUT.get(answer.status_code, "yes")


def table() -> dict[str, Sequence[str]]:
    """The table of the page: what each caller gets of each route."""
    rows = re.findall(
        r"^\| `([A-Z]+ /[^`]*)` \|(.*)\|$", PAGE.read_text().partition("\n## ")[0], re.MULTILINE
    )
    return {route: [cell.strip() for cell in cells.split("|")] for route, cells in rows}


async def test_each_caller_gets_what_the_table_says(strict: Door) -> None:
    headers_by_caller = await callers(strict)
    answer = await strict.submit(headers=headers_by_caller["owner"])
    number = int(answer.json()["submissions"][0]["number"])
    await strict.admin("POST", "participants", name="target", reason="r")
    results = {
        route: [await outcome(strict, route, headers_by_caller[name], number) for name in CALLERS]
        for route in routes(strict)
    }
    expected = table()
    differing = [
        f"| `{route}` | {' | '.join(cells)} |"
        for route, cells in results.items()
        if list(expected.get(route, ())) != cells
    ]
    assert not differing, "docs/access.md says otherwise:\n" + "\n".join(differing)
    assert sorted(expected) == sorted(results), "docs/access.md names routes that are not there"
