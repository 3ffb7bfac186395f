"""The pages on which a person logs in and says what may act for them."""

from dataclasses import replace

import httpx
import pytest

from ingest.http.cookies import SESSION_COOKIE
from shared.events import AccountBanned
from tests.ingest.logins import (
    BASE,
    PASSWORD,
    SETTINGS,
    LoginHarness,
    open_logins,
    register_in_browser,
    send_form,
)

pytestmark = pytest.mark.server

FORMS = (
    "/account/tokens",
    "/account/tokens/1/revoke",
    "/account/identities/x/unlink",
    "/device",
    "/device/answer",
    "/link",
    "/link/answer",
    "/logout",
)


@pytest.mark.feature("P28")
async def test_a_new_account_is_logged_in_and_can_log_in_again(
    doorway: LoginHarness, browser: httpx.AsyncClient
) -> None:
    await register_in_browser(browser)
    assert "ada" in (await browser.get("/account")).text
    assert [type(fact).__name__ for fact in (doorway.events_of("AccountOpened"))] == [
        "AccountOpened"
    ]
    assert len(doorway.events_of("IdentityLinked")) == 1
    async with doorway.browser() as other:
        wrong = await send_form(other, "/login", "/login", name="ada", password="not the password")
        assert wrong.status_code == 401
        assert "rong name or password" in wrong.text
        right = await send_form(
            other, "/login", "/login", name="Ada", password=PASSWORD, next="/device"
        )
        assert (right.status_code, right.headers["location"]) == (303, "/device")
        assert (await other.get("/account")).status_code == 200


async def test_the_cookie_is_http_only_and_same_site(
    doorway: LoginHarness, browser: httpx.AsyncClient
) -> None:
    answer = await send_form(browser, "/register", "/register", name="ada", password=PASSWORD)
    (cookie,) = [c for c in answer.headers.get_list("set-cookie") if c.startswith(SESSION_COOKIE)]
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    assert "Max-Age=43200" in cookie
    assert "Secure" not in cookie  # on loopback alone
    doorway.clock.advance(hours=13)
    assert (await browser.get("/account")).headers["location"] == "/login?next=/account"


async def test_away_from_loopback_cookies_need_https(postgres_dsn: str) -> None:
    settings = replace(SETTINGS, public_url="https://kernels.example.org/")
    async with open_logins(postgres_dsn, settings) as doorway, doorway.browser() as browser:
        answer = await browser.get("/login")
        assert "Secure" in answer.headers["set-cookie"]


async def test_under_tls_every_cookie_is_bound_to_this_host(postgres_dsn: str) -> None:
    base = "https://kernels.example.org"
    async with open_logins(postgres_dsn, replace(SETTINGS, public_url=base)) as doorway:
        transport = httpx.ASGITransport(doorway.app)
        async with httpx.AsyncClient(transport=transport, base_url=base) as browser:
            page = await browser.get("/login")
            entered = await send_form(
                browser, "/register", "/register", name="ada", password=PASSWORD
            )
            assert (await browser.get("/account")).status_code == 200
    cookies = [*page.headers.get_list("set-cookie"), *entered.headers.get_list("set-cookie")]
    assert any(f"{SESSION_COOKIE}=" in cookie for cookie in cookies)
    for cookie in cookies:
        assert cookie.startswith("__Host-"), cookie
        assert "; Secure" in cookie
        assert "Path=/;" in cookie
        assert "Domain" not in cookie


async def test_every_page_has_security_headers(browser: httpx.AsyncClient) -> None:
    for path in ("/login", "/register", "/device"):
        assert (await browser.get(path)).status_code in (200, 303)
    page = await browser.get("/login")
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert page.headers["cache-control"] == "no-store"
    assert "<script" not in page.text
    assert "http://" not in page.text.replace(BASE, "")
    assert "https://" not in page.text


