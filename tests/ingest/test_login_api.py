"""What programs ask to be given a token, and how participants answer."""

from collections.abc import AsyncIterator

import httpx
import pytest

from shared.events import TokenIssued
from tests.ingest.logins import BASE, Doorway, opened

pytestmark = pytest.mark.server

GRANT = "urn:ietf:params:oauth:grant-type:device_code"
ADA, GRACE = "ada", "grace"
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@pytest.fixture
async def doorway(postgres_dsn: str) -> AsyncIterator[Doorway]:
    """The ways in, with nobody known."""
    async with opened(postgres_dsn) as found:
        yield found


@pytest.fixture
async def program(doorway: Doorway) -> AsyncIterator[httpx.AsyncClient]:
    """A program somewhere."""
    async with doorway.browser() as opened_program:
        yield opened_program


async def given_id(program: httpx.AsyncClient) -> str:
    """A CLI id as popcorn-cli asks for it."""
    answer = await program.get("/auth/init?provider=github")
    assert answer.status_code == 200, answer.text
    return str(answer.json()["state"])


async def begun(program: httpx.AsyncClient, **fields: str) -> dict[str, str]:
    """A device that waits."""
    answer = await program.post("/v1/auth/device", data={"client_id": "laptop"} | fields)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def poll(doorway: Doorway, program: httpx.AsyncClient, code: str) -> httpx.Response:
    """The device asks, as late as it was told to."""
    doorway.clock.pass_(seconds=5)
    form = {"grant_type": GRANT, "device_code": code, "client_id": "laptop"}
    return await program.post("/v1/auth/device/token", data=form)


async def test_an_id_is_given_to_anybody_and_worth_nothing(
    doorway: Doorway, program: httpx.AsyncClient
) -> None:
    answer = await program.get("/auth/init?provider=discord")
    body = answer.json()
    assert (body["expires_in"], body["link_url"]) == (600, f"{BASE}/link")
    assert 43 <= len(body["state"]) <= 128
    assert doorway.logins.tokens.known(body["state"]) is None
    refused = await program.post(
        "/v1/auth/link",
        json={"cli_id": body["state"], "confirm": True},
        headers={"X-Popcorn-Cli-Id": body["state"]},
    )
    assert (refused.status_code, refused.json()["code"]) == (401, "cli_id_not_linked")


async def test_another_provider_is_refused(program: httpx.AsyncClient) -> None:
    for query in ("", "?provider=", "?provider=google", "?provider=GitHub"):
        answer = await program.get(f"/auth/init{query}")
        assert (answer.status_code, answer.json()["code"]) == (400, "unknown_provider")
        assert next(iter(answer.json())) == "detail"


async def test_an_address_gets_ten_ids_a_minute(doorway: Doorway) -> None:
    async with doorway.browser("198.51.100.1") as one, doorway.browser("198.51.100.2") as other:
        for _ in range(10):
            await given_id(one)
        answer = await one.get("/auth/init?provider=github")
        assert (answer.status_code, answer.json()["code"]) == (429, "rate_limited")
        assert int(answer.headers["retry-after"]) >= 1
        await given_id(other)


async def test_a_participant_sees_who_asked_before_linking(
    doorway: Doorway, program: httpx.AsyncClient
) -> None:
    ada = await doorway.token(ADA)
    cli_id = await given_id(program)
    body = {"cli_id": cli_id, "confirm": False}
    answer = await program.post("/v1/auth/link", json=body, headers=ada)
    assert answer.status_code == 200, answer.text
    asked = answer.json()
    assert (asked["network"], asked["provider"]) == ("203.0.113.0/24", "github")
    assert asked["requested_at"].endswith("Z")
    assert set(asked) == {"requested_at", "network", "provider", "expires_at"}
    assert doorway.logins.tokens.known(cli_id) is None


async def test_a_linked_id_acts_for_its_participant(
    doorway: Doorway, program: httpx.AsyncClient
) -> None:
    expected = ["submit", "submit:ranked", "profile", "read:own", "delete:own", "join"]
    ada, cli_id = await doorway.token(ADA, "account", *expected), await given_id(program)
    link = {"cli_id": cli_id, "confirm": True}
    answer = await program.post("/v1/auth/link", json=link, headers=ada)
    assert answer.status_code == 200, answer.text
    linked = answer.json()
    assert (linked["status"], linked["scopes"], linked["user_name"]) == ("ok", expected, ADA)
    token = doorway.logins.tokens.known(cli_id)
    assert token is not None
    assert (token.number, token.account) == (linked["token_id"], linked["user_id"])
    days = (token.expires_at - doorway.clock()).days if token.expires_at else 0
    assert days in (89, 90)
    again = await program.post("/v1/auth/link", json=link, headers=ada)
    assert (again.status_code, again.json()["token_id"]) == (200, linked["token_id"])


