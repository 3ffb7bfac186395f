"""Guessing passwords is slowed and refused, and locks no participant out."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta

import httpx
import pytest

from ingest.http import attempts as attempt_limits
from ingest.http.attempts import KEYS_MAX, AttemptLimiter
from ingest.identity.login import attempts
from ingest.identity.login.attempts import (
    DELAY_S_MAX,
    DEVICE_S,
    DEVICES_MAX,
    ENTRIES_MAX,
    FREE_ATTEMPTS,
    SLOW_S_MAX,
    SLOWED_MAX,
    GrowingDelay,
    KnownDevices,
    Slowdown,
)
from ingest.identity.login.web import DEVICE_COOKIE
from shared.errors import Refused
from shared.http import serve
from tests.ingest.logins import (
    PASSWORD,
    SETTINGS,
    LoginHarness,
    MovableClock,
    form_token,
    open_logins,
    register_in_browser,
    send_form,
)
from tests.support.waits import eventually, free_port

WRONG = "a guess"
BOTNET = [f"198.51.100.{number}" for number in range(1, 41)]


@pytest.fixture
async def doorway(postgres_dsn: str) -> AsyncIterator[LoginHarness]:
    """Logins at which a name is never slowed, so that no test waits."""
    settings = replace(SETTINGS, passwords_per_name="1000/hour")
    async with open_logins(postgres_dsn, settings) as opened:
        yield opened


async def guess(browser: httpx.AsyncClient, times: int, password: str = WRONG) -> list[int]:
    """The answers to so many attempts to log in as ada."""
    data = {"csrf": await form_token(browser, "/login"), "name": "ada", "password": password}
    return [(await browser.post("/login", data=data)).status_code for _ in range(times)]


async def attack(doorway: LoginHarness) -> None:
    """Guess ada's password from many addresses until each is refused."""
    for address in BOTNET:
        async with doorway.browser(address) as attacker:
            assert await guess(attacker, FREE_ATTEMPTS + 1) == [401] * FREE_ATTEMPTS + [429]


@pytest.mark.server
async def test_an_attack_on_a_name_does_not_lock_its_participant_out(
    doorway: LoginHarness,
) -> None:
    async with doorway.browser("203.0.113.1") as known:
        await register_in_browser(known)
        device = known.cookies[DEVICE_COOKIE]
    await attack(doorway)
    async with doorway.browser("203.0.113.2") as elsewhere:
        assert await guess(elsewhere, 1, PASSWORD) == [303]
    # Even from an address of the attack, such as that of a class room.
    async with doorway.browser(BOTNET[0]) as neighbour:
        assert await guess(neighbour, 1, PASSWORD) == [429]
        neighbour.cookies.set(DEVICE_COOKIE, device)
        assert await guess(neighbour, 1, PASSWORD) == [303]


@pytest.mark.server
async def test_an_address_waits_longer_after_each_wrong_password(doorway: LoginHarness) -> None:
    async with doorway.browser() as browser:
        await register_in_browser(browser)
        browser.cookies.clear()
        assert await guess(browser, FREE_ATTEMPTS) == [401] * FREE_ATTEMPTS
        for delay_s in (10, 20, 40):
            data = {"name": "ada", "password": PASSWORD}
            early = await send_form(browser, "/login", "/login", **data)
            assert early.status_code == 429
            assert int(early.headers["retry-after"]) == delay_s
            doorway.clock.advance(seconds=delay_s)
            assert await guess(browser, 1) == [401]
        doorway.clock.advance(seconds=80)
        assert await guess(browser, 1, PASSWORD) == [303]
        browser.cookies.clear()
        assert await guess(browser, FREE_ATTEMPTS) == [401] * FREE_ATTEMPTS


@pytest.mark.server
async def test_a_stolen_device_cookie_allows_few_guesses(doorway: LoginHarness) -> None:
    async with doorway.browser() as browser:
        await register_in_browser(browser)
        device = browser.cookies[DEVICE_COOKIE]
    async with doorway.browser("198.51.100.99") as thief:
        thief.cookies.set(DEVICE_COOKIE, device)
        statuses = await guess(thief, 30)
    assert statuses == [401] * (10 + FREE_ATTEMPTS) + [429] * (20 - FREE_ATTEMPTS)


@pytest.mark.server
async def test_a_device_is_known_only_to_its_own_participant(doorway: LoginHarness) -> None:
    async with doorway.browser() as browser:
        await register_in_browser(browser, "eve")
        cookie = browser.cookies[DEVICE_COOKIE]
        for name, value in (("eve's", cookie), ("forged", cookie.replace("eve", "ada", 1))):
            async with doorway.browser("198.51.100.99") as eve:
                eve.cookies.set(DEVICE_COOKIE, value)
                first = await guess(eve, FREE_ATTEMPTS + 1)
            doorway.clock.advance(days=2)
            assert first == [401] * FREE_ATTEMPTS + [429], name


@pytest.mark.server
async def test_a_browser_that_reset_the_password_may_log_in_at_once(doorway: LoginHarness) -> None:
    async with doorway.browser() as browser:
        await register_in_browser(browser)
        browser.cookies.clear()
        assert (await guess(browser, FREE_ATTEMPTS + 1))[-1] == 429
        account = await doorway.logins.people.find("ada")
        link = await doorway.logins.resets.create(account, "she asked", "operator:o")
        path = link.url.removeprefix(str(browser.base_url).rstrip("/"))
        answer = await send_form(browser, path, path, password="another passphrase")
        assert answer.status_code == 200
        assert await guess(browser, 1, "another passphrase") == [303]


