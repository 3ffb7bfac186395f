"""Operators at the door: who is let in, and that each act is an event with actor and reason."""

import re
from typing import Any

import pytest

from shared import subjects
from shared.events import AgentRegistered, CanaryChosen, DeadLetterRedriven, RunStarted
from tests.ingest.conftest import shares_a_door
from tests.support.door import ADA, OPERATOR, TOKEN, Door, opened
from tests.support.examples import example_event
from tests.support.memory import MemoryLog

pytestmark = pytest.mark.server

# Authors run their own leaderboards and decide on what is sent to their own problems by these:
# test_boards.py and test_moderation.py.
AUTHORS = re.compile(r"/v1/admin/(leaderboards|invites|submissions/\{number\}/(hold|release)$)")
KEY = "A" * 43 + "="
NAMED = {"Warpboard-Operator": "olga"}


async def admin_routes(door: Door) -> list[tuple[str, str]]:
    """Every route of operators, with something in place of what varies."""
    paths = (await door.http.get("/v1/openapi.json")).json()["paths"]
    routes = [
        (
            method.upper(),
            re.sub(r"\{\w+\}", "1", path.replace("{act}", "pause").replace("{role}", "admin")),
        )
        for path, methods in paths.items()
        if path.startswith("/v1/admin") and not AUTHORS.match(path)
        for method in methods
    ]
    assert len(routes) >= 17
    return routes


async def test_nobody_is_an_operator_without_secret_or_role() -> None:
    async with opened(MemoryLog(), token="") as door:
        for method, path in await admin_routes(door):
            for headers in ({}, OPERATOR, NAMED | {"Authorization": "Bearer "}):
                answer = await door.http.request(method, path, headers=headers, json={})
                result = (answer.status_code, answer.json()["code"])
                expected = "invalid_credential" if headers == OPERATOR else "missing_credential"
                assert result == (401, expected), path
        answer = await door.http.post("/v1/submissions/2/cancel", headers=OPERATOR)
        assert answer.status_code == 401


@shares_a_door
@pytest.mark.parametrize(
    "headers",
    [
        {},
        ADA,
        {"X-Popcorn-Cli-Id": TOKEN},
        {"X-Web-Auth-Id": TOKEN},
        NAMED | {"Authorization": TOKEN},
        NAMED | {"Authorization": f"Basic {TOKEN}"},
        NAMED | {"Authorization": f"Bearer {TOKEN}x"},
        NAMED | {"Authorization": "Bearer None"},
        NAMED | {"Authorization": "Bearer"},
        NAMED | {"Authorization": f"Bearer {TOKEN[:-1]}"},
        {"Authorization": f"Bearer {TOKEN}", "Warpboard-Operator": "Olga O."},
    ],
)
async def test_only_operators_get_admin_routes(shared_door: Door, headers: dict[str, str]) -> None:
    for method, path in await admin_routes(shared_door):
        answer = await shared_door.http.request(method, path, headers=headers, json={})
        assert answer.status_code == 401, path
    assert len(shared_door.log.since(0)) == 1


