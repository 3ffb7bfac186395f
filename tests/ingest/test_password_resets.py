"""An operator's link with which a participant sets a new password."""

from collections.abc import Mapping

import httpx
import pytest

from ingest.http.cookies import SESSION_COOKIE
from ingest.identity.secrets import hash_secret
from shared.events import OperatorActed, RoleGranted
from tests.ingest.logins import BASE, PASSWORD, LoginHarness, register_in_browser, send_form
from tests.ingest.ways import open_ways
from tests.support.door import OPERATOR

pytestmark = pytest.mark.server

NEW_PASSWORD = "a better one, 2027"
STORED = b"select state_hash from accounts.login_state where purpose = 'password_reset'"

REPEATS = b"select body from accounts.idempotency"


async def header_of(doorway: LoginHarness, name: str, role: str) -> Mapping[str, str]:
    """Return the header of a token with all scopes of a role."""
    account, _ = await doorway.logins.people.open(name, "test", "")
    granted = RoleGranted(role=role, reason="r")
    await doorway.logins.people.decide(account, granted, "operator:olga")
    scopes = ("admin",) if role == "admin" else ("account", "admin:participants")
    return await doorway.token(name, *scopes)


async def create_link(
    doorway: LoginHarness, browser: httpx.AsyncClient, name: str = "ada"
) -> httpx.Response:
    """Create a link as an admin."""
    path = f"/v1/admin/participants/{name}/password-reset"
    headers = await header_of(doorway, "olga", "admin")
    return await browser.post(path, json={"reason": "she asked"}, headers=headers)


async def create_path(doorway: LoginHarness, browser: httpx.AsyncClient) -> str:
    """Register ada, and return the path of a link for her account."""
    await register_in_browser(browser)
    url: str = (await create_link(doorway, browser)).json()["url"]
    return url.removeprefix(BASE)


async def log_in(doorway: LoginHarness, password: str) -> int:
    """Log in as ada in another browser, and return the status."""
    async with doorway.browser() as other:
        answer = await send_form(other, "/login", "/login", name="ada", password=password)
        return answer.status_code


async def test_a_link_sets_a_new_password_once(
    doorway: LoginHarness, browser: httpx.AsyncClient
) -> None:
    path = await create_path(doorway, browser)
    token = (await doorway.token("ada"))["Authorization"].removeprefix("Bearer ")
    session = browser.cookies[SESSION_COOKIE]
    async with doorway.browser() as other:
        for _ in range(2):  # A chat that previews the link does not use it.
            assert "<strong>ada</strong>" in (await other.get(path)).text
        answer = await send_form(other, path, path, password=NEW_PASSWORD)
        assert answer.status_code == 200, answer.text
        assert "Your tokens and devices still work" in answer.text
        assert (await other.get(path)).status_code == 404
        reused = await send_form(other, "/login", path, password="yet another one")
        assert (reused.status_code, "was used, has expired" in reused.text) == (404, True)
    assert await log_in(doorway, PASSWORD) == 401
    assert await log_in(doorway, NEW_PASSWORD) == 303
    assert doorway.logins.tokens.feed.find_token(session) is None
    assert doorway.logins.tokens.feed.find_token(token) is not None


async def test_who_created_a_link_is_in_the_log_and_its_secret_is_nowhere(
    doorway: LoginHarness, browser: httpx.AsyncClient
) -> None:
    secret = (await create_path(doorway, browser)).removeprefix("/reset/")
    account = await doorway.logins.people.find("ada")
    (event,) = (event for event in doorway.log.since(0) if isinstance(event.fact, OperatorActed))
    assert event.fact == OperatorActed(command="reset-password", target=account, reason="she asked")
    assert event.envelope.actor == f"account:{await doorway.logins.people.find('olga')}"
    assert secret not in repr(doorway.log.since(0))
    assert hash_secret(secret) not in repr(doorway.log.since(0))
    assert doorway.pool is not None
    async with doorway.pool.connection() as connection:
        assert await (await connection.execute(STORED)).fetchall() == [(hash_secret(secret),)]


async def test_the_participant_may_revoke_all_tokens_with_the_reset(
    doorway: LoginHarness, browser: httpx.AsyncClient
) -> None:
    path = await create_path(doorway, browser)
    secret = (await doorway.token("ada"))["Authorization"].removeprefix("Bearer ")
    async with doorway.browser() as other:
        fields = {"password": NEW_PASSWORD, "revoke_tokens": "yes"}
        answer = await send_form(other, path, path, **fields)
    assert "All tokens and devices were revoked" in answer.text
    assert doorway.logins.tokens.feed.find_token(secret) is None


