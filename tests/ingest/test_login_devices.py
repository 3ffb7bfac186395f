"""Devices that ask to act for somebody, and participants who let them in."""

import httpx
import pytest

from shared.events import TokenIssued
from tests.ingest.logins import BASE, LoginHarness, begin_device_login

pytestmark = pytest.mark.server

GRANT = "urn:ietf:params:oauth:grant-type:device_code"
ADA = "ada"
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


async def poll(doorway: LoginHarness, program: httpx.AsyncClient, code: str) -> httpx.Response:
    """The device asks, as late as it was told to."""
    doorway.clock.advance(seconds=5)
    form = {"grant_type": GRANT, "device_code": code, "client_id": "laptop"}
    return await program.post("/v1/auth/device/token", data=form)


@pytest.mark.feature("N9")
async def test_a_device_is_approved_by_its_code(
    doorway: LoginHarness, program: httpx.AsyncClient
) -> None:
    ada = await doorway.token(ADA, "account", "submit", "read:own")
    device = await begin_device_login(program, scope="submit read:own")
    assert device["verification_uri"] == f"{BASE}/device"
    assert device["verification_uri_complete"] == f"{BASE}/device/{device['user_code']}"
    claim = {"user_code": device["user_code"].lower(), "confirm": False}
    preview = (await program.post("/v1/auth/device/claim", json=claim, headers=ada)).json()
    assert (preview["client"], preview["scopes"]) == ("laptop", ["submit", "read:own"])
    answer = await program.post(
        "/v1/auth/device/claim", json=claim | {"confirm": True}, headers=ada
    )
    assert (answer.status_code, answer.json()["status"]) == (200, "ok"), answer.text
    grant = (await poll(doorway, program, device["device_code"])).json()
    assert (grant["token_type"], grant["scope"]) == ("Bearer", "submit read:own")
    token = doorway.logins.tokens.feed.find_token(grant["access_token"])
    assert token is not None
    assert (token.kind, token.account) == ("device", grant["participant_id"])
    assert grant["participant"] == ADA


async def test_a_device_that_polls_again_gets_the_same_token(
    doorway: LoginHarness, program: httpx.AsyncClient
) -> None:
    ada, device = (
        await doorway.token(ADA, "account", "submit"),
        await begin_device_login(program, scope="submit"),
    )
    claim = {"user_code": device["user_code"], "confirm": True}
    await program.post("/v1/auth/device/claim", json=claim, headers=ada)
    first, second = [await poll(doorway, program, device["device_code"]) for _ in range(2)]
    assert first.json()["access_token"] == second.json()["access_token"]
    kinds = [
        fact.kind for fact in doorway.events_of("TokenIssued") if isinstance(fact, TokenIssued)
    ]
    assert kinds.count("device") == 1


async def test_a_device_gets_its_token_after_a_crash(
    doorway: LoginHarness, program: httpx.AsyncClient
) -> None:
    ada = await doorway.token(ADA, "account", "submit")
    device = await begin_device_login(program, scope="submit")
    claim = {"user_code": device["user_code"], "confirm": True}
    await program.post("/v1/auth/device/claim", json=claim, headers=ada)
    first = await poll(doorway, program, device["device_code"])
    assert doorway.pool is not None
    async with doorway.pool.connection() as connection:
        await connection.execute("update accounts.device_login set token = null")
    again = await poll(doorway, program, device["device_code"])
    assert (again.status_code, again.json()["access_token"]) == (200, first.json()["access_token"])


async def test_a_device_waits_is_slowed_down_and_expires(
    doorway: LoginHarness, program: httpx.AsyncClient
) -> None:
    device = await begin_device_login(program)

    async def error_code(answer: httpx.Response) -> str:
        body = answer.json()
        assert answer.status_code == 400
        assert body["error"] == body["code"]
        assert body["error_description"] == body["detail"]
        assert answer.headers["cache-control"] == "no-store"
        return str(body["error"])

    code = device["device_code"]
    assert await error_code(await poll(doorway, program, code)) == "authorization_pending"
    form = {"grant_type": GRANT, "device_code": code}
    assert await error_code(await program.post("/v1/auth/device/token", data=form)) == "slow_down"
    doorway.clock.advance(minutes=10)
    assert await error_code(await poll(doorway, program, code)) == "expired_token"
    assert await error_code(await poll(doorway, program, "nobody's")) == "invalid_grant"


async def test_a_denied_device_gets_the_refusal(
    doorway: LoginHarness, program: httpx.AsyncClient
) -> None:
    ada, device = (
        await doorway.token(ADA, "account", "submit"),
        await begin_device_login(program, scope="submit"),
    )
    claim = {"user_code": device["user_code"], "confirm": True, "deny": True}
    answer = await program.post("/v1/auth/device/claim", json=claim, headers=ada)
    assert (answer.status_code, answer.json()["status"]) == (200, "denied")
    answer = await poll(doorway, program, device["device_code"])
    assert answer.json()["error"] == "access_denied"
    again = await program.post("/v1/auth/device/claim", json=claim, headers=ada)
    assert (again.status_code, again.json()["code"]) == (409, "user_code_used")


async def test_user_codes_cannot_be_guessed(
    doorway: LoginHarness, program: httpx.AsyncClient
) -> None:
    ada = await doorway.token(ADA)
    codes = []
    for _ in range(31):
        claim = {"user_code": "BCDF-GHJK", "confirm": False}
        answer = await program.post("/v1/auth/device/claim", json=claim, headers=ada)
        codes.append(answer.json()["code"])
    assert codes == ["unknown_user_code"] * 30 + ["rate_limited"]


async def test_a_device_gets_no_more_scopes_than_its_participant(
    doorway: LoginHarness, program: httpx.AsyncClient
) -> None:
    ada, device = await doorway.token(ADA), await begin_device_login(program, scope="admin")
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
