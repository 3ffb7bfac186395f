"""Chromium for tests and screenshots, driven by Playwright."""

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.platform import Running

if TYPE_CHECKING:
    from playwright.async_api import Browser, BrowserContext, Page

# Of the system: Playwright's own download is another address, and gets no Debian updates.
PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
# A busy machine is slow. What is wrong fails sooner, by what a test waits for.
WAIT_MS = 120_000
ADMIN, PASSWORD = "olga", "correct horse battery"


@asynccontextmanager
async def open_browser() -> AsyncIterator["Browser"]:
    """Start Chromium without a window. Skips the test where it is not installed."""
    # Half a second of imports, which the collection of all other tests need not pay.
    from playwright.async_api import async_playwright

    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        pytest.skip("NOT RUN: no browser here; apt-get install chromium")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=program, timeout=WAIT_MS)
        try:
            yield browser
        finally:
            await browser.close()


@asynccontextmanager
async def open_context(
    browser: "Browser", url: str, **options: Any
) -> AsyncIterator["BrowserContext"]:
    """Open a context, with cookies of its own, for the pages of a site."""
    context = await browser.new_context(base_url=url, **options)
    context.set_default_timeout(WAIT_MS)
    try:
        yield context
    finally:
        await context.close()


async def send_login_form(page: "Page", name: str) -> None:
    """Fill in and send the open form of `/login` or `/register`, and wait for the next page."""
    form_url = page.url
    await page.get_by_label("Name").fill(name)
    await page.get_by_label("Password").fill(PASSWORD)
    await page.get_by_role("main").get_by_role("button").click()
    await page.wait_for_url(lambda url: url != form_url)


async def log_in_admin(page: "Page", platform: Running) -> None:
    """Log in as a new admin. A session has the scopes of the roles at the login."""
    await page.goto("/register")
    await send_login_form(page, ADMIN)
    platform.admin(f"participants/{ADMIN}/roles", role="admin")
    await page.get_by_role("button", name="Log out").click()
    await page.wait_for_url("**/login")
    await send_login_form(page, ADMIN)