async def test_a_link_that_expired_or_is_wrong_is_refused(
    doorway: LoginHarness, browser: httpx.AsyncClient
) -> None:
    path = await create_path(doorway, browser)
    for wrong in ("/reset/nothing", path[:-1], f"{path}x", "/reset/%00"):
        assert (await browser.get(wrong)).status_code == 404, wrong
    doorway.clock.advance(hours=25)
    async with doorway.browser() as other:
        assert (await other.get(path)).status_code == 404
        answer = await send_form(other, "/login", path, password=NEW_PASSWORD)
        assert answer.status_code == 404
    assert await log_in(doorway, PASSWORD) == 303


async def test_a_form_of_another_site_and_a_short_password_leave_the_link_usable(
    doorway: LoginHarness, browser: httpx.AsyncClient
) -> None:
    path = await create_path(doorway, browser)
    async with doorway.browser() as other:
        forged = await other.post(path, data={"csrf": "0" * 64, "password": NEW_PASSWORD})
        assert forged.status_code == 403
        short = await send_form(other, path, path, password="short")
        assert (short.status_code, "10 to 200" in short.text) == (400, True)
        assert (await send_form(other, path, path, password=NEW_PASSWORD)).status_code == 200


async def test_using_one_link_ends_the_others_of_the_account(
    doorway: LoginHarness, browser: httpx.AsyncClient
) -> None:
    path = await create_path(doorway, browser)
    second = (await create_link(doorway, browser)).json()["url"].removeprefix(BASE)
    async with doorway.browser() as other:
        assert (await send_form(other, path, path, password=NEW_PASSWORD)).status_code == 200
        assert (await other.get(second)).status_code == 404


async def test_only_an_admin_creates_a_link(
    doorway: LoginHarness, browser: httpx.AsyncClient
) -> None:
    await register_in_browser(browser)
    path, body = "/v1/admin/participants/ada/password-reset", {"reason": "r"}
    async with doorway.browser() as stranger:
        assert (await stranger.post(path, json=body)).status_code == 401
        for headers in (
            await doorway.token("mallory"),
            await header_of(doorway, "mona", "moderator"),
        ):
            assert (await stranger.post(path, json=body, headers=headers)).status_code == 403
    # Neither does a browser that another site lets send a request.
    assert (await browser.post(path, json=body)).status_code == 403
    assert doorway.events_of("OperatorActed") == []


async def test_who_cannot_log_in_at_all_chooses_a_first_password(
    doorway: LoginHarness, browser: httpx.AsyncClient
) -> None:
    await doorway.logins.people.open("ada", "operator", "operator:olga")
    headers = await header_of(doorway, "olga", "admin")
    reset, body = "/v1/admin/participants/ada/password-reset", {"reason": "r", "valid_days": 14}
    too_long = await browser.post(reset, json=body | {"valid_days": 61}, headers=headers)
    assert too_long.status_code == 422, too_long.text
    answer = await browser.post(reset, json=body, headers=headers)
    assert answer.status_code == 201, answer.text
    path = answer.json()["url"].removeprefix(BASE)
    for guess in ("", "!", PASSWORD):
        assert await log_in(doorway, guess) in (400, 401)
    doorway.clock.advance(days=13)
    assert (await send_form(browser, path, path, password=NEW_PASSWORD)).status_code == 200
    assert await log_in(doorway, NEW_PASSWORD) == 303
    assert [getattr(fact, "provider", "") for fact in doorway.events_of("IdentityLinked")] == [
        "web"
    ]


async def test_an_account_without_a_password_has_nothing_to_reset(
    doorway: LoginHarness, browser: httpx.AsyncClient
) -> None:
    account, _ = await doorway.logins.people.open("grace", "test", "")
    await doorway.logins.people.link(account, "github", "17", "operator:olga")
    answer = await create_link(doorway, browser, "grace")
    assert (answer.status_code, answer.json()["code"]) == (409, "wrong_state")
    assert (await create_link(doorway, browser, "nobody")).status_code == 404


async def test_a_repeat_under_an_idempotency_key_does_not_show_the_link_again(
    postgres_dsn: str,
) -> None:
    headers = OPERATOR | {"Idempotency-Key": "k"}
    async with open_ways(postgres_dsn) as ways, ways.browser("nobody", headers) as operator:
        path = "/v1/admin/participants/walker/password-reset"
        first = await operator.post(path, json={"reason": "r"})
        assert first.status_code == 201
        again = await operator.post(path, json={"reason": "r"})
        assert again.json()["code"] == "shown_once"
        async with ways.door.stores.pool.connection() as connection:
            rows = await (await connection.execute(REPEATS)).fetchall()
        assert rows
        assert first.json()["url"] not in repr(rows)
