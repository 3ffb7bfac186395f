"""A token that is limited to some problems: what else its owner has is not for it."""

import pytest

from tests.support.door import FILES, OPERATOR, Door
from tests.support.holders import bearer, code, made, token

pytestmark = pytest.mark.server

EVERYTHING = ("submit", "account", "webhooks", "read:own")
HOOK = {"url": "https://hooks.example.org/a", "events": ["submission.ended"]}


async def test_a_limited_token_can_only_revoke_itself(strict: Door) -> None:
    ada = await token(strict, "ada", *EVERYTHING)
    other = await made(strict, "ada", "submit")
    limited = await made(strict, "ada", *EVERYTHING, problems=["copy"])
    own = bearer(limited["token"])
    refused = (403, "scope_missing")
    assert code(await strict.http.get("/v1/tokens", headers=own)) == refused
    answer = await strict.http.delete(f"/v1/tokens/{other['id']}", headers=own)
    assert code(answer) == refused
    assert "limited to some problems" in answer.json()["detail"]
    assert len((await strict.http.get("/v1/tokens", headers=ada)).json()["items"]) == 3
    narrower = {"name": "n", "scopes": ["submit"], "problems": ["copy"]}
    assert (await strict.http.post("/v1/tokens", json=narrower, headers=own)).status_code == 201
    answer = await strict.http.delete(f"/v1/tokens/{limited['id']}", headers=own)
    assert answer.status_code == 200


async def test_a_limited_token_sees_only_webhooks_of_its_problems(strict: Door) -> None:
    ada = await token(strict, "ada", *EVERYTHING)
    own = await token(strict, "ada", *EVERYTHING, problems=["copy"])
    of_all = (await strict.http.post("/v1/webhooks", json=HOOK, headers=ada)).json()["id"]
    of_copy = HOOK | {"problems": ["copy"]}
    visible_id = (await strict.http.post("/v1/webhooks", json=of_copy, headers=ada)).json()["id"]
    webhooks = (await strict.http.get("/v1/webhooks", headers=own)).json()["items"]
    assert [webhook["id"] for webhook in webhooks] == [visible_id]
    for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/test"), ("GET", "/deliveries")):
        answer = await strict.http.request(method, f"/v1/webhooks/{of_all}{path}", headers=own)
        assert code(answer) == (404, "unknown_webhook"), (method, path)
    assert (await strict.http.delete(f"/v1/webhooks/{visible_id}", headers=own)).status_code == 200


async def test_a_limited_token_sees_no_other_closed_leaderboard(strict: Door) -> None:
    published = await strict.publish(
        FILES, OPERATOR, slug="hush", visibility="closed", report="", unchecked="r"
    )
    assert published.status_code == 201, published.text
    ada = await token(strict, "ada", "join", *EVERYTHING)
    invited = await strict.admin("POST", "invites", leaderboards=["hush"], reason="r")
    joined = {"code": invited.json()["codes"][0]}
    assert (await strict.http.post("/v1/user/join", json=joined, headers=ada)).is_success
    own = await token(strict, "ada", *EVERYTHING, problems=["copy"])
    assert (await strict.http.get("/v1/leaderboards/hush", headers=ada)).status_code == 200
    answer = await strict.http.get("/v1/leaderboards/hush", headers=own)
    assert code(answer) == (404, "unknown_leaderboard")