async def test_a_token_that_is_not_ascii_is_invalid(door: Door) -> None:
    headers = {b"Authorization": "Bearer ключ".encode(), b"Warpboard-Operator": b"olga"}
    answer = await door.http.get("/v1/admin/deadletters", headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (401, "invalid_credential")


@shares_a_door
@pytest.mark.parametrize(
    ("method", "path", "body", "field"),
    [
        ("POST", "intake/pause", {}, "reason"),
        ("POST", "intake/pause", {"reason": ""}, "reason"),
        ("POST", "intake/pause", {"reason": "a\nb"}, "reason"),
        ("POST", "intake/pause", {"reason": "\x9b31m"}, "reason"),
        ("POST", "intake/pause", {"reason": "a\u202eb"}, "reason"),
        ("POST", "intake/pause", {"reason": "r", "until": 1}, "until"),
        ("POST", "intake/stop", {"reason": "r"}, "act"),
        ("POST", "agents/a.b/drain", {"reason": "r"}, "agent"),
        ("POST", "agents/a1/enroll", {"sign_key": "x", "owner": "lab", "reason": "r"}, "sign_key"),
        ("PUT", "pools/CPU/canary", {"submission": 2, "every_s": 1, "ratio_max": 2}, "every_s"),
        ("PUT", "quota", {"bucket": "*.*.*", "window_s": 60, "reason": "r"}, "limit"),
        ("PUT", "quota", {"bucket": "*", "limit": 1, "window_s": 60, "reason": "r"}, "bucket"),
        ("POST", "submissions/1/hold", {"reason": "r"}, "rule"),
        ("POST", "participants/ada/ban", {"reason": "r", "until_at": "2030-01-01"}, "until_at"),
        ("POST", "rejudges", {"problem": "copy", "select": "some", "reason": "r"}, "select"),
        ("POST", "projections/ranker/skip", {"seq": 99, "reason": "r"}, "seq"),
    ],
)
async def test_a_bad_request_names_its_field(
    shared_door: Door, method: str, path: str, body: dict[str, Any], field: str
) -> None:
    answer = await shared_door.http.request(
        method, f"/v1/admin/{path}", json=body, headers=OPERATOR
    )
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request"), answer.text
    assert field in answer.json()["errors"][0]["field"]
    assert len(shared_door.log.since(0)) == 1


async def test_a_control_character_is_refused_in_words(door: Door) -> None:
    answer = await door.admin("POST", "intake/pause", reason="a new\x07disk")
    assert answer.status_code == 422
    assert "reason: control characters and line breaks are not allowed" in answer.json()["detail"]


@pytest.mark.feature("A1")
async def test_intake_can_be_paused_and_resumed(door: Door) -> None:
    paused = await door.said(await door.admin("POST", "intake/pause", reason="a new disk"))
    assert type(paused).__name__ == "IntakePaused"
    answer = await door.submit()
    assert (answer.status_code, answer.json()["code"]) == (503, "submissions_paused")
    assert answer.headers["retry-after"] == "60"
    assert "a new disk" in answer.json()["detail"]
    assert (await door.http.get("/v1/intake")).json() == {"paused": "a new disk"}
    again = await door.admin("POST", "intake/pause", reason="r")
    assert (again.status_code, again.json()["code"]) == (409, "wrong_state")
    await door.said(await door.admin("POST", "intake/resume", reason="done"))
    assert (await door.http.get("/v1/intake")).json() == {"paused": None}
    assert (await door.submit()).status_code == 202


@pytest.mark.parametrize(
    ("act", "event"),
    [
        ("cordon", "AgentCordoned"),
        ("drain", "AgentDrained"),
        ("quarantine", "AgentQuarantined"),
        ("revoke", "AgentRevoked"),
    ],
)
async def test_an_agent_is_cordoned_drained_quarantined_and_revoked(
    door: Door, act: str, event: str
) -> None:
    unknown = await door.admin("POST", f"agents/a1/{act}", reason="r")
    assert (unknown.status_code, unknown.json()["code"]) == (404, "unknown_agent")
    await door.say(subjects.agent("a1"), example_event(AgentRegistered))
    answer = await door.admin("POST", f"agents/a1/{act}", reason="too hot")
    fact = await door.said(answer)
    assert (type(fact).__name__, fact.reason) == (event, "too hot")  # type: ignore[attr-defined]
    assert answer.json()["event"] == event


async def test_an_agent_is_enrolled_once_by_its_key(door: Door) -> None:
    body = {"sign_key": KEY, "owner": "lab", "reason": "new"}
    first = await door.admin("POST", "agents/local/enroll", **body)
    assert type(await door.said(first)).__name__ == "AgentEnrolled"
    again = await door.admin("POST", "agents/local/enroll", **body)
    assert (again.status_code, again.json()) == (200, {"event": None, "seq": None})


async def test_a_pool_is_paused_and_has_a_canary(door: Door) -> None:
    number = await door.number()
    body = {"submission": number, "every_s": 60, "ratio_max": 1.2}
    early = await door.admin("PUT", "pools/CPU/canary", **body)
    assert (early.status_code, early.json()["code"]) == (400, "bad_canary")
    await door.finish(number)
    chosen = await door.said(await door.admin("PUT", "pools/CPU/canary", **body))
    assert isinstance(chosen, CanaryChosen)
    assert (chosen.problem, chosen.every_s) == ("copy", 60)
    for method, act in (("DELETE", "canary"), ("POST", "pause"), ("POST", "resume")):
        await door.said(await door.admin(method, f"pools/CPU/{act}", reason="r"))
    missing = await door.admin("PUT", "pools/CPU/canary", **body | {"submission": 99})
    assert (missing.status_code, missing.json()["code"]) == (404, "unknown_submission")


async def test_a_dead_letter_is_listed_and_redriven(door: Door) -> None:
    inbox = await door.bus.inbox("a1")
    await door.say(subjects.run("a1", "r1"), example_event(RunStarted))
    delivery = await inbox.next(1)
    assert delivery is not None
    while delivery is not None:
        await delivery.retry(0)
        delivery = await inbox.next(0.01)
    (letter,) = (await door.admin("GET", "deadletters")).json()["items"]
    path = f"deadletters/{letter['consumer']}/{letter['seq']}/redrive"
    redriven = await door.said(await door.admin("POST", path, reason="fixed"))
    assert redriven == DeadLetterRedriven(
        consumer=letter["consumer"], seq=letter["seq"], reason="fixed"
    )
    assert (await door.admin("GET", "deadletters")).json() == {"items": []}
    again = await door.admin("POST", path, reason="r")
    assert (again.status_code, again.json()["code"]) == (404, "unknown_dead_letter")


async def test_a_projection_skips_an_event_once(door: Door) -> None:
    await door.said(await door.admin("POST", "projections/ranker/skip", seq=1, reason="r"))
    again = await door.admin("POST", "projections/ranker/skip", seq=1, reason="r")
    assert again.status_code == 409


@pytest.mark.feature("N18")
async def test_any_other_action_is_recorded(door: Door) -> None:
    fact = await door.said(
        await door.admin("POST", "acted", command="backup", target="log", reason="weekly")
    )
    assert type(fact).__name__ == "OperatorActed"
