"""GitHub and Discord, asked by OAuth 2's code flow who somebody is."""

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import urlencode

import httpx
import msgspec

from ingest.login.ports import Stranger
from shared.errors import Failed, Refused

ANSWER_BYTES_MAX = 64 * 1024
WAIT_S_MAX = 10.0
SUBJECT = re.compile(r"[0-9]{1,32}\Z")


class Doors(NamedTuple):
    """Where a provider asks its people, gives out tokens, and says whose one is."""

    authorize: str
    token: str
    profile: str
    scope: str
    login: str


def github(url: str, api_url: str) -> Doors:
    """GitHub's; its profile needs no scope.

    Source: GitHub's documentation, "Authorizing OAuth apps" and "Get the authenticated user".
    """
    oauth = f"{url.rstrip('/')}/login/oauth"
    profile = f"{api_url.rstrip('/')}/user"
    return Doors(f"{oauth}/authorize", f"{oauth}/access_token", profile, "", "login")


def discord(url: str) -> Doors:
    """Discord's; `identify` is its smallest scope. Source: Discord's documentation, "OAuth2"."""
    base = url.rstrip("/")
    api = f"{base}/api"
    return Doors(
        f"{base}/oauth2/authorize",
        f"{api}/oauth2/token",
        f"{api}/users/@me",
        "identify",
        "username",
    )


@asynccontextmanager
async def client() -> AsyncIterator[httpx.AsyncClient]:
    """A client for providers: no redirect is followed, no wait is long."""
    async with httpx.AsyncClient(timeout=WAIT_S_MAX, follow_redirects=False) as opened:
        yield opened


@dataclass(frozen=True)
class OAuthProvider:
    """A provider where this platform has an application of its own."""

    title: str
    doors: Doors
    client_id: str
    client: httpx.AsyncClient = field(repr=False)
    secret: str = field(repr=False)

    def address(self, redirect: str, state: str, challenge: str) -> str:
        """Where a browser goes; Source: RFC 6749, 4.1.1 and RFC 7636, 4.3."""
        asked = {
            "response_type": "code",
            "client_id": self.client_id,
            "redirect_uri": redirect,
            "scope": self.doors.scope,
            "state": state,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        return f"{self.doors.authorize}?{urlencode({k: v for k, v in asked.items() if v})}"

    async def stranger(self, code: str, redirect: str, verifier: str | None) -> Stranger:
        """Who came back with this code. Errors: Refused if it is not good; Failed."""
        form = {
            "grant_type": "authorization_code",
            "client_id": self.client_id,
            "client_secret": self.secret,
            "code": code,
            "redirect_uri": redirect,
        }
        if verifier is not None:
            form["code_verifier"] = verifier
        granted = await self._said("POST", self.doors.token, data=form)
        token = granted.get("access_token")
        if not isinstance(token, str) or not token.isascii():
            # GitHub says so with 200, Discord with 400.
            what = f"{self.title} does not accept this login: begin again"
            raise Refused("login_refused", what)
        bearer = {"Authorization": f"Bearer {token}"}
        return self._stranger(await self._said("GET", self.doors.profile, headers=bearer))

    def _stranger(self, profile: Mapping[str, Any]) -> Stranger:
        subject = str(profile.get("id", ""))
        if not SUBJECT.match(subject):
            raise Failed(f"{self.title} does not say who this is")
        return Stranger(subject, str(profile.get(self.doors.login, "")))

    async def _said(
        self,
        method: str,
        url: str,
        data: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Mapping[str, Any]:
        asked = {"Accept": "application/json", "User-Agent": "warpboard"} | dict(headers or {})
        try:
            async with self.client.stream(method, url, data=data, headers=asked) as answer:
                body = await self._body(answer)
        except httpx.HTTPError as error:
            raise Failed(f"{self.title} cannot be asked: {error}") from error
        if answer.status_code >= 500 or answer.status_code == 429:
            raise Failed(f"{self.title} answers {answer.status_code}: try again in a minute")
        try:
            said = msgspec.json.decode(body)
        except (msgspec.DecodeError, UnicodeError) as error:
            raise Failed(f"{self.title} answers something that is no JSON") from error
        return said if isinstance(said, dict) else {}

    async def _body(self, answer: httpx.Response) -> bytes:
        body = b""
        async for piece in answer.aiter_bytes():
            body += piece
            if len(body) > ANSWER_BYTES_MAX:
                raise Failed(f"{self.title} answers with more than {ANSWER_BYTES_MAX:,} bytes")
        return body
