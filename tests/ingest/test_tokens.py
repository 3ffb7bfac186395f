"""Tokens, roles and identities: who makes them, and who may not."""

import asyncio
from typing import Any

import pytest

from ingest.identity.accounts.rules import TOKENS_MAX
from ingest.identity.accounts.service import NewToken
from shared.errors import Refused
from shared.events import RoleGranted
from tests.ingest.conftest import shares_a_door
from tests.support.door import FILES, OPERATOR, Door, publication
from tests.support.holders import bearer, code, made, role, submit, token

pytestmark = pytest.mark.server


async def test_participants_create_list_and_revoke_their_tokens(strict: Door) -> None:
    ada = await token(strict, "ada")
    body = {"name": "agent", "scopes": ["submit"], "expires_in_days": 7, "problems": ["copy"]}
    answer = await strict.http.post("/v1/tokens", json=body, headers=ada)
    assert answer.status_code == 201, answer.text
    second = answer.json()
    tokens = (await strict.http.get("/v1/tokens", headers=ada)).json()["items"]
    assert [item["name"] for item in tokens] == ["t", "agent"]
    assert tokens[1]["problems"] == ["copy"]
    assert second["token"] not in str(tokens)
    assert code(await strict.http.get("/v1/tokens", headers=bearer(second["token"])))[0] == 403
    grace = await token(strict, "grace")
    answer = await strict.http.delete(f"/v1/tokens/{second['id']}", headers=grace)
    assert code(answer) == (404, "unknown_token")
    assert (await strict.http.delete(f"/v1/tokens/{second['id']}", headers=ada)).status_code == 200
    assert len((await strict.http.get("/v1/tokens", headers=ada)).json()["items"]) == 1


async def test_a_token_may_revoke_itself(strict: Door) -> None:
    issued = await made(strict, "ada", "submit")
    own = bearer(issued["token"])
    assert (await strict.http.delete(f"/v1/tokens/{issued['id']}", headers=own)).status_code == 200
    assert (await submit(strict, own)).status_code == 401


@shares_a_door
@pytest.mark.parametrize("scope", ["author", "admin", "admin:operate", "profile"])
async def test_nobody_grants_scopes_that_they_do_not_have(shared_strict: Door, scope: str) -> None:
    ada = await token(shared_strict, "ada")
    body = {"name": "more", "scopes": [scope]}
    answer = await shared_strict.http.post("/v1/tokens", json=body, headers=ada)
    assert code(answer) == (403, "scope_missing")


@shares_a_door
@pytest.mark.parametrize(
    "body",
    [
        {"name": "t", "scopes": []},
        {"name": "t", "scopes": ["submit"], "expires_in_days": 366},
        {"name": "", "scopes": ["submit"]},
        {"name": "t", "scopes": ["submit"], "kind": "web"},
    ],
)
async def test_an_invalid_token_request_is_refused(
    shared_strict: Door, body: dict[str, Any]
) -> None:
    answer = await shared_strict.http.post(
        "/v1/tokens", json=body, headers=await token(shared_strict, "ada")
    )
    assert answer.status_code == 422


async def test_the_last_use_of_a_token_is_stored_later(strict: Door) -> None:
    issued = await made(strict, "ada")
    headers = bearer(issued["token"])
    assert (await strict.http.get("/v1/tokens", headers=headers)).json()["items"][0][
        "last_used_at"
    ] is None
    await strict.commands.tokens.usage.save()
    (item,) = (await strict.http.get("/v1/tokens", headers=headers)).json()["items"]
    assert item["last_used_at"] is not None


async def test_only_admins_give_and_take_roles(strict: Door) -> None:
    await role(strict, "mod", "moderator")
    mod = await token(strict, "mod", "admin:participants", "admin:submissions")
    body = {"role": "admin", "reason": "r"}
    path = "/v1/admin/participants/mod/roles"
    assert code(await strict.http.post(path, json=body, headers=mod)) == (403, "scope_missing")
    assert (await strict.http.get("/v1/admin/participants/mod", headers=mod)).json()["roles"] == [
        "moderator",
        "participant",
    ]
    answer = await strict.admin("DELETE", "participants/mod/roles/moderator", reason="gone")
    assert answer.status_code == 200, answer.text
    answer = await strict.http.get("/v1/admin/participants/mod", headers=mod)
    assert code(answer) == (403, "scope_missing")
    granted = [event for event in strict.log.since(0) if isinstance(event.fact, RoleGranted)]
    assert {event.envelope.actor for event in granted} == {"operator:olga"}


async def test_a_moderator_acts_in_their_own_name(strict: Door) -> None:
    await role(strict, "mod", "moderator")
    mod = await token(strict, "mod", "admin:participants", "admin:submissions")
    await token(strict, "ada")
    answer = await strict.http.post(
        "/v1/admin/participants/ada/ban", json={"reason": "copied"}, headers=mod
    )
    assert answer.status_code == 200, answer.text
    recorded = strict.log.since(answer.json()["seq"] - 1)[0]
    assert recorded.envelope.actor == f"account:{await strict.commands.people.find('mod')}"
    answer = await strict.http.post("/v1/admin/intake/pause", json={"reason": "r"}, headers=mod)
    assert code(answer) == (403, "scope_missing")


@pytest.mark.feature("C13")
async def test_creators_publish_their_own_problems_and_participants_none(strict: Door) -> None:
    answer = await strict.publish(headers=await token(strict, "ada"))
    assert code(answer) == (403, "scope_missing")
    await role(strict, "eve", "creator")
    answer = await strict.publish(headers=await token(strict, "eve", "author"))
    assert code(answer) == (403, "not_yours")
    assert (await strict.publish(headers=OPERATOR)).status_code == 200


