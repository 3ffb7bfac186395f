"""The gate: tokens work at once and not a moment longer, and each route asks for its scope."""

import asyncio
from datetime import timedelta

import httpx
import pytest
from fastapi import FastAPI, Request

from ingest.http.cookies import SESSION_COOKIE, site_cookies
from ingest.identity.access import feed as access_feed
from ingest.identity.access.feed import AccessFeed
from ingest.identity.accounts.service import NewToken
from ingest.identity.http.authenticator import AuthConfig, Authenticator
from ingest.identity.http.credentials import CSRF
from ingest.identity.login.cli_ids import CliIdLinking
from ingest.identity.login.service import Sessions
from ingest.identity.secrets import csrf_token
from ingest.ranker_http import RankerClient
from ingest.reads.routes import reads_router
from shared import subjects
from shared.clock import new_id, now
from shared.errors import Failed
from shared.event_log import NewEvent
from shared.events import TokenRevoked
from shared.http import install_error_handlers
from shared.nats.connection import connect
from shared.nats.event_log import NatsLog
from shared.nats.streams import ensure_streams
from shared.servers.nats import NatsServer
from shared.wire import EventMetadata, make_envelope
from tests.ingest.conftest import shares_a_door
from tests.support.damage import FILLER_BYTES, FILLERS, find_blocks, flip_bit
from tests.support.door import ADA, Door, nobodys_gate, opened, postgres_stores
from tests.support.holders import USUAL, bearer, code, made, role, submit, token
from tests.support.memory import MemoryLog
from tests.support.waits import eventually

pytestmark = pytest.mark.server


async def test_a_token_works_at_once_and_is_in_no_event(strict: Door) -> None:
    token_ = await made(strict, "ada")
    assert token_["token"].startswith("wb_")
    assert token_["prefix"] == token_["token"][:10]
    assert (await submit(strict, bearer(token_["token"]))).status_code == 202
    log_bytes = b"".join(event.body for event in strict.log.since(0))
    assert token_["token"].encode() not in log_bytes
    assert b'"ada"' not in log_bytes


async def test_a_revoked_token_is_refused_at_once(strict: Door) -> None:
    issued = await made(strict, "ada")
    headers = bearer(issued["token"])
    answer = await strict.http.delete(f"/v1/tokens/{issued['id']}", headers=headers)
    assert (answer.status_code, answer.json()["state"]) == (200, "revoked")
    assert isinstance(strict.log.since(answer.json()["seq"] - 1)[0].fact, TokenRevoked)
    refused = await submit(strict, headers)
    assert code(refused) == (401, "invalid_credential")
    assert refused.headers["www-authenticate"] == "Bearer"


async def test_an_expired_token_is_refused(strict: Door) -> None:
    account = await strict.commands.people.find("ann")
    assert account is not None
    ends = now() + timedelta(seconds=1)
    issued = await strict.commands.tokens.issue(
        account, NewToken("api", "brief", ["account"], ends), "operator:olga"
    )
    assert (await strict.http.get("/v1/me", headers=bearer(issued.secret))).status_code == 200

    async def is_dead() -> bool:
        answer = await strict.http.get("/v1/me", headers=bearer(issued.secret))
        return answer.status_code == 401

    await eventually(is_dead)


@shares_a_door
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
        {"Cookie": f"{SESSION_COOKIE}="},
    ],
)
async def test_a_missing_credential_is_refused(
    shared_strict: Door, headers: dict[str, str]
) -> None:
    assert code(await submit(shared_strict, headers)) == (401, "missing_credential")


async def test_an_unknown_token_is_refused(strict: Door) -> None:
    assert code(await submit(strict, bearer("wb_" + "x" * 43))) == (401, "invalid_credential")
    # Yet what anybody may read is read by anybody.
    answer = await strict.http.get("/v1/intake", headers=bearer("wb_unknown"))
    assert answer.status_code == 200


@pytest.mark.parametrize("header", ["X-Popcorn-Cli-Id", "X-Web-Auth-Id"])
async def test_a_cli_id_header_never_makes_an_operator(strict: Door, header: str) -> None:
    await role(strict, "adm", "admin")
    issued = await made(strict, "adm", *USUAL, "admin")
    assert (await submit(strict, {header: issued["token"]})).status_code == 202
    answer = await strict.http.get("/v1/admin/deadletters", headers={header: issued["token"]})
    assert code(answer) == (401, "missing_credential")
    answer = await strict.http.get("/v1/admin/deadletters", headers=bearer(issued["token"]))
    assert answer.status_code == 200


