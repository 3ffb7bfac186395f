"""The page of one's own account: tokens, and the ways to log in."""

import re

import httpx
import pytest

from shared.events import TokenRevoked
from tests.ingest.logins import PASSWORD, LoginHarness, register_in_browser, send_form

pytestmark = pytest.mark.server

Fields = dict[str, str | list[str]]


async def test_a_token_is_shown_once_listed_and_revoked(
    doorway: LoginHarness, browser: httpx.AsyncClient
) -> None:
    await register_in_browser(browser)
    fields: Fields = {"name": "my <laptop>", "scope": ["submit", "read:own"], "days": "30"}
    page = await send_form(browser, "/account", "/account/tokens", **fields)
    assert page.status_code == 200
    match = re.search(r">(wb_[A-Za-z0-9_-]{43})<", page.text)
    assert match
    token = doorway.logins.tokens.feed.find_token(match[1])
    assert token is not None
    assert (token.kind, token.scopes) == ("api", ("submit", "read:own"))
    assert "my &lt;laptop&gt;" in page.text
    overview = (await browser.get("/account")).text
    assert match[1] not in overview
    assert match[1][:10] in overview
    answer = await send_form(browser, "/account", f"/account/tokens/{token.number}/revoke")
    assert answer.status_code == 303
    assert doorway.logins.tokens.feed.find_token(match[1]) is None
    assert isinstance(doorway.events_of("TokenRevoked")[0], TokenRevoked)


async def test_an_invalid_token_form_is_refused(browser: httpx.AsyncClient) -> None:
    await register_in_browser(browser)
    right: Fields = {"name": "laptop", "scope": ["submit"], "days": "30"}
    wrongs: list[Fields] = [
        {"name": ""},
        {"name": "a\nb"},
        {"scope": []},
        {"scope": ["admin"]},
        {"days": "4000"},
        {"days": "x"},
    ]
    for wrong in wrongs:
        answer = await send_form(browser, "/account", "/account/tokens", **(right | wrong))
        assert answer.status_code in (403, 422), wrong
        assert 'role="alert"' in answer.text


async def test_nobody_revokes_tokens_of_others(
    doorway: LoginHarness, browser: httpx.AsyncClient
) -> None:
    header = await doorway.token("grace")
    token = doorway.logins.tokens.feed.find_token(header["Authorization"].removeprefix("Bearer "))
    assert token is not None
    await register_in_browser(browser)
    answer = await send_form(browser, "/account", f"/account/tokens/{token.number}/revoke")
    assert answer.status_code == 404
    assert not doorway.events_of("TokenRevoked")


async def test_the_last_identity_cannot_be_unlinked(
    doorway: LoginHarness, browser: httpx.AsyncClient
) -> None:
    await register_in_browser(browser)
    account = await doorway.logins.people.find("ada")
    (identity,) = await doorway.logins.people.list_identities(account)
    path = f"/account/identities/{identity.id}/unlink"
    assert (await send_form(browser, "/account", path)).status_code == 409
    await doorway.logins.people.link(account, "github", "42", f"account:{account}")
    assert (await send_form(browser, "/account", path)).status_code == 303
    async with doorway.browser() as other:
        answer = await send_form(other, "/login", "/login", name="ada", password=PASSWORD)
        assert answer.status_code == 401


async def test_a_renamed_participant_logs_in_with_the_new_name(
    doorway: LoginHarness, browser: httpx.AsyncClient
) -> None:
    await register_in_browser(browser)
    for old, new in (("ada", "lovelace"), ("lovelace", "ada")):
        await doorway.logins.people.rename(old, new, "asked", "operator:test")
        async with doorway.browser() as other:
            for name, status in ((old, 401), (new, 303)):
                answer = await send_form(other, "/login", "/login", name=name, password=PASSWORD)
                assert answer.status_code == status, name