@pytest.mark.server
async def test_addresses_are_exact_behind_a_trusted_proxy_and_only_there(
    doorway: LoginHarness,
) -> None:
    port, stopping = free_port(), asyncio.Event()
    serving = asyncio.create_task(serve(doorway.app, "127.0.0.1", port, stopping))

    async def guess_through(source: str, forwarded: str, times: int = FREE_ATTEMPTS) -> list[int]:
        transport = httpx.AsyncHTTPTransport(local_address=source)
        async with httpx.AsyncClient(
            transport=transport,
            base_url=f"http://127.0.0.1:{port}",
            headers={"X-Forwarded-For": forwarded},
        ) as http:
            return await guess(http, times)

    try:
        await eventually(lambda: is_listening(port))
        attempts_left = [401] * FREE_ATTEMPTS
        # The proxy appends the address that it sees to what the client claims.
        assert await guess_through("127.0.0.1", "203.0.113.5") == attempts_left
        assert await guess_through("127.0.0.1", "203.0.113.5", 1) == [429]
        assert await guess_through("127.0.0.1", "198.51.100.1, 203.0.113.5", 1) == [429]
        assert await guess_through("127.0.0.1", "203.0.113.5, 203.0.113.6") == attempts_left
        # Another machine is believed nothing, whatever it claims.
        assert await guess_through("127.0.0.2", "203.0.113.7") == attempts_left
        assert await guess_through("127.0.0.2", "203.0.113.8", 1) == [429]
    finally:
        stopping.set()
        await serving


async def is_listening(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True


async def test_attempts_of_all_addresses_are_slowed_and_never_refused() -> None:
    clock, waits = MovableClock(), []

    async def record_wait(wait_s: float) -> None:
        waits.append(wait_s)

    slowdown = Slowdown("20/hour", clock, record_wait)
    for _ in range(20):
        await slowdown.wait("ada")
    assert waits == []
    for _ in range(100):
        await slowdown.wait("ada")
    assert waits[0] == pytest.approx(0.5, abs=0.1)
    assert waits == sorted(waits)
    assert waits[-1] == SLOW_S_MAX
    await slowdown.wait("grace")
    assert len(waits) == 100
    clock.advance(hours=3)
    await slowdown.wait("ada")
    assert len(waits) == 100


async def test_only_so_many_requests_wait_at_once() -> None:
    released = asyncio.Event()

    async def wait_for_release(_wait_s: float) -> None:
        await released.wait()

    slowdown = Slowdown("1/day", MovableClock(), wait_for_release)
    await slowdown.wait("ada")
    waiting = [asyncio.create_task(slowdown.wait("ada")) for _ in range(SLOWED_MAX)]
    await asyncio.wait(waiting, timeout=0)
    with pytest.raises(Refused) as refused:
        await slowdown.wait("ada")
    assert refused.value.code == "rate_limited"
    released.set()
    await asyncio.gather(*waiting)


def test_a_delay_grows_to_an_hour_and_is_forgotten_after_a_day() -> None:
    clock = MovableClock()
    delay = GrowingDelay(clock)
    for _ in range(30):
        clock.advance(seconds=DELAY_S_MAX + 1)
        delay.take("ada 203.0.113.1")
    with pytest.raises(Refused) as refused:
        delay.take("ada 203.0.113.1")
    assert refused.value.retry_after_s == pytest.approx(DELAY_S_MAX, abs=5)
    clock.advance(days=1, seconds=1)
    for _ in range(FREE_ATTEMPTS):
        delay.take("ada 203.0.113.1")


def test_every_store_of_attempts_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    assert KEYS_MAX <= ENTRIES_MAX <= 100_000
    monkeypatch.setattr(attempts, "ENTRIES_MAX", 10)
    monkeypatch.setattr(attempt_limits, "KEYS_MAX", 10)
    delay, limiter = GrowingDelay(MovableClock()), AttemptLimiter("2/hour", "tries")
    for number in range(100):
        delay.take(f"ada {number}")
        limiter.take(str(number))
    assert list(delay._attempts) == [f"ada {number}" for number in range(90, 100)]
    assert len(limiter._storage.events) == len(limiter._keys) == 10


def test_a_browser_knows_its_last_five_participants_for_a_year() -> None:
    clock = MovableClock()
    devices, cookie = KnownDevices("k" * 16, clock), ""
    for number in range(DEVICES_MAX + 1):
        cookie = devices.add(cookie, f"p{number}")
    known = [devices.find(cookie, f"p{number}") for number in range(DEVICES_MAX + 1)]
    assert known[0] is None
    assert len({*known[1:]}) == DEVICES_MAX
    assert None not in known[1:]
    assert len(cookie) < 1024
    assert KnownDevices("another key", clock).find(cookie, "p5") is None
    clock.ahead += timedelta(seconds=DEVICE_S + 1)
    assert devices.find(cookie, "p5") is None
    for broken in ("", "|", "p5", "p5.x.y.z", "p5.é.1." + "0" * 64, "." * 1000):
        assert devices.find(broken, "p5") is None