async def test_tokens_of_two_participants_conflict(strict: Door) -> None:
    ada, grace = await made(strict, "ada"), await made(strict, "grace")
    headers = bearer(ada["token"]) | {"X-Popcorn-Cli-Id": grace["token"]}
    assert code(await submit(strict, headers)) == (400, "conflicting_credentials")
    headers = bearer(ada["token"]) | {"X-Popcorn-Cli-Id": ada["token"]}
    assert (await submit(strict, headers)).status_code == 202


@shares_a_door
@pytest.mark.parametrize(
    ("scope", "mode", "lacks"),
    [
        ("submit", "ranked", "submit:ranked"),
        ("read:own", "test", "submit"),
        ("submit", "profile", "profile"),
    ],
)
async def test_each_mode_needs_its_scope(
    shared_strict: Door, scope: str, mode: str, lacks: str
) -> None:
    answer = await submit(shared_strict, await token(shared_strict, "ada", scope), mode=mode)
    assert code(answer) == (403, "scope_missing")
    assert lacks in answer.json()["detail"]


async def test_a_limited_token_works_for_its_problem_only(strict: Door) -> None:
    mine = await token(strict, "ada", "submit", problems=["other"])
    assert code(await submit(strict, mine)) == (403, "scope_missing")
    assert (
        await submit(strict, await token(strict, "ada", "submit", problems=["copy"]))
    ).is_success


async def test_every_route_tells_banned_participants(strict: Door) -> None:
    issued = await made(strict, "ada")
    await strict.admin("POST", "participants/ada/ban", reason="copied")
    answer = await submit(strict, bearer(issued["token"]))
    assert code(answer) == (403, "user_banned")
    assert "copied" in answer.json()["detail"]
    answer = await strict.http.get("/v1/tokens", headers=bearer(issued["token"]))
    assert code(answer) == (403, "user_banned")
    assert (await strict.http.get("/v1/quota", headers=bearer(issued["token"]))).status_code == 200


async def test_a_cookie_needs_its_csrf_token_for_changes(strict: Door) -> None:
    session = await open_session(strict)
    cookie = {"Cookie": f"{SESSION_COOKIE}={session}"}
    assert (await strict.http.get("/v1/me", headers=cookie)).json()["name"] == "ada"
    assert code(await submit(strict, cookie)) == (403, "bad_csrf")
    assert code(await submit(strict, cookie | {CSRF: "x"})) == (403, "bad_csrf")
    assert (await submit(strict, cookie | {CSRF: csrf_token(session)})).status_code == 202


async def open_session(door: Door, name: str = "ada") -> str:
    """The secret of a session of a new participant."""
    people, tokens = door.commands.people, door.commands.tokens
    account, _ = await people.open(name, "test", "")
    return await Sessions(tokens, people).open(account)


async def test_a_token_is_no_session_and_a_session_no_token(strict: Door) -> None:
    session, secret = await open_session(strict), (await made(strict, "bob"))["token"]
    for headers in (
        {"Cookie": f"{SESSION_COOKIE}={secret}"},
        {"Cookie": f"{SESSION_COOKIE}={secret}", CSRF: csrf_token(secret)},
        bearer(session),
        {"X-Popcorn-Cli-Id": session},
    ):
        answer = await strict.http.get("/v1/me", headers=headers)
        assert code(answer) == (401, "invalid_credential"), answer.text
        assert code(await submit(strict, headers))[0] == 401


async def test_under_tls_only_the_hosts_own_cookie_is_a_session(strict: Door) -> None:
    session, commands = await open_session(strict), strict.commands
    linking = CliIdLinking(commands.people, commands.tokens)
    cookies = site_cookies("https://kernels.example.org")
    config = AuthConfig(cookies=cookies)
    gate = Authenticator(
        commands.feed, commands.people.store, commands.tokens.usage, linking.claim, config
    )
    names = {}
    for name in (SESSION_COOKIE, cookies.name(SESSION_COOKIE)):
        header = (b"cookie", f"{name}={session}".encode())
        caller = await gate.caller(Request({"type": "http", "method": "GET", "headers": [header]}))
        names[name] = caller.name if caller.account else "nobody"
    assert names == {"warpboard_session": "nobody", "__Host-warpboard_session": ""}