async def test_no_id_and_no_token_is_in_an_event(
    doorway: Doorway, program: httpx.AsyncClient
) -> None:
    ada, cli_id = await doorway.token(ADA), await given_id(program)
    await program.post("/v1/auth/link", json={"cli_id": cli_id, "confirm": True}, headers=ada)
    said = b"".join(bytes(event.envelope.data) for event in doorway.log.since(0))
    assert cli_id.encode() not in said
    assert b'"ada"' not in said


async def test_an_id_that_cannot_be_linked_says_why(
    doorway: Doorway, program: httpx.AsyncClient
) -> None:
    ada, grace = await doorway.token(ADA), await doorway.token(GRACE)

    async def link(cli_id: str, who: dict[str, str]) -> tuple[int, str]:
        body = {"cli_id": cli_id, "confirm": True}
        answer = await program.post("/v1/auth/link", json=body, headers=who)
        return answer.status_code, answer.json().get("code", "ok")

    cli_id, late = await given_id(program), await given_id(program)
    assert await link(cli_id, ada) == (200, "ok")
    assert await link(cli_id, grace) == (409, "cli_id_taken")
    assert await link("x" * 43, ada) == (404, "unknown_cli_id")
    assert await link("../../etc", ada) == (404, "unknown_cli_id")
    doorway.clock.pass_(minutes=11)
    assert await link(late, ada) == (410, "cli_id_expired")
    assert await link(cli_id, ada) == (200, "ok")


async def test_linking_needs_the_scope_of_ones_account(
    doorway: Doorway, program: httpx.AsyncClient
) -> None:
    body = {"cli_id": await given_id(program), "confirm": True}
    assert (await program.post("/v1/auth/link", json=body)).status_code == 401
    submitter = await doorway.token(ADA, "submit")
    answer = await program.post("/v1/auth/link", json=body, headers=submitter)
    assert (answer.status_code, answer.json()["code"]) == (403, "scope_missing")
    limited = await doorway.token(ADA, "account", problems=("copy",))
    answer = await program.post("/v1/auth/link", json=body, headers=limited)
    assert (answer.status_code, answer.json()["code"]) == (403, "scope_missing")


async def test_a_linked_id_may_no_more_than_who_linked_it(
    doorway: Doorway, program: httpx.AsyncClient
) -> None:
    body = {"cli_id": await given_id(program), "confirm": True}
    nothing = await doorway.token(ADA, "account", "webhooks")
    answer = await program.post("/v1/auth/link", json=body, headers=nothing)
    assert (answer.status_code, answer.json()["code"]) == (403, "scope_missing")
    little = await doorway.token(ADA, "account", "read:own")
    answer = await program.post("/v1/auth/link", json=body, headers=little)
    assert (answer.status_code, answer.json()["scopes"]) == (200, ["read:own"])


async def test_a_device_is_let_in_by_its_code(doorway: Doorway, program: httpx.AsyncClient) -> None:
    ada = await doorway.token(ADA, "account", "submit", "read:own")
    device = await begun(program, scope="submit read:own")
    assert device["verification_uri"] == f"{BASE}/device"
    assert device["verification_uri_complete"] == f"{BASE}/device/{device['user_code']}"
    claim = {"user_code": device["user_code"].lower(), "confirm": False}
    asked = (await program.post("/v1/auth/device/claim", json=claim, headers=ada)).json()
    assert (asked["client"], asked["scopes"]) == ("laptop", ["submit", "read:own"])
    answer = await program.post(
        "/v1/auth/device/claim", json=claim | {"confirm": True}, headers=ada
    )
    assert (answer.status_code, answer.json()["status"]) == (200, "ok"), answer.text
    given = (await poll(doorway, program, device["device_code"])).json()
    assert (given["token_type"], given["scope"]) == ("Bearer", "submit read:own")
    token = doorway.logins.tokens.known(given["access_token"])
    assert token is not None
    assert (token.kind, token.account) == ("device", given["user_id"])
    assert given["user_name"] == ADA


async def test_a_device_whose_answer_was_lost_gets_the_same_again(
    doorway: Doorway, program: httpx.AsyncClient
) -> None:
    ada, device = (
        await doorway.token(ADA, "account", "submit"),
        await begun(program, scope="submit"),
    )
    claim = {"user_code": device["user_code"], "confirm": True}
    await program.post("/v1/auth/device/claim", json=claim, headers=ada)
    first, second = [await poll(doorway, program, device["device_code"]) for _ in range(2)]
    assert first.json()["access_token"] == second.json()["access_token"]
    kinds = [fact.kind for fact in doorway.said("TokenIssued") if isinstance(fact, TokenIssued)]
    assert kinds.count("device") == 1


async def test_a_device_gets_its_token_though_nobody_noted_that_it_was_given(
    doorway: Doorway, program: httpx.AsyncClient
) -> None:
    ada = await doorway.token(ADA, "account", "submit")
    device = await begun(program, scope="submit")
    claim = {"user_code": device["user_code"], "confirm": True}
    await program.post("/v1/auth/device/claim", json=claim, headers=ada)
    first = await poll(doorway, program, device["device_code"])
    assert doorway.pool is not None
    async with doorway.pool.connection() as connection:
        await connection.execute("update accounts.device_login set token = null")
    again = await poll(doorway, program, device["device_code"])
    assert (again.status_code, again.json()["access_token"]) == (200, first.json()["access_token"])


