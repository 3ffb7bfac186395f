"""Participants' webhooks: theirs alone, at most twenty, to nowhere inside."""

import asyncio
from typing import Any

import httpx
import pytest

from ingest.webhooks import rules
from shared import subjects
from shared.events import WebhookAdded, WebhookRemoved
from tests.ingest.conftest import shares_a_door
from tests.support.door import ADA, Door, opened
from tests.support.holders import code, token
from tests.support.memory import MemoryLog
from tests.support.scenarios import given

SCOPES = ("webhooks", "read:own")
HOOK = {"url": "https://hooks.example.org/in", "events": ["submission.ended"]}
ADDED = WebhookAdded(account="a1", problems=[], kinds=["submission.ended"])


async def add(door: Door, headers: dict[str, str], **more: Any) -> httpx.Response:
    return await door.http.post("/v1/webhooks", json=HOOK | more, headers=headers)


def test_a_webhook_is_added_and_removed_once() -> None:
    remove = rules.Remove("a1", "r")
    given(rules.WEBHOOK_DECIDER).when(ADDED).then(ADDED)
    given(rules.WEBHOOK_DECIDER, ADDED).when(remove).then(WebhookRemoved(reason="r"))
    given(rules.WEBHOOK_DECIDER, ADDED, WebhookRemoved(reason="r")).when(remove).then()
    given(rules.WEBHOOK_DECIDER, ADDED).when(rules.Remove("a2", "r")).then_refused(
        "unknown_webhook"
    )
    given(rules.WEBHOOK_DECIDER).when(remove).then_refused("unknown_webhook")


@pytest.mark.server
async def test_the_secret_of_a_webhook_is_shown_once(strict: Door) -> None:
    ada = await token(strict, "ada", *SCOPES)
    answer = await add(strict, ada, problems=["Copy"])
    assert answer.status_code == 201, answer.text
    created = answer.json()
    assert created["secret"].startswith("wbhook_")
    assert (created["events"], created["problems"], created["state"]) == (
        ["submission.ended"],
        ["copy"],
        "on",
    )
    list_answer = await strict.http.get("/v1/webhooks", headers=ada)
    single_answer = await strict.http.get(f"/v1/webhooks/{created['id']}", headers=ada)
    assert list_answer.json() == {"items": [single_answer.json()]}
    assert created["secret"] not in list_answer.text
    (event,) = await strict.log.history(subjects.webhook(created["id"]))
    assert isinstance(event.fact, WebhookAdded)
    assert (event.fact.problems, event.fact.kinds) == (["copy"], ["submission.ended"])
    assert "hooks.example.org" not in str(event.body)


@pytest.mark.server
async def test_a_webhook_belongs_to_its_owner(strict: Door) -> None:
    ada, eve = [await token(strict, name, *SCOPES) for name in ("ada", "eve")]
    path = f"/v1/webhooks/{(await add(strict, ada)).json()['id']}"
    for method, route in (
        ("GET", path),
        ("DELETE", path),
        ("POST", f"{path}/test"),
        ("GET", f"{path}/deliveries"),
    ):
        answer = await strict.http.request(method, route, headers=eve)
        assert code(answer) == (404, "unknown_webhook")
        assert code(await strict.http.request(method, route))[0] == 401
        bare = await token(strict, "ada", "submit")
        assert code(await strict.http.request(method, route, headers=bare))[1] == "scope_missing"
    assert (await strict.http.get("/v1/webhooks", headers=eve)).json() == {"items": []}


@pytest.mark.server
async def test_a_removed_webhook_stays_removed(strict: Door) -> None:
    ada = await token(strict, "ada", *SCOPES)
    id_ = (await add(strict, ada)).json()["id"]
    answer = await strict.http.delete(f"/v1/webhooks/{id_}", headers=ada)
    assert answer.json()["event"] == "WebhookRemoved"
    assert code(await strict.http.get(f"/v1/webhooks/{id_}", headers=ada))[0] == 404
    assert code(await strict.http.delete(f"/v1/webhooks/{id_}", headers=ada))[0] == 404