async def test_autolink_links_every_cli_id() -> None:
    async with opened(MemoryLog(), autolink="dev") as door:
        headers = {"X-Popcorn-Cli-Id": "c" * 32}
        assert (await door.http.get("/v1/me", headers=headers)).json()["name"] == "dev"
        assert (await submit(door, headers)).status_code == 202
        assert (await submit(door, {"X-Popcorn-Cli-Id": "short"})).status_code == 401


@pytest.mark.feature("N9")
async def test_a_token_works_and_is_revoked_on_every_ingest(
    postgres_dsn: str, nats_log: NatsLog
) -> None:
    async with (
        postgres_stores(postgres_dsn) as stores,
        opened(nats_log, stores=stores, are_names_believed=False) as first_door,
        opened(nats_log, stores=stores, are_names_believed=False) as two,
    ):
        issued = await made(first_door, "ada")
        headers = bearer(issued["token"])

        async def answers(status: int) -> bool:
            return (await two.http.get("/v1/me", headers=headers)).status_code == status

        await eventually(lambda: answers(200))
        revoked = await first_door.http.delete(f"/v1/tokens/{issued['id']}", headers=headers)
        assert revoked.status_code == 200
        await eventually(lambda: answers(401))


async def test_tokens_are_not_judged_before_rights_are_known() -> None:
    app = FastAPI()
    install_error_handlers(app)
    app.include_router(reads_router(RankerClient(httpx.AsyncClient()), nobodys_gate()))
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://door") as http:
        answer = await http.get("/v1/problems", headers=bearer("wb_" + "x" * 43))
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert "starting" in answer.json()["detail"]


@pytest.mark.long
async def test_a_silent_log_makes_rights_uncertain(own_nats: NatsServer) -> None:
    nc = await connect(own_nats.login(), "test")
    await ensure_streams(nc)
    feed = AccessFeed(NatsLog(nc), silent_s_max=6)
    following = asyncio.create_task(feed.run())
    await eventually(lambda: not feed.why_unhealthy())
    own_nats.kill()
    await eventually(lambda: "silent" in feed.why_unhealthy(), within_s=20)
    with pytest.raises(Failed):
        feed.rights()
    own_nats.start()
    await eventually(lambda: not feed.why_unhealthy(), within_s=20)
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    await nc.close()


async def test_a_restarted_ingest_knows_all_tokens(postgres_dsn: str, nats_log: NatsLog) -> None:
    async with (
        postgres_stores(postgres_dsn) as stores,
        opened(nats_log, stores=stores, are_names_believed=False) as first_door,
    ):
        live_token, ended = await made(first_door, "ada"), await made(first_door, "ada")
        await first_door.admin("DELETE", f"tokens/{ended['id']}", reason="lost")
    async with (
        postgres_stores(postgres_dsn) as stores,
        opened(nats_log, stores=stores, are_names_believed=False) as two,
    ):
        answer = await two.http.get("/v1/me", headers=bearer(live_token["token"]))
        assert (answer.status_code, answer.json()["name"]) == (200, "ada")
        assert (await two.http.get("/v1/me", headers=bearer(ended["token"]))).status_code == 401


async def test_a_damaged_log_makes_rights_uncertain() -> None:
    reasons = [""]
    feed = AccessFeed(MemoryLog(), damage=lambda: reasons[0])
    running = asyncio.create_task(feed.run())
    await eventually(lambda: feed.why_unhealthy() == "", 10)
    reasons[0] = "the log is damaged: 2 of its 9 events are missing"
    with pytest.raises(Failed, match="2 of its 9 events are missing"):
        feed.rights()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@pytest.mark.long
async def test_an_unreadable_event_keeps_requests_refused(
    own_nats: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access_feed, "STUCK_S_MIN", 6.0)
    nc = await connect(own_nats.login(), "test")
    await ensure_streams(nc)
    reason = "x" * FILLER_BYTES
    for number in range(FILLERS):
        fact = TokenRevoked(token=f"t{number}", reason=reason)
        stamp = EventMetadata(new_id(), now(), "service:test", "", "")
        await NatsLog(nc).append(
            NewEvent(make_envelope(fact, subjects.account("ada"), stamp), None)
        )
    await nc.close()
    # After an orderly stop the server believes its index, and counts what it cannot read.
    own_nats.stop()
    flip_bit(find_blocks(own_nats.folder)[1])
    own_nats.start()
    nc = await connect(own_nats.login(), "test")
    feed = AccessFeed(NatsLog(nc))
    running = asyncio.create_task(feed.run())
    await eventually(lambda: "cannot read 1 of the log's events" in feed.why_unhealthy(), 30)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await nc.close()
