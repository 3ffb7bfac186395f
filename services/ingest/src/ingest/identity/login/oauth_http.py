"""OAuth 2 code flow with GitHub and Discord."""

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import urlencode

import httpx
import msgspec

from ingest.identity.login.rules import ProviderUser
from shared.errors import Failed, Refused

ANSWER_BYTES_MAX = 64 * 1024
WAIT_S_MAX = 10.0
SUBJECT = re.compile(r"[0-9]{1,32}\Z")
HEADERS = {"Accept": "application/json", "User-Agent": "warpboard"}


class OAuthEndpoints(NamedTuple):
    """The OAuth endpoints of a provider."""

    authorize: str
    token: str
    profile: str
    scope: str
    login: str


def github(url: str, api_url: str) -> OAuthEndpoints:
    """Return GitHub's endpoints; its profile needs no scope.

    Source: GitHub's documentation, "Authorizing OAuth apps" and "Get the authenticated user".
    """
    oauth, profile = f"{url.rstrip('/')}/login/oauth", f"{api_url.rstrip('/')}/user"
    return OAuthEndpoints(f"{oauth}/authorize", f"{oauth}/access_token", profile, "", "login")


def discord(url: str) -> OAuthEndpoints:
    """Return Discord's endpoints; `identify` is its smallest scope.

    Source: Discord's documentation, "OAuth2".
    """
    base = url.rstrip("/")
    token, profile = f"{base}/api/oauth2/token", f"{base}/api/users/@me"
    return OAuthEndpoints(f"{base}/oauth2/authorize", token, profile, "identify", "username")


@asynccontextmanager
async def open_client() -> AsyncIterator[httpx.AsyncClient]:
    """Open an HTTP client for providers: no redirects, short timeouts."""
    async with httpx.AsyncClient(timeout=WAIT_S_MAX, follow_redirects=False) as opened:
        yield opened


@dataclass(frozen=True)
class OAuthProvider:
    """A provider where this platform has an OAuth application."""

    title: str
    endpoints: OAuthEndpoints
    client_id: str
    client: httpx.AsyncClient = field(repr=False)
    secret: str = field(repr=False)

    def address(self, redirect: str, state: str, challenge: str) -> str:
        """Return the authorization URL; Source: RFC 6749, 4.1.1 and RFC 7636, 4.3."""
        parameters = {
            "response_type": "code",
            "client_id": self.client_id,
            "redirect_uri": redirect,
            "scope": self.endpoints.scope,
            "state": state,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        query = urlencode({name: value for name, value in parameters.items() if value})
        return f"{self.endpoints.authorize}?{query}"

    async def fetch_user(self, code: str, redirect: str, verifier: str | None) -> ProviderUser:
        """Return the user of an authorization code.

        Raises `Refused` for a bad code, and `Failed`.
        """
        form = {
            "grant_type": "authorization_code",
            "client_id": self.client_id,
            "client_secret": self.secret,
            "code": code,
            "redirect_uri": redirect,
        }
        if verifier is not None:
            form["code_verifier"] = verifier
        granted = await self._request_json("POST", self.endpoints.token, data=form)
        token = granted.get("access_token")
        if not isinstance(token, str) or not token.isascii():
            # GitHub reports errors with 200, Discord with 400.
            raise Refused("login_refused", f"{self.title} refused this login: start again")
        headers = HEADERS | {"Authorization": f"Bearer {token}"}
        profile = await self._request_json("GET", self.endpoints.profile, headers=headers)
        subject = str(profile.get("id", ""))
        if not SUBJECT.match(subject):
            raise Failed(f"{self.title} sent no user id")
        return ProviderUser(subject, str(profile.get(self.endpoints.login, "")))

    async def _request_json(
        self,
        method: str,
        url: str,
        data: Mapping[str, str] | None = None,
        headers: Mapping[str, str] = HEADERS,
    ) -> Mapping[str, Any]:
        body = b""
        try:
            async with self.client.stream(method, url, data=data, headers=headers) as response:
                async for piece in response.aiter_bytes():
                    body += piece
                    if len(body) > ANSWER_BYTES_MAX:
                        limit = f"{ANSWER_BYTES_MAX:,} bytes"
                        raise Failed(f"{self.title} answered with more than {limit}")
        except httpx.HTTPError as error:
            raise Failed(f"{self.title} cannot be reached: {error}") from error
        if response.status_code >= 500 or response.status_code == 429:
            raise Failed(f"{self.title} answered {response.status_code}: try again in a minute")
        try:
            payload = msgspec.json.decode(body)
        except (msgspec.DecodeError, UnicodeError) as error:
            raise Failed(f"{self.title} answered with invalid JSON") from error
        return payload if isinstance(payload, dict) else {}