async def test_a_form_of_another_site_is_refused(browser: httpx.AsyncClient) -> None:
    for path in ("/login", "/register"):
        await browser.get(path)
        data = {"name": "ada", "password": PASSWORD, "csrf": "0" * 64}
        answer = await browser.post(path, data=data)
        assert answer.status_code == 403
        assert SESSION_COOKIE not in answer.headers.get("set-cookie", "")


async def test_a_logged_in_browser_needs_the_form_token(
    doorway: LoginHarness, browser: httpx.AsyncClient
) -> None:
    await register_in_browser(browser)
    before = len(doorway.log.since(0))
    for action in FORMS:
        for token in ("", "0" * 64):
            assert (await browser.post(action, data={"csrf": token})).status_code == 403, action
    assert len(doorway.log.since(0)) == before


async def test_a_huge_or_invalid_form_is_refused(browser: httpx.AsyncClient) -> None:
    assert (await browser.post("/login", content=b"a=" + b"x" * 20_000)).status_code == 413
    assert (await browser.post("/login", content=b"\xff\xfe")).status_code == 422
    assert (await browser.post("/login", content=b"a=1&" * 100)).status_code == 422


async def test_a_login_never_redirects_to_another_site(browser: httpx.AsyncClient) -> None:
    await register_in_browser(browser)
    for to in ("//evil.example", "https://evil.example", "/\\evil", "javascript:x", "/a?b"):
        answer = await browser.get("/login", params={"next": to})
        assert answer.headers["location"] == "/account", to


async def test_an_operator_chooses_how_many_accounts_an_address_may_create(
    postgres_dsn: str,
) -> None:
    settings = replace(SETTINGS, signups_per_address="2/day")
    async with open_logins(postgres_dsn, settings) as doorway, doorway.browser() as browser:
        for name in ("ada", "grace"):
            await register_in_browser(browser, name)
            browser.cookies.clear()
        answer = await send_form(browser, "/register", "/register", name="alan", password=PASSWORD)
        assert answer.status_code == 429
        assert "at most 2 per day; try again in 24 h" in answer.text
        assert int(answer.headers["retry-after"]) > 86_000


async def test_an_invalid_name_is_a_wrong_login(browser: httpx.AsyncClient) -> None:
    for name in ("", "Ada Lovelace", "\x00", "x" * 200, "ада"):
        answer = await send_form(browser, "/login", "/login", name=name, password="a guess")
        assert answer.status_code == 401, name


async def test_a_taken_name_and_a_short_password_are_refused(
    doorway: LoginHarness, browser: httpx.AsyncClient
) -> None:
    await doorway.logins.people.open("grace", "test", "")
    taken = await send_form(browser, "/register", "/register", name="grace", password=PASSWORD)
    assert (taken.status_code, "is taken" in taken.text) == (409, True)
    short = await send_form(browser, "/register", "/register", name="ada", password="short")
    assert (short.status_code, "10 to 200" in short.text) == (400, True)
    assert 'value="ada"' in short.text
    assert "short" not in short.text.replace("shortest", "")


async def test_nobody_signs_up_where_it_is_off(postgres_dsn: str) -> None:
    async with (
        open_logins(postgres_dsn, replace(SETTINGS, web_signup=False)) as doorway,
        doorway.browser() as browser,
    ):
        assert (await browser.get("/register")).status_code == 404
        data = {"csrf": "0" * 64, "name": "ada", "password": PASSWORD}
        assert (await browser.post("/register", data=data)).status_code == 404
        assert "No way to log in" in (await browser.get("/login")).text


async def test_logging_out_ends_the_session_everywhere(
    doorway: LoginHarness, browser: httpx.AsyncClient
) -> None:
    await register_in_browser(browser)
    secret = browser.cookies[SESSION_COOKIE]
    answer = await send_form(browser, "/logout", "/logout")
    assert answer.headers["location"] == "/login"
    assert doorway.logins.tokens.feed.find_token(secret) is None
    browser.cookies.set(SESSION_COOKIE, secret)
    assert (await browser.get("/account")).status_code == 303


