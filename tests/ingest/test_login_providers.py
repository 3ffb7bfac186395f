"""Logging in by GitHub and by Discord, against a server that speaks their side."""

import base64
import json
import re
from collections.abc import AsyncIterator
from dataclasses import replace

import httpx
import pytest

from ingest.http.cookies import SESSION_COOKIE
from tests.ingest.logins import BASE, SETTINGS, LoginHarness, open_logins, send_form
from tests.ingest.oauth_provider import CLIENT_ID, CLIENT_SECRET, Person, Provider, provider_server

pytestmark = pytest.mark.server


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    """GitHub and Discord in one."""
    async with provider_server() as server:
        yield server


@pytest.fixture
async def doorway(postgres_dsn: str, provider: Provider) -> AsyncIterator[LoginHarness]:
    """The ways in, with an application at both providers."""
    settings = replace(
        SETTINGS,
        web_signup=False,
        github_client_id=CLIENT_ID,
        github_client_secret=CLIENT_SECRET,
        github_url=provider.url,
        github_api_url=provider.url,
        discord_client_id=CLIENT_ID,
        discord_client_secret=CLIENT_SECRET,
        discord_url=provider.url,
    )
    async with open_logins(postgres_dsn, settings) as opened_doorway:
        yield opened_doorway


async def went(browser: httpx.AsyncClient, provider: Provider, name: str = "github") -> str:
    """The address to which a browser comes back, after its person agreed."""
    left = await browser.get(f"/login/{name}", params={"next": "/device"})
    assert left.status_code == 303, left.text
    code, state = provider.approve(left.headers["location"])
    return f"/login/{name}/callback?code={code}&state={state}"


async def came(
    browser: httpx.AsyncClient, provider: Provider, name: str = "github"
) -> httpx.Response:
    """The whole way there and back."""
    return await browser.get(await went(browser, provider, name))


@pytest.mark.feature("P28")
@pytest.mark.parametrize("name", ["github", "discord"])
async def test_the_first_login_opens_an_account_and_the_second_finds_it(
    doorway: LoginHarness, provider: Provider, name: str
) -> None:
    for _ in range(2):
        async with doorway.browser() as browser:
            answer = await came(browser, provider, name)
            assert (answer.status_code, answer.headers["location"]) == (303, "/device")
            assert "ada" in (await browser.get("/account")).text
    assert len(doorway.events_of("AccountOpened")) == 1
    assert len(doorway.events_of("IdentityLinked")) == 1


async def test_a_taken_name_is_not_taken_over(doorway: LoginHarness, provider: Provider) -> None:
    mine, _ = await doorway.logins.people.open("ada", "test", "")
    async with doorway.browser() as browser:
        await came(browser, provider)
        assert "ada-2" in (await browser.get("/account")).text
    assert doorway.logins.tokens.feed.rights().tokens_of(mine) == []


async def test_the_same_id_at_two_providers_is_two_participants(
    doorway: LoginHarness, provider: Provider
) -> None:
    async with doorway.browser() as first, doorway.browser() as second:
        await came(first, provider, "github")
        await came(second, provider, "discord")
    assert len(doorway.events_of("AccountOpened")) == 2


@pytest.mark.feature("N9")
async def test_a_logged_in_participant_links_another_identity(
    doorway: LoginHarness, provider: Provider
) -> None:
    async with doorway.browser() as browser:
        await came(browser, provider, "github")
        secret = browser.cookies[SESSION_COOKIE]
        provider.person = Person(7, "ada-on-discord")
        await came(browser, provider, "discord")
        assert browser.cookies[SESSION_COOKIE] == secret
        page = (await browser.get("/account")).text
    assert "discord" in page
    assert len(doorway.events_of("AccountOpened")) == 1


async def test_a_later_login_does_not_become_the_earlier_account(
    doorway: LoginHarness, provider: Provider
) -> None:
    async with doorway.browser() as browser:
        await came(browser, provider, "github")
        back = await went(browser, provider, "discord")
        assert (await send_form(browser, "/logout", "/logout")).status_code == 303
        answer = await browser.get(back)
        assert answer.status_code == 403
        assert (await browser.get("/account")).status_code == 303
    assert len(doorway.events_of("IdentityLinked")) == 1


async def test_a_program_gets_the_page_that_links_an_identity(
    doorway: LoginHarness, provider: Provider
) -> None:
    ada = await doorway.token("ada")
    async with doorway.browser() as browser:
        body = {"provider": "discord"}
        answer = await browser.post("/v1/me/identities", json=body, headers=ada)
        assert answer.json() == {"provider": "discord", "url": f"{BASE}/account/link/discord"}
        unknown = {"provider": "nowhere"}
        answer = await browser.post("/v1/me/identities", json=unknown, headers=ada)
        assert answer.status_code == 404
        assert (await browser.post("/v1/me/identities", json=body)).status_code == 401
        path = "/account/link/discord"
        stranger = await browser.get(path)
        assert stranger.headers["location"] == f"/login?next={path}"
        await came(browser, provider, "github")
        code, state = provider.approve((await browser.get(path)).headers["location"])
        back = await browser.get(f"/login/discord/callback?code={code}&state={state}")
        assert back.headers["location"] == "/account"
    assert len(doorway.events_of("IdentityLinked")) == 2