async def test_moderators_cannot_decide_about_operators(strict: Door) -> None:
    await role(strict, "root", "admin")
    await role(strict, "mo", "moderator")
    roots = await made(strict, "root", "admin")
    mo = await token(strict, "mo", "admin:participants")
    ban = "/v1/admin/participants/root/ban"
    answer = await strict.http.post(ban, json={"reason": "r"}, headers=mo)
    assert code(answer) == (403, "scope_missing")
    answer = await strict.http.request(
        "DELETE", f"/v1/admin/tokens/{roots['id']}", json={"reason": "r"}, headers=mo
    )
    assert code(answer) == (403, "scope_missing")
    await token(strict, "ada")
    ban = "/v1/admin/participants/ada/ban"
    assert (await strict.http.post(ban, json={"reason": "r"}, headers=mo)).status_code == 200
    ban = "/v1/admin/participants/mo/ban"
    own = bearer(roots["token"])
    assert (await strict.http.post(ban, json={"reason": "r"}, headers=own)).status_code == 200


async def test_a_limited_token_is_never_an_operators(strict: Door) -> None:
    await role(strict, "root", "admin")
    body = {"participant": "root", "name": "t", "scopes": ["admin"], "reason": "r"}
    answer = await strict.admin("POST", "tokens", **body, problems=["copy"])
    assert code(answer) == (422, "invalid_request")


async def test_too_many_tokens_do_not_prevent_a_login(strict: Door) -> None:
    await token(strict, "ada")
    tokens, people = strict.commands.tokens, strict.commands.people
    account = await people.find("ada")
    assert account is not None
    new = NewToken("api", "t", ["submit"], None)
    for _ in range(TOKENS_MAX - 1):
        await tokens.issue(account, new, "operator:o")
    with pytest.raises(Refused, match="at most"):
        await tokens.issue(account, new, "operator:o")
    assert (await tokens.issue(account, new._replace(kind="web"), "operator:o")).number


async def test_an_account_is_opened_once(strict: Door) -> None:
    first = await strict.admin("POST", "participants", name="new", reason="r")
    again = await strict.admin("POST", "participants", name="new", reason="r")
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["participant_id"] == again.json()["participant_id"]
    assert again.json()["event"] is None


async def test_an_identity_belongs_to_one_participant(strict: Door) -> None:
    for name in ("ada", "grace"):
        await token(strict, name)
    body = {"provider": "discord", "subject": "discord-user-7", "reason": "r"}
    first = await strict.admin("POST", "participants/ada/identities", **body)
    assert first.json()["event"] == "IdentityLinked"
    again = await strict.admin("POST", "participants/ada/identities", **body)
    assert again.json()["event"] is None
    other = await strict.admin("POST", "participants/grace/identities", **body)
    assert code(other) == (409, "identity_taken")
    assert b"discord-user-7" not in b"".join(event.body for event in strict.log.since(0))
    ada = await token(strict, "ada")
    (linked,) = (await strict.http.get("/v1/me", headers=ada)).json()["identities"]
    answer = await strict.http.delete(f"/v1/me/identities/{linked['id']}", headers=ada)
    assert answer.json()["event"] == "IdentityUnlinked"
    other = await strict.admin("POST", "participants/grace/identities", **body)
    assert other.json()["event"] == "IdentityLinked"


async def test_of_two_concurrent_claims_of_a_secret_one_is_refused(strict: Door) -> None:
    await token(strict, "ada")
    await token(strict, "grace")
    tokens, people = strict.commands.tokens, strict.commands.people
    accounts = [await people.find(name) for name in ("ada", "grace")]
    new = NewToken("cli", "popcorn-cli", ["submit"], None, secret="s" * 32)
    tried = [tokens.issue(account, new, "operator:o") for account in accounts if account]
    results = await asyncio.gather(*tried, return_exceptions=True)
    assert sorted(type(result).__name__ for result in results) == ["IssuedToken", "Refused"]
    assert tokens.feed.find_token("s" * 32) is not None


async def test_of_two_authors_who_publish_a_new_problem_one_owns_it(strict: Door) -> None:
    authors, people, actors = strict.commands.problems, strict.commands.people, []
    for name in ("bob", "cleo"):
        await role(strict, name, "creator")
        actors.append(f"account:{await people.find(name)}")
    own = [FILES | {"reference.py": FILES["reference.py"] + name} for name in (b"# b", b"# c")]
    publications = [publication("fresh", files) for files in own]
    requests = [authors.publish(*arguments) for arguments in zip(publications, actors, strict=True)]
    results = await asyncio.gather(*requests, return_exceptions=True)
    assert sorted(type(result).__name__ for result in results) == ["PublishedVersion", "Refused"]
    first = [type(result).__name__ for result in results].index("PublishedVersion")
    with pytest.raises(Refused, match="another author"):
        await authors.publish(publications[1 - first], actors[1 - first])
    assert (await authors.publish(publications[1 - first], actors[first])).problem_version == 2
    assert (await authors.publish(publications[first], "operator:o")).problem_version == 3


async def test_moderators_cannot_rename_operators(strict: Door) -> None:
    for name, role_name in (("boss", "admin"), ("mod", "moderator"), ("peer", "moderator")):
        await token(strict, name)
        await role(strict, name, role_name)
    await token(strict, "ada")
    mod = await token(strict, "mod", "admin:participants")

    async def renamed(name: str) -> tuple[int, str | None]:
        path, body = f"/v1/admin/participants/{name}/name", {"name": "other", "reason": "r"}
        answer = await strict.http.put(path, json=body, headers=mod)
        return answer.status_code, answer.json().get("code")

    assert await renamed("boss") == await renamed("peer") == (403, "scope_missing")
    assert (await renamed("ada"))[0] == 200