async def test_an_api_token_is_not_a_session(doorway: LoginHarness) -> None:
    header = await doorway.token("ada")
    async with doorway.browser() as browser:
        browser.cookies.set(SESSION_COOKIE, header["Authorization"].removeprefix("Bearer "))
        assert (await browser.get("/account")).status_code == 303


async def test_ten_browsers_may_be_logged_in(doorway: LoginHarness) -> None:
    account, _ = await doorway.logins.people.open("ada", "test", "")
    secrets = [await doorway.logins.sessions.open(account) for _ in range(12)]
    alive = [doorway.logins.tokens.feed.find_token(secret) is not None for secret in secrets]
    assert alive == [False] * 2 + [True] * 10


async def test_a_device_is_approved_on_the_page(browser: httpx.AsyncClient) -> None:
    form = {"client_id": "<b>laptop</b>", "scope": "submit account"}
    device = (await browser.post("/v1/auth/device", data=form)).json()
    path = f"/device/{device['user_code']}"
    assert (await browser.get(path)).headers["location"] == f"/login?next={path}"
    await register_in_browser(browser)
    page = await browser.get(path)
    assert "&lt;b&gt;laptop&lt;/b&gt;" in page.text
    assert "203.0.113.0/24" in page.text
    assert device["user_code"] in page.text
    assert "submit tests and benchmarks" in page.text
    answer = await send_form(
        browser, path, "/device/answer", user_code=device["user_code"], answer="yes"
    )
    assert (answer.status_code, "Connected" in answer.text) == (200, True)
    polled = await browser.post(
        "/v1/auth/device/token", data={"device_code": device["device_code"]}
    )
    assert polled.status_code == 200, polled.text


async def test_a_device_is_denied_unless_the_answer_is_yes(
    browser: httpx.AsyncClient,
) -> None:
    device = (await browser.post("/v1/auth/device", data={"scope": "submit"})).json()
    await register_in_browser(browser)
    answer = await send_form(browser, "/device", "/device/answer", user_code=device["user_code"])
    assert "Denied" in answer.text
    polled = await browser.post(
        "/v1/auth/device/token", data={"device_code": device["device_code"]}
    )
    assert polled.json()["error"] == "access_denied"


async def test_a_wrong_code_shows_the_form_again(browser: httpx.AsyncClient) -> None:
    await register_in_browser(browser)
    answer = await send_form(browser, "/device", "/device", user_code="<script>")
    assert (answer.status_code, 'role="alert"' in answer.text) == (404, True)
    assert "<script" not in answer.text


async def test_a_cli_id_is_linked_on_the_page(
    doorway: LoginHarness, browser: httpx.AsyncClient
) -> None:
    cli_id = (await browser.get("/auth/init?provider=github")).json()["state"]
    await register_in_browser(browser)
    page = await send_form(browser, "/link", "/link", cli_id=f" {cli_id} ")
    assert "Did you start this?" in page.text
    assert doorway.logins.tokens.feed.find_token(cli_id) is None
    declined = await send_form(browser, "/link", "/link/answer", cli_id=cli_id, answer="no")
    assert "Not linked" in declined.text
    assert doorway.logins.tokens.feed.find_token(cli_id) is None
    linked = await send_form(browser, "/link", "/link/answer", cli_id=cli_id, answer="yes")
    assert "Linked" in linked.text
    assert doorway.logins.tokens.feed.find_token(cli_id) is not None


async def test_banned_participants_cannot_link(
    doorway: LoginHarness, browser: httpx.AsyncClient
) -> None:

    await register_in_browser(browser)
    account = await doorway.logins.people.find("ada")
    ban = AccountBanned(reason="copied")
    await doorway.logins.people.decide(account, ban, "operator:olga")
    answer = await browser.get("/link")
    assert (answer.status_code, "copied" in answer.text) == (403, True)