async def test_a_device_waits_is_slowed_down_and_runs_out_of_time(
    doorway: Doorway, program: httpx.AsyncClient
) -> None:
    device = await begun(program)

    async def said(answer: httpx.Response) -> str:
        body = answer.json()
        assert answer.status_code == 400
        assert body["error"] == body["code"]
        assert body["error_description"] == body["detail"]
        assert answer.headers["cache-control"] == "no-store"
        return str(body["error"])

    code = device["device_code"]
    assert await said(await poll(doorway, program, code)) == "authorization_pending"
    form = {"grant_type": GRANT, "device_code": code}
    assert await said(await program.post("/v1/auth/device/token", data=form)) == "slow_down"
    doorway.clock.pass_(minutes=10)
    assert await said(await poll(doorway, program, code)) == "expired_token"
    assert await said(await poll(doorway, program, "nobody's")) == "invalid_grant"


async def test_a_device_that_is_turned_away_is_told_so(
    doorway: Doorway, program: httpx.AsyncClient
) -> None:
    ada, device = (
        await doorway.token(ADA, "account", "submit"),
        await begun(program, scope="submit"),
    )
    claim = {"user_code": device["user_code"], "confirm": True, "deny": True}
    answer = await program.post("/v1/auth/device/claim", json=claim, headers=ada)
    assert (answer.status_code, answer.json()["status"]) == (200, "denied")
    answer = await poll(doorway, program, device["device_code"])
    assert answer.json()["error"] == "access_denied"
    again = await program.post("/v1/auth/device/claim", json=claim, headers=ada)
    assert (again.status_code, again.json()["code"]) == (409, "user_code_used")


async def test_user_codes_cannot_be_guessed(doorway: Doorway, program: httpx.AsyncClient) -> None:
    ada = await doorway.token(ADA)
    codes = []
    for _ in range(31):
        claim = {"user_code": "BCDF-GHJK", "confirm": False}
        answer = await program.post("/v1/auth/device/claim", json=claim, headers=ada)
        codes.append(answer.json()["code"])
    assert codes == ["unknown_user_code"] * 30 + ["rate_limited"]


async def test_a_device_cannot_get_more_than_its_participant_has(
    doorway: Doorway, program: httpx.AsyncClient
) -> None:
    ada, device = await doorway.token(ADA), await begun(program, scope="admin")
    claim = {"user_code": device["user_code"], "confirm": True}
    answer = await program.post("/v1/auth/device/claim", json=claim, headers=ada)
    assert (answer.status_code, answer.json()["code"]) == (403, "scope_missing")


async def test_a_bad_device_request_is_refused(program: httpx.AsyncClient) -> None:
    bad = [
        (b"scope=admin:everything", 400, "invalid_scope"),
        (b"client_id=", 422, "invalid_request"),
        (b"client_id=%1b[2J", 422, "invalid_request"),
        (b"\xff\xfe", 422, "invalid_request"),
        (b"scope=" + b"x" * 9000, 413, "request_too_large"),
    ]
    for body, status, code in bad:
        answer = await program.post("/v1/auth/device", content=body, headers=FORM)
        assert (answer.status_code, answer.json()["code"]) == (status, code), body[:20]


async def test_a_device_may_speak_json(program: httpx.AsyncClient) -> None:
    answer = await program.post("/v1/auth/device", json={"client_id": "agent", "new": 1})
    assert answer.status_code == 200
    wrong = await program.post("/v1/auth/device/token", json={"device_code": 5})
    assert (wrong.status_code, wrong.json()["error"]) == (422, "invalid_request")
    other = {"device_code": "x", "grant_type": "password"}
    wrong = await program.post("/v1/auth/device/token", json=other)
    assert wrong.json()["errors"][0]["field"] == "grant_type"


async def test_what_nobody_finished_is_forgotten(
    doorway: Doorway, program: httpx.AsyncClient
) -> None:
    from ingest.login.postgres import Purge

    ada, kept, lost = await doorway.token(ADA), await given_id(program), await given_id(program)
    await begun(program)
    await program.post("/v1/auth/link", json={"cli_id": kept, "confirm": True}, headers=ada)
    assert doorway.pool is not None
    purge = Purge(doorway.pool)
    doorway.clock.pass_(minutes=11)
    assert await purge.purge(doorway.clock()) == 0
    doorway.clock.pass_(hours=1)
    assert await purge.purge(doorway.clock()) == 2
    body = {"cli_id": lost, "confirm": True}
    answer = await program.post("/v1/auth/link", json=body, headers=ada)
    assert answer.status_code == 404
    again = {"cli_id": kept, "confirm": True}
    assert (await program.post("/v1/auth/link", json=again, headers=ada)).status_code == 200
