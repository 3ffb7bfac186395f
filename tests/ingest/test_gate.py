"""The gate: tokens work at once and not a moment longer, and each route asks for its scope."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from datetime import timedelta
from typing import Any

import httpx
import pytest

from ingest.http.who import COOKIE, CSRF
from ingest.service.tokens import NewToken, csrf
from shared.clock import now
from shared.event_log import EventLog
from shared.events import RoleGranted, TokenIssued, TokenRevoked
from shared.memory import MemoryLog
from shared.nats.connection import connect
from shared.nats.event_log import NatsLog
from shared.nats.streams import ensure
from shared.servers.nats import NatsServer
from shared.testing import eventually
from tests.ingest.door import ADA, KERNEL_FILE, OPERATOR, Door, opened

pytestmark = pytest.mark.server

USUAL = ["submit", "submit:ranked", "read:own", "delete:own", "join", "account"]
FORM = {"problem": "copy", "mode": "test", "gpu": "CPU"}


@pytest.fixture
async def strict(postgres_dsn: str) -> AsyncIterator[Door]:
    """A door where no name is believed, with the problem copy of the author ann."""
    async with opened(postgres_dsn, MemoryLog(), are_names_believed=False) as door:
        await role(door, "ann", "creator")
        ann = await token(door, "ann", "author", "account")
        answer = await door.publish(headers=ann)
        assert answer.status_code == 201, answer.text
        yield door


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


async def submit(door: Door, headers: Mapping[str, str], **fields: str) -> httpx.Response:
    return await door.ask(FORM | fields, KERNEL_FILE, headers)


async def test_a_token_works_at_once_and_is_in_no_event(strict: Door) -> None:
    found = await made(strict, "ada")
    assert found["token"].startswith("wb_")
    assert found["prefix"] == found["token"][:10]
    assert (await submit(strict, bearer(found["token"]))).status_code == 202
    said = b"".join(one.body for one in strict.log.since(0))
    assert found["token"].encode() not in said
    assert b'"ada"' not in said


async def test_a_revoked_token_is_dead_at_once(strict: Door) -> None:
    found = await made(strict, "ada")
    headers = bearer(found["token"])
    answer = await strict.http.delete(f"/v1/tokens/{found['id']}", headers=headers)
    assert (answer.status_code, answer.json()["state"]) == (200, "revoked")
    assert isinstance(strict.log.since(answer.json()["seq"] - 1)[0].fact, TokenRevoked)
    refused = await submit(strict, headers)
    assert code(refused) == (401, "invalid_credential")
    assert refused.headers["www-authenticate"] == "Bearer"


async def test_an_expired_token_is_dead(strict: Door) -> None:
    account = await strict.commands.people.account("ann")
    assert account is not None
    ends = now() + timedelta(seconds=0.2)
    issued = await strict.commands.tokens.issue(
        account, NewToken("api", "brief", ["account"], ends), "operator:olga"
    )
    assert (await strict.http.get("/v1/me", headers=bearer(issued.secret))).status_code == 200

    async def is_dead() -> bool:
        answer = await strict.http.get("/v1/me", headers=bearer(issued.secret))
        return answer.status_code == 401

    await eventually(is_dead, within_s=2)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        ADA,
        bearer("None"),
        bearer(""),
        {"Authorization": "Bearer"},
        {"X-Popcorn-Cli-Id": ""},
        {"X-Popcorn-Cli-Id": "None"},
        {"Cookie": f"{COOKIE}="},
    ],
)
async def test_who_shows_nothing_is_told_to_show_something(
    strict: Door, headers: dict[str, str]
) -> None:
    assert code(await submit(strict, headers)) == (401, "missing_credential")


async def test_an_unknown_token_is_nobodys(strict: Door) -> None:
    assert code(await submit(strict, bearer("wb_" + "x" * 43))) == (401, "invalid_credential")
    # Yet what anybody may read is read by anybody.
    answer = await strict.http.get("/v1/intake", headers=bearer("wb_unknown"))
    assert answer.status_code == 200


@pytest.mark.parametrize("header", ["X-Popcorn-Cli-Id", "X-Web-Auth-Id"])
async def test_a_clients_header_makes_a_participant_and_no_operator(
    strict: Door, header: str
) -> None:
    await role(strict, "adm", "admin")
    found = await made(strict, "adm", *USUAL, "admin")
    assert (await submit(strict, {header: found["token"]})).status_code == 202
    answer = await strict.http.get("/v1/admin/deadletters", headers={header: found["token"]})
    assert code(answer) == (401, "missing_credential")
    answer = await strict.http.get("/v1/admin/deadletters", headers=bearer(found["token"]))
    assert answer.status_code == 200


async def test_tokens_of_two_people_are_a_conflict(strict: Door) -> None:
    ada, grace = await made(strict, "ada"), await made(strict, "grace")
    headers = bearer(ada["token"]) | {"X-Popcorn-Cli-Id": grace["token"]}
    assert code(await submit(strict, headers)) == (400, "conflicting_credentials")
    headers = bearer(ada["token"]) | {"X-Popcorn-Cli-Id": ada["token"]}
    assert (await submit(strict, headers)).status_code == 202


@pytest.mark.parametrize(
    ("scope", "mode", "lacks"),
    [
        ("submit", "ranked", "submit:ranked"),
        ("read:own", "test", "submit"),
        ("submit", "profile", "profile"),
    ],
)
async def test_each_mode_needs_its_scope(strict: Door, scope: str, mode: str, lacks: str) -> None:
    answer = await submit(strict, await token(strict, "ada", scope), mode=mode)
    assert code(answer) == (403, "scope_missing")
    assert lacks in answer.json()["detail"]


async def test_a_token_for_one_problem_is_for_no_other(strict: Door) -> None:
    mine = await token(strict, "ada", "submit", problems=["other"])
    assert code(await submit(strict, mine)) == (403, "scope_missing")
    assert (
        await submit(strict, await token(strict, "ada", "submit", problems=["copy"]))
    ).is_success


async def test_who_is_banned_is_told_so_everywhere(strict: Door) -> None:
    found = await made(strict, "ada")
    await strict.admin("POST", "participants/ada/ban", reason="copied")
    answer = await submit(strict, bearer(found["token"]))
    assert code(answer) == (403, "user_banned")
    assert "copied" in answer.json()["detail"]
    answer = await strict.http.get("/v1/tokens", headers=bearer(found["token"]))
    assert code(answer) == (403, "user_banned")
    assert (await strict.http.get("/v1/quota", headers=bearer(found["token"]))).status_code == 200


async def test_a_cookie_changes_nothing_without_its_page(strict: Door) -> None:
    found = await made(strict, "ada")
    cookie = {"Cookie": f"{COOKIE}={found['token']}"}
    assert (await strict.http.get("/v1/me", headers=cookie)).json()["name"] == "ada"
    assert code(await submit(strict, cookie)) == (403, "bad_csrf")
    assert code(await submit(strict, cookie | {CSRF: "x"})) == (403, "bad_csrf")
    assert (await submit(strict, cookie | {CSRF: csrf(found["token"])})).status_code == 202


async def test_one_makes_lists_and_ends_tokens_of_ones_own(strict: Door) -> None:
    ada = await token(strict, "ada")
    body = {"name": "agent", "scopes": ["submit"], "expires_in_days": 7, "problems": ["copy"]}
    answer = await strict.http.post("/v1/tokens", json=body, headers=ada)
    assert answer.status_code == 201, answer.text
    second = answer.json()
    listed = (await strict.http.get("/v1/tokens", headers=ada)).json()["items"]
    assert [one["name"] for one in listed] == ["t", "agent"]
    assert listed[1]["problems"] == ["copy"]
    assert second["token"] not in str(listed)
    assert code(await strict.http.get("/v1/tokens", headers=bearer(second["token"])))[0] == 403
    grace = await token(strict, "grace")
    answer = await strict.http.delete(f"/v1/tokens/{second['id']}", headers=grace)
    assert code(answer) == (404, "unknown_token")
    assert (await strict.http.delete(f"/v1/tokens/{second['id']}", headers=ada)).status_code == 200
    assert len((await strict.http.get("/v1/tokens", headers=ada)).json()["items"]) == 1


async def test_a_token_may_end_itself(strict: Door) -> None:
    found = await made(strict, "ada", "submit")
    own = bearer(found["token"])
    assert (await strict.http.delete(f"/v1/tokens/{found['id']}", headers=own)).status_code == 200
    assert (await submit(strict, own)).status_code == 401


@pytest.mark.parametrize("scope", ["author", "admin", "admin:operate", "profile"])
async def test_nobody_gives_away_what_they_have_not(strict: Door, scope: str) -> None:
    ada = await token(strict, "ada")
    body = {"name": "more", "scopes": [scope]}
    answer = await strict.http.post("/v1/tokens", json=body, headers=ada)
    assert code(answer) == (403, "scope_missing")


@pytest.mark.parametrize(
    "body",
    [
        {"name": "t", "scopes": []},
        {"name": "t", "scopes": ["submit"], "expires_in_days": 366},
        {"name": "", "scopes": ["submit"]},
        {"name": "t", "scopes": ["submit"], "kind": "web"},
    ],
)
async def test_an_odd_token_is_refused(strict: Door, body: dict[str, Any]) -> None:
    answer = await strict.http.post("/v1/tokens", json=body, headers=await token(strict, "ada"))
    assert answer.status_code == 422


async def test_when_a_token_was_used_is_written_down_later(strict: Door) -> None:
    found = await made(strict, "ada")
    headers = bearer(found["token"])
    assert (await strict.http.get("/v1/tokens", headers=headers)).json()["items"][0][
        "last_used_at"
    ] is None
    await strict.commands.tokens.note()
    (listed,) = (await strict.http.get("/v1/tokens", headers=headers)).json()["items"]
    assert listed["last_used_at"] is not None


async def test_a_role_is_given_and_taken_by_admins_alone(strict: Door) -> None:
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
    granted = [one for one in strict.log.since(0) if isinstance(one.fact, RoleGranted)]
    assert {one.envelope.actor for one in granted} == {"operator:olga"}


async def test_a_moderator_acts_in_their_own_name(strict: Door) -> None:
    await role(strict, "mod", "moderator")
    mod = await token(strict, "mod", "admin:participants", "admin:submissions")
    await token(strict, "ada")
    answer = await strict.http.post(
        "/v1/admin/participants/ada/ban", json={"reason": "copied"}, headers=mod
    )
    assert answer.status_code == 200, answer.text
    recorded = strict.log.since(answer.json()["seq"] - 1)[0]
    assert recorded.envelope.actor == f"account:{await strict.commands.people.account('mod')}"
    answer = await strict.http.post("/v1/admin/intake/pause", json={"reason": "r"}, headers=mod)
    assert code(answer) == (403, "scope_missing")


async def test_a_participant_may_not_publish_and_a_creator_may_their_own(strict: Door) -> None:
    answer = await strict.publish(headers=await token(strict, "ada"))
    assert code(answer) == (403, "scope_missing")
    await role(strict, "eve", "creator")
    answer = await strict.publish(headers=await token(strict, "eve", "author"))
    assert code(answer) == (403, "not_yours")
    assert (await strict.publish(headers=OPERATOR)).status_code == 200


async def test_an_account_is_opened_once(strict: Door) -> None:
    first = await strict.admin("POST", "participants", name="new", reason="r")
    again = await strict.admin("POST", "participants", name="new", reason="r")
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["participant_id"] == again.json()["participant_id"]
    assert again.json()["event"] is None


async def test_an_identity_is_one_participants(strict: Door) -> None:
    for name in ("ada", "grace"):
        await token(strict, name)
    body = {"provider": "discord", "subject": "1234", "reason": "r"}
    first = await strict.admin("POST", "participants/ada/identities", **body)
    assert first.json()["event"] == "IdentityLinked"
    again = await strict.admin("POST", "participants/ada/identities", **body)
    assert again.json()["event"] is None
    other = await strict.admin("POST", "participants/grace/identities", **body)
    assert code(other) == (409, "identity_taken")
    assert b"1234" not in b"".join(one.body for one in strict.log.since(0))
    ada = await token(strict, "ada")
    (linked,) = (await strict.http.get("/v1/me", headers=ada)).json()["identities"]
    answer = await strict.http.delete(f"/v1/me/identities/{linked['id']}", headers=ada)
    assert answer.json()["event"] == "IdentityUnlinked"
    other = await strict.admin("POST", "participants/grace/identities", **body)
    assert other.json()["event"] == "IdentityLinked"


async def test_every_cli_id_is_somebodys_where_that_is_wanted(postgres_dsn: str) -> None:
    async with opened(postgres_dsn, MemoryLog(), autolink="dev") as door:
        headers = {"X-Popcorn-Cli-Id": "c" * 32}
        assert (await door.http.get("/v1/me", headers=headers)).json()["name"] == "dev"
        assert (await submit(door, headers)).status_code == 202
        assert (await submit(door, {"X-Popcorn-Cli-Id": "short"})).status_code == 401


@pytest.fixture
async def real(own_nats: NatsServer) -> AsyncIterator[EventLog]:
    """A log on a server."""
    nc = await connect(own_nats.url, "test")
    await ensure(nc)
    yield NatsLog(nc)
    await nc.close()


async def test_a_token_works_on_every_ingest_and_ends_on_all_within_a_second(
    postgres_dsn: str, real: EventLog
) -> None:
    async with (
        opened(postgres_dsn, real, are_names_believed=False) as one,
        opened(postgres_dsn, real, are_names_believed=False) as two,
    ):
        found = await made(one, "ada")
        headers = bearer(found["token"])

        async def answers(status: int) -> bool:
            return (await two.http.get("/v1/me", headers=headers)).status_code == status

        await eventually(lambda: answers(200), within_s=1)
        revoked = await one.http.delete(f"/v1/tokens/{found['id']}", headers=headers)
        assert revoked.status_code == 200
        began = time.monotonic()
        await eventually(lambda: answers(401), within_s=1)
        assert time.monotonic() - began < 1


async def test_a_restarted_ingest_knows_all_tokens(postgres_dsn: str, real: EventLog) -> None:
    async with opened(postgres_dsn, real, are_names_believed=False) as one:
        kept, ended = await made(one, "ada"), await made(one, "ada")
        await one.admin("DELETE", f"tokens/{ended['id']}", reason="lost")
    async with opened(postgres_dsn, real, are_names_believed=False) as two:
        answer = await two.http.get("/v1/me", headers=bearer(kept["token"]))
        assert (answer.status_code, answer.json()["name"]) == (200, "ada")
        assert (await two.http.get("/v1/me", headers=bearer(ended["token"]))).status_code == 401


async def test_two_who_claim_one_secret_are_told_whose_it_is(strict: Door) -> None:
    await token(strict, "ada")
    await token(strict, "grace")
    tokens, people = strict.commands.tokens, strict.commands.people
    accounts = [await people.account(name) for name in ("ada", "grace")]
    new = NewToken("cli", "popcorn-cli", ["submit"], None, secret="s" * 32)
    tried = [tokens.issue(account, new, "operator:o") for account in accounts if account]
    results = await asyncio.gather(*tried, return_exceptions=True)
    assert sorted(type(one).__name__ for one in results) == ["Issued", "Refused"]
    assert tokens.known("s" * 32) is not None
    issued = [one for one in strict.log.since(0) if isinstance(one.fact, TokenIssued)]
    assert issued