@pytest.mark.server
async def test_twenty_webhooks_are_the_limit_even_for_concurrent_requests(strict: Door) -> None:
    ada = await token(strict, "ada", *SCOPES)
    answers = await asyncio.gather(*(add(strict, ada) for _ in range(25)))
    assert sorted(answer.status_code for answer in answers) == [201] * 20 + [409] * 5
    refused = next(answer for answer in answers if answer.status_code == 409)
    assert code(refused) == (409, "too_many_webhooks")
    first = next(answer for answer in answers if answer.status_code == 201).json()["id"]
    await strict.http.delete(f"/v1/webhooks/{first}", headers=ada)
    assert (await add(strict, ada)).status_code == 201


@shares_a_door
@pytest.mark.server
@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"url": "http://hooks.example.org/in"}, "invalid_url"),
        ({"url": "https://127.0.0.1/in"}, "invalid_url"),
        ({"url": "https://2130706433/"}, "invalid_url"),
        ({"url": "https://[::ffff:10.0.0.1]/"}, "invalid_url"),
        ({"url": "http://localhost:9/"}, "invalid_url"),
        ({"events": []}, "invalid_request"),
        ({"events": ["submission.begun"]}, "invalid_request"),
        ({"secret": "short"}, "invalid_request"),
        ({"colour": "red"}, "invalid_request"),
        ({"problems": ["nowhere"]}, "unknown_leaderboard"),
    ],
)
async def test_an_invalid_webhook_is_refused(
    shared_strict: Door, more: dict[str, Any], said: str
) -> None:
    ada = await token(shared_strict, "ada", *SCOPES)
    answer = await add(shared_strict, ada, **more)
    assert code(answer) == (404 if said == "unknown_leaderboard" else 422, said)
    assert not (await shared_strict.http.get("/v1/webhooks", headers=ada)).json()["items"]


@pytest.mark.server
async def test_closed_leaderboards_and_limited_tokens_restrict_webhooks(strict: Door) -> None:
    body = {"visibility": "closed", "reason": "r"}
    answer = await strict.admin("PUT", "leaderboards/copy", **body)
    assert answer.status_code == 200, answer.text
    ada = await token(strict, "ada", *SCOPES)
    assert code(await add(strict, ada, problems=["copy"])) == (403, "no_access")
    narrow = await token(strict, "ann", *SCOPES, problems=["copy"])
    assert code(await add(strict, narrow)) == (403, "scope_missing")
    assert (await add(strict, narrow, problems=["copy"])).status_code == 201


@pytest.mark.server
async def test_webhook_tests_are_listed_in_pages(strict: Door) -> None:
    ada = await token(strict, "ada", *SCOPES)
    path = f"/v1/webhooks/{(await add(strict, ada)).json()['id']}"
    sent = [await strict.http.post(f"{path}/test", headers=ada) for _ in range(3)]
    assert [answer_.status_code for answer_ in sent] == [202] * 3
    first = (await strict.http.get(f"{path}/deliveries?limit=2", headers=ada)).json()
    assert [answer_["type"] for answer_ in first["items"]] == ["test", "test"]
    assert first["items"][0]["state"] == "pending"
    query = f"limit=2&cursor={first['next_cursor']}"
    last = (await strict.http.get(f"{path}/deliveries?{query}", headers=ada)).json()
    assert last["next_cursor"] is None
    ids = [answer_["event_id"] for answer_ in (*first["items"], *last["items"])]
    assert ids == [answer_.json()["event_id"] for answer_ in reversed(sent)]
    assert code(await strict.http.get(f"{path}/deliveries?cursor=x", headers=ada))[0] == 422


@pytest.mark.server
async def test_too_many_webhook_tests_are_refused(strict: Door) -> None:
    ada = await token(strict, "ada", *SCOPES)
    path = f"/v1/webhooks/{(await add(strict, ada)).json()['id']}/test"
    answers = [await strict.http.post(path, headers=ada) for _ in range(31)]
    assert code(answers[-1]) == (429, "rate_limited")


@pytest.mark.server
async def test_webhooks_are_local_only_if_the_operator_allows_it(door: Door) -> None:
    assert code(await add(door, ADA, url="http://127.0.0.1:9/in"))[1] == "invalid_url"
    async with opened(MemoryLog(), are_webhooks_local=True) as local:
        assert (await add(local, ADA, url="http://127.0.0.1:9/in")).status_code == 201
        assert code(await add(local, ADA, url="http://10.0.0.1/in"))[1] == "invalid_url"
