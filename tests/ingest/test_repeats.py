"""Requests that come twice under one Idempotency-Key: done once, answered alike."""

import asyncio

import httpx
import pytest

from shared.events import InviteIssued, TokenIssued
from tests.ingest.conftest import shares_a_door
from tests.support.door import ADA, OPERATOR, Door
from tests.support.holders import code, token
from tests.support.memory_stores import MemoryIdempotencyStore

KEY = {"Idempotency-Key": "k1"}
TOKEN = {"name": "tuner", "scopes": ["submit"]}
INVITE = {"leaderboards": ["copy"], "reason": "a class"}


async def invite(door: Door, key: str = "k1", **more: object) -> httpx.Response:
    headers = OPERATOR | {"Idempotency-Key": key}
    return await door.http.post("/v1/admin/invites", json=INVITE | more, headers=headers)


def count(door: Door, kind: type) -> int:
    return sum(isinstance(event.fact, kind) for event in door.log.since(0))


async def test_a_repeat_gets_the_first_response_and_changes_nothing(door: Door) -> None:
    first, second = await invite(door), await invite(door)
    assert (first.status_code, second.status_code) == (201, 201)
    assert first.json() == second.json()
    assert "idempotent-replayed" not in first.headers
    assert second.headers["idempotent-replayed"] == "true"
    assert second.headers["x-request-id"] != first.headers["x-request-id"]
    assert count(door, InviteIssued) == 1


async def test_without_the_same_key_a_request_runs_again(door: Door) -> None:
    await invite(door)
    await invite(door, "k2")
    await door.http.post("/v1/admin/invites", json=INVITE, headers=OPERATOR)
    assert count(door, InviteIssued) == 3


async def test_a_key_with_another_body_is_refused(door: Door) -> None:
    await invite(door)
    assert code(await invite(door, count=2)) == (422, "idempotency_key_reused")
    assert count(door, InviteIssued) == 1


async def test_a_key_belongs_to_its_sender_and_route(door: Door) -> None:
    await invite(door)
    other = OPERATOR | KEY | {"Warpboard-Operator": "otto"}
    assert (await door.http.post("/v1/admin/invites", json=INVITE, headers=other)).is_success
    assert (await door.http.post("/v1/tokens", json=TOKEN, headers=ADA | KEY)).is_success
    assert count(door, InviteIssued) == 2


async def test_a_refused_request_can_reuse_its_key(door: Door) -> None:
    assert (await invite(door, leaderboards=[])).status_code == 422
    assert (await invite(door)).status_code == 201


@shares_a_door
@pytest.mark.parametrize("key", ["", "a b", "x" * 256, "\xe9"])
async def test_a_key_with_invalid_characters_is_refused(shared_door: Door, key: str) -> None:
    headers = {name.encode(): value.encode() for name, value in OPERATOR.items()}
    headers[b"Idempotency-Key"] = key.encode("latin-1")
    answer = await shared_door.http.post("/v1/admin/invites", json=INVITE, headers=headers)
    assert code(answer) == (400, "bad_idempotency_key")


async def test_concurrent_repeats_run_once(door: Door) -> None:
    answers = await asyncio.gather(*(invite(door) for _ in range(8)))
    assert {answer.status_code for answer in answers} <= {201, 409}
    waiting = [answer for answer in answers if answer.status_code == 409]
    assert all(answer.json()["code"] == "in_progress" for answer in waiting)
    assert all(answer.headers["retry-after"] == "1" for answer in waiting)
    assert count(door, InviteIssued) == 1


async def test_the_text_of_a_token_is_shown_once_and_never_stored(door: Door) -> None:
    first = await door.http.post("/v1/tokens", json=TOKEN, headers=ADA | KEY)
    secret, number = first.json()["token"], first.json()["id"]
    again = await door.http.post("/v1/tokens", json=TOKEN, headers=ADA | KEY)
    assert code(again) == (409, "shown_once")
    assert f"DELETE /v1/tokens/{number}" in again.json()["detail"]
    assert count(door, TokenIssued) == 1
    assert isinstance(door.stores.repeats, MemoryIdempotencyStore)
    ((_, stored),) = door.stores.repeats.requests.values()
    assert secret.encode() not in stored.body


async def test_a_caller_with_fewer_scopes_gets_no_replay(strict: Door) -> None:
    mighty = await token(strict, "ada", "account", "submit") | KEY
    weak = await token(strict, "ada", "submit") | KEY
    assert (await strict.http.post("/v1/tokens", json=TOKEN, headers=mighty)).is_success
    answer = await strict.http.post("/v1/tokens", json=TOKEN, headers=weak)
    assert code(answer) == (422, "idempotency_key_reused")


async def test_anonymous_requests_with_a_key_are_refused(strict: Door) -> None:
    for headers in (KEY, KEY | {"Authorization": "Bearer wb_nobodys"}):
        answer = await strict.http.post("/v1/tokens", json=TOKEN, headers=headers)
        assert answer.status_code == 401


async def test_a_body_over_the_limit_is_refused_with_a_key_too(door: Door) -> None:
    large = {"reason": "x" * (17 * 1024 * 1024)}
    answer = await door.http.post("/v1/admin/invites", json=large, headers=OPERATOR | KEY)
    assert code(answer) == (413, "request_too_large")


async def test_an_appeal_is_filed_once_under_its_key(door: Door) -> None:
    number = await door.number()
    await door.finish(number)
    held = await door.admin("POST", f"submissions/{number}/hold", rule="r", reason="look")
    assert held.status_code == 200, held.text
    path, body = f"/v1/submissions/{number}/appeal", {"text": "look again"}
    first = await door.http.post(path, json=body, headers=ADA | KEY)
    again = await door.http.post(path, json=body, headers=ADA | KEY)
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.json() == again.json()
