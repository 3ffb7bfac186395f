"""What programs ask to be given a token, and how participants answer."""

import httpx
import pytest

from tests.ingest.logins import BASE, LoginHarness, begin_device_login

pytestmark = pytest.mark.server

ADA, GRACE = "ada", "grace"


async def given_id(program: httpx.AsyncClient) -> str:
    """A CLI id as popcorn-cli asks for it."""
    answer = await program.get("/auth/init?provider=github")
    assert answer.status_code == 200, answer.text
    return str(answer.json()["state"])


async def test_anybody_gets_a_cli_id_that_has_no_rights(
    doorway: LoginHarness, program: httpx.AsyncClient
) -> None:
    answer = await program.get("/auth/init?provider=discord")
    body = answer.json()
    assert (body["expires_in"], body["link_url"]) == (600, f"{BASE}/link")
    assert 43 <= len(body["state"]) <= 128
    assert doorway.logins.tokens.feed.find_token(body["state"]) is None
    refused = await program.post(
        "/v1/auth/link",
        json={"cli_id": body["state"], "confirm": True},
        headers={"X-Popcorn-Cli-Id": body["state"]},
    )
    assert (refused.status_code, refused.json()["code"]) == (401, "cli_id_not_linked")


async def test_an_unknown_provider_is_refused(program: httpx.AsyncClient) -> None:
    for query in ("", "?provider=", "?provider=google", "?provider=GitHub"):
        answer = await program.get(f"/auth/init{query}")
        assert (answer.status_code, answer.json()["code"]) == (400, "unknown_provider")
        assert next(iter(answer.json())) == "detail"


async def test_an_address_gets_ten_ids_a_minute(doorway: LoginHarness) -> None:
    async with doorway.browser("198.51.100.1") as first, doorway.browser("198.51.100.2") as second:
        for _ in range(10):
            await given_id(first)
        answer = await first.get("/auth/init?provider=github")
        assert (answer.status_code, answer.json()["code"]) == (429, "rate_limited")
        assert int(answer.headers["retry-after"]) >= 1
        await given_id(second)


async def test_a_participant_previews_an_id_before_linking(
    doorway: LoginHarness, program: httpx.AsyncClient
) -> None:
    ada = await doorway.token(ADA)
    cli_id = await given_id(program)
    body = {"cli_id": cli_id, "confirm": False}
    answer = await program.post("/v1/auth/link", json=body, headers=ada)
    assert answer.status_code == 200, answer.text
    preview = answer.json()
    assert (preview["network"], preview["provider"]) == ("203.0.113.0/24", "github")
    assert preview["requested_at"].endswith("Z")
    assert set(preview) == {"requested_at", "network", "provider", "expires_at"}
    assert doorway.logins.tokens.feed.find_token(cli_id) is None


async def test_a_linked_id_acts_for_its_participant(
    doorway: LoginHarness, program: httpx.AsyncClient
) -> None:
    expected = ["submit", "submit:ranked", "profile", "read:own", "delete:own", "join"]
    ada, cli_id = await doorway.token(ADA, "account", *expected), await given_id(program)
    link = {"cli_id": cli_id, "confirm": True}
    answer = await program.post("/v1/auth/link", json=link, headers=ada)
    assert answer.status_code == 200, answer.text
    linked = answer.json()
    assert (linked["status"], linked["scopes"], linked["participant"]) == ("ok", expected, ADA)
    token = doorway.logins.tokens.feed.find_token(cli_id)
    assert token is not None
    assert (token.number, token.account) == (linked["token_id"], linked["participant_id"])
    days = (token.expires_at - doorway.clock()).days if token.expires_at else 0
    assert days in (89, 90)
    again = await program.post("/v1/auth/link", json=link, headers=ada)
    assert (again.status_code, again.json()["token_id"]) == (200, linked["token_id"])


async def test_no_id_and_no_token_is_in_an_event(
    doorway: LoginHarness, program: httpx.AsyncClient
) -> None:
    ada, cli_id = await doorway.token(ADA), await given_id(program)
    await program.post("/v1/auth/link", json={"cli_id": cli_id, "confirm": True}, headers=ada)
    log_bytes = b"".join(bytes(event.envelope.data) for event in doorway.log.since(0))
    assert cli_id.encode() not in log_bytes
    assert b'"ada"' not in log_bytes


async def test_a_refused_link_gives_the_reason(
    doorway: LoginHarness, program: httpx.AsyncClient
) -> None:
    ada, grace = await doorway.token(ADA), await doorway.token(GRACE)

    async def link(cli_id: str, headers: dict[str, str]) -> tuple[int, str]:
        body = {"cli_id": cli_id, "confirm": True}
        answer = await program.post("/v1/auth/link", json=body, headers=headers)
        return answer.status_code, answer.json().get("code", "ok")

    cli_id, late = await given_id(program), await given_id(program)
    assert await link(cli_id, ada) == (200, "ok")
    assert await link(cli_id, grace) == (409, "cli_id_taken")
    assert await link("x" * 43, ada) == (404, "unknown_cli_id")
    assert await link("../../etc", ada) == (404, "unknown_cli_id")
    doorway.clock.advance(minutes=11)
    assert await link(late, ada) == (410, "cli_id_expired")
    assert await link(cli_id, ada) == (200, "ok")


async def test_linking_needs_the_scope_account(
    doorway: LoginHarness, program: httpx.AsyncClient
) -> None:
    body = {"cli_id": await given_id(program), "confirm": True}
    assert (await program.post("/v1/auth/link", json=body)).status_code == 401
    submitter = await doorway.token(ADA, "submit")
    answer = await program.post("/v1/auth/link", json=body, headers=submitter)
    assert (answer.status_code, answer.json()["code"]) == (403, "scope_missing")
    limited = await doorway.token(ADA, "account", problems=("copy",))
    answer = await program.post("/v1/auth/link", json=body, headers=limited)
    assert (answer.status_code, answer.json()["code"]) == (403, "scope_missing")


async def test_a_linked_id_has_no_more_scopes_than_its_owner(
    doorway: LoginHarness, program: httpx.AsyncClient
) -> None:
    body = {"cli_id": await given_id(program), "confirm": True}
    nothing = await doorway.token(ADA, "account", "webhooks")
    answer = await program.post("/v1/auth/link", json=body, headers=nothing)
    assert (answer.status_code, answer.json()["code"]) == (403, "scope_missing")
    little = await doorway.token(ADA, "account", "read:own")
    answer = await program.post("/v1/auth/link", json=body, headers=little)
    assert (answer.status_code, answer.json()["scopes"]) == (200, ["read:own"])


async def test_unfinished_logins_are_deleted(
    doorway: LoginHarness, program: httpx.AsyncClient
) -> None:
    from ingest.identity.login.postgres import LoginStore

    ada, linked_id, expired_id = (
        await doorway.token(ADA),
        await given_id(program),
        await given_id(program),
    )
    await begin_device_login(program)
    await program.post("/v1/auth/link", json={"cli_id": linked_id, "confirm": True}, headers=ada)
    assert doorway.pool is not None
    store = LoginStore(doorway.pool)
    doorway.clock.advance(minutes=11)
    assert await store.purge(doorway.clock()) == 0
    doorway.clock.advance(hours=1)
    assert await store.purge(doorway.clock()) == 2
    body = {"cli_id": expired_id, "confirm": True}
    answer = await program.post("/v1/auth/link", json=body, headers=ada)
    assert answer.status_code == 404
    again = {"cli_id": linked_id, "confirm": True}
    assert (await program.post("/v1/auth/link", json=again, headers=ada)).status_code == 200
