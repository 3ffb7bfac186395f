"""A small server that speaks the OAuth 2 code flow of GitHub and Discord, on a real port."""

import asyncio
import base64
import hashlib
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

import httpx
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

from shared.http import serve
from tests.support.waits import eventually, find_free_ports

CLIENT_ID, CLIENT_SECRET = "our-application", "our-secret"


@dataclass
class Person:
    """The user that is logged in at the provider."""

    id: int
    login: str


@dataclass
class Provider:
    """The provider; `mood` makes it misbehave."""

    url: str = ""
    person: Person = field(default_factory=lambda: Person(42, "ada"))
    mood: str = ""
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    tokens: dict[str, Person] = field(default_factory=dict)

    def approve(self, address: str) -> tuple[str, str]:
        """Let the user agree at this URL, and return the code and the state for the callback."""
        parts = urlsplit(address)
        assert f"{parts.scheme}://{parts.netloc}" == self.url
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        assert query["response_type"] == "code"
        assert query["client_id"] == CLIENT_ID
        assert query["code_challenge_method"] == "S256"
        return self.code(query), query["state"]

    def code(self, query: dict[str, str]) -> str:
        """Return a code that is valid once."""
        code = secrets.token_urlsafe(12)
        self.codes[code] = query
        return code

    def exchange_code(self, form: dict[str, str]) -> str | None:
        """Return the token for a code, None if anything is wrong."""
        query = self.codes.pop(form["code"], None)
        if query is None or (form["client_id"], form["client_secret"]) != (
            CLIENT_ID,
            CLIENT_SECRET,
        ):
            return None
        if query.get("redirect_uri") != form["redirect_uri"]:
            return None
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        proof = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if query.get("code_challenge", proof) != proof:
            return None
        token = secrets.token_urlsafe(12)
        self.tokens[token] = self.person
        return token


def _application(provider: Provider) -> FastAPI:
    app = FastAPI()

    async def exchange(request: Request, refusal: int) -> JSONResponse:
        if provider.mood == "ill":
            return JSONResponse({}, 502)
        form = {key: str(value) for key, value in (await request.form()).items()}
        assert form["grant_type"] == "authorization_code"
        assert request.headers["accept"] == "application/json"
        token = provider.exchange_code(form)
        if token is None:
            return JSONResponse({"error": "bad_verification_code"}, refusal)
        return JSONResponse({"access_token": token, "token_type": "bearer"})

    # GitHub refuses with 200, Discord with 400.
    @app.post("/login/oauth/access_token")
    async def github_token(request: Request) -> JSONResponse:
        return await exchange(request, 200)

    @app.post("/api/oauth2/token")
    async def discord_token(request: Request) -> JSONResponse:
        return await exchange(request, 400)

    _profiles(app, provider)
    return app


def _profiles(app: FastAPI, provider: Provider) -> None:
    def person(request: Request) -> Person | None:
        scheme, _, token = request.headers["authorization"].partition(" ")
        assert scheme == "Bearer"
        return None if provider.mood == "vague" else provider.tokens.get(token)

    @app.get("/user")
    async def github_user(request: Request) -> JSONResponse:
        user = person(request)
        if provider.mood == "huge":
            return JSONResponse({"id": 1, "login": "x" * 100_000})
        if user is None:
            return JSONResponse({"message": "Bad credentials"}, 401)
        return JSONResponse({"id": user.id, "login": user.login})

    @app.get("/api/users/@me")
    async def discord_user(request: Request) -> JSONResponse:
        user = person(request)
        if user is None:
            return JSONResponse({"message": "401: Unauthorized"}, 401)
        return JSONResponse({"id": str(user.id), "username": user.login})


async def _is_up(url: str) -> bool:
    try:
        async with httpx.AsyncClient() as http:
            await http.get(url)
    except httpx.TransportError:
        return False
    return True


@asynccontextmanager
async def provider_server() -> AsyncIterator[Provider]:
    """Run a provider on this machine."""
    (port,) = find_free_ports(1)
    provider, stopping = Provider(f"http://127.0.0.1:{port}"), asyncio.Event()
    serving = asyncio.create_task(serve(_application(provider), "127.0.0.1", port, stopping))
    try:
        await eventually(lambda: _is_up(provider.url))
        yield provider
    finally:
        stopping.set()
        await asyncio.wait_for(serving, 30)