async def test_an_identity_of_another_participant_is_not_linked(
    doorway: LoginHarness, provider: Provider
) -> None:
    async with doorway.browser() as first, doorway.browser() as second:
        await came(first, provider, "discord")
        provider.person = Person(7, "grace")
        await came(second, provider, "github")
        provider.person = Person(42, "ada")
        answer = await came(second, provider, "discord")
    assert (answer.status_code, "another participant" in answer.text) == (409, True)


async def test_a_state_works_once_and_in_one_browser(
    doorway: LoginHarness, provider: Provider
) -> None:
    async with doorway.browser() as mine, doorway.browser() as theirs:
        stolen = await theirs.get(await went(mine, provider))
        assert (stolen.status_code, "another browser" in stolen.text) == (403, True)
        path = await went(mine, provider)
        assert (await mine.get(path)).status_code == 303
        assert (await mine.get(path)).status_code == 403
        late = await went(theirs, provider)
        doorway.clock.advance(minutes=11)
        assert (await theirs.get(late)).status_code == 403
        other = (await went(theirs, provider)).replace("github", "discord")
        assert (await theirs.get(other)).status_code == 403


async def test_an_invalid_code_logs_nobody_in(doorway: LoginHarness, provider: Provider) -> None:
    for name in ("github", "discord"):
        async with doorway.browser() as browser:
            path = await went(browser, provider, name)
            answer = await browser.get(re.sub("code=[^&]*", "code=made-up", path))
            assert answer.status_code == 403
            assert SESSION_COOKIE not in browser.cookies
            denied = await browser.get(f"/login/{name}/callback?error=access_denied&state=x")
            assert (denied.status_code, "cancelled at the provider" in denied.text) == (403, True)


@pytest.mark.parametrize("mood", ["ill", "vague", "huge"])
async def test_a_provider_failure_is_an_error_page(
    doorway: LoginHarness, provider: Provider, mood: str
) -> None:
    provider.mood = mood
    async with doorway.browser() as browser:
        answer = await came(browser, provider)
        assert (answer.status_code, "try again" in answer.text) == (503, True)
        assert SESSION_COOKIE not in browser.cookies


async def test_a_provider_that_is_not_set_up_is_unknown(postgres_dsn: str) -> None:
    async with open_logins(postgres_dsn) as doorway, doorway.browser() as browser:
        assert (await browser.get("/login/github")).status_code == 404
        assert "GitHub" not in (await browser.get("/login")).text


async def test_a_client_of_the_own_application_links_after_confirmation(
    doorway: LoginHarness, provider: Provider
) -> None:
    packed = {"redirect_uri": f"{BASE}/auth/cli/github"}
    async with doorway.browser() as browser:
        cli_id = (await browser.get("/auth/init?provider=github")).json()["state"]
        packed_state = json.dumps({"cli_id": cli_id, "is_reset": True}).encode()
        state = base64.urlsafe_b64encode(packed_state).rstrip(b"=").decode()
        query = {"code": provider.code(packed), "state": state}
        page = await browser.get("/auth/cli/github", params=query)
        assert (page.status_code, "Did you start this?" in page.text) == (200, True)
        assert doorway.logins.tokens.feed.find_token(cli_id) is None
        assert SESSION_COOKIE not in browser.cookies
        fields = dict(re.findall(r'name="(\w+)" value="([^"]*)"', page.text)) | {"answer": "yes"}
        json_please = {"Accept": "application/json"}
        answer = await browser.post("/auth/cli/github", data=fields, headers=json_please)
        assert answer.status_code == 200, answer.text
        body = answer.json()
        assert (body["status"], body["user_name"], body["is_reset"]) == ("ok", "ada", True)
        token = doorway.logins.tokens.feed.find_token(cli_id)
        assert token is not None
        assert token.account == body["user_id"]
        again = await browser.post("/auth/cli/github", data=fields, headers=json_please)
        assert again.status_code == 403


async def test_an_invalid_client_state_is_refused(doorway: LoginHarness) -> None:
    short = base64.urlsafe_b64encode(b'{"cli_id": "short"}').decode()
    async with doorway.browser() as browser:
        for state in ("", "%%%", "e30", short, "x" * 5000):
            answer = await browser.get("/auth/cli/github", params={"code": "x", "state": state})
            assert answer.status_code in (404, 422), state
