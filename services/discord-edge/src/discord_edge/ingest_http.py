"""The platform's public HTTP API, asked for whoever uses the bot."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import httpx
from httpx_sse import EventSource, SSEError

from discord_edge.domain.wishes import Wish
from discord_edge.service.ports import Heard, User
from shared.errors import Failed, Refused
from shared.problems.languages import MEDIA, suffix
from shared.telling.answers import Answer

CONNECT_S = 3.0
ANSWER_S = 35.0
# What publishes a whole repository, or writes a data set, answers late.
LATE_S = 120.0
# A stream says something every 15 s, if only that it is there.
SILENCE_S = 40.0
NAME_LENGTH_MAX = 100
# What an operator says no to is no failure.
PAUSED = "submissions_paused"


@dataclass(frozen=True)
class HttpApi:
    """An Office over one client, which shows the edge's own token."""

    client: httpx.AsyncClient
    public_url: str = ""

    async def get(self, user: User | None, *path: str | int, **query: str | int) -> Answer:
        """What a read under /v1 answers. Errors: Refused; Failed."""
        return _answer(await self._send(user, "GET", _under_v1(path), params=query))

    async def file(self, user: User | None, path: str) -> bytes:
        """A small file, whole. Errors: as get."""
        response = await self._send(user, "GET", path)
        if not response.is_success:
            _answer(response)
        return response.content

    async def submit(self, user: User, wish: Wish, key: str) -> Answer:
        """The receipts of a submission. Errors: as get."""
        only = {"case": str(wish.case)} if wish.case else {}
        sent = await self._send(
            user,
            "POST",
            "/v1/submissions",
            data={"problem": wish.problem, "mode": wish.mode, "gpu": list(wish.gpus)} | only,
            files={"file": (wish.name, wish.source, MEDIA[suffix(wish.name)])},
            headers={"Idempotency-Key": key},
        )
        return _answer(sent)

    async def act(self, user: User, key: str, *path: str | int, **said: object) -> Answer:
        """What a POST under /v1 answers, done once for a key. Errors: as get."""
        headers = {"Idempotency-Key": key}
        return _answer(await self._send(user, "POST", _under_v1(path), json=said, headers=headers))

    async def do(
        self, user: User, method: str, *path: str | int, key: str, **said: object
    ) -> Answer:
        """What any request under /v1 answers, done once for a key. Errors: as get."""
        headers = {"Idempotency-Key": key} if method == "POST" else {}
        return _answer(await self._send(user, method, _under_v1(path), json=said, headers=headers))

    async def publish(
        self, user: User, key: str, said: Mapping[str, object], files: Mapping[str, bytes]
    ) -> Answer:
        """A problem's newest version. Errors: as get."""
        sent = await self._send(
            user,
            "POST",
            "/v1/problems",
            data=said,
            files=[("files", one) for one in files.items()],
            headers={"Idempotency-Key": key},
        )
        return _answer(sent)

    async def late(self, user: User, path: str, bytes_max: int, **said: object) -> bytes:
        """What a POST at a path answers that may take two minutes, whole. Errors: as get."""
        timeout = httpx.Timeout(LATE_S, connect=CONNECT_S)
        sent = self.client.stream("POST", path, json=said, headers=_who(user), timeout=timeout)
        try:
            async with asyncio.timeout(LATE_S), sent as heard:
                if not heard.is_success:
                    await heard.aread()
                    _answer(heard)
                return await _whole(heard, bytes_max)
        except (httpx.TransportError, TimeoutError) as error:
            raise Failed(f"the platform does not answer: {type(error).__name__}") from error

    async def events(self, user: User, number: int, after: int) -> AsyncIterator[Heard]:
        """What happens to a submission, from after a place. Errors: as get."""
        headers = _who(user) | {"Accept": "text/event-stream"}
        headers |= {"Last-Event-ID": str(after)} if after else {}
        timeout = httpx.Timeout(SILENCE_S, connect=CONNECT_S)
        path = f"/v1/submissions/{number}/events"
        try:
            async with self.client.stream("GET", path, headers=headers, timeout=timeout) as heard:
                if not heard.is_success:
                    await heard.aread()
                    _answer(heard)
                async for one in EventSource(heard).aiter_sse():
                    yield Heard(one.event, _object(one.data))
        except (httpx.TransportError, SSEError) as error:
            raise Failed(f"the stream was cut: {error}") from error

    async def _send(self, user: User | None, method: str, path: str, **sent: Any) -> httpx.Response:
        headers = _who(user) | sent.pop("headers", {})
        try:
            return await self.client.request(method, path, headers=headers, **sent)
        except httpx.TransportError as error:
            raise Failed(f"the platform does not answer: {type(error).__name__}") from error


async def _whole(heard: httpx.Response, bytes_max: int) -> bytes:
    """All of an answer. Errors: Refused `too_large`."""
    data = bytearray()
    async for piece in heard.aiter_bytes():
        data += piece
        if len(data) > bytes_max:
            raise Refused("too_large", f"the answer has more than {bytes_max:,} bytes")
    return bytes(data)


def _who(user: User | None) -> dict[str, str]:
    """Whom the edge asks for."""
    if user is None:
        return {}
    said = {"Warpboard-Discord-User": str(user.id)}
    name = quote(user.name[:NAME_LENGTH_MAX], safe="")
    said |= {"Warpboard-Discord-Name": name} if name else {}
    return said | ({"Warpboard-Discord-Roles": ",".join(user.roles)} if user.roles else {})


def _under_v1(path: tuple[str | int, ...]) -> str:
    """A path whose parts stay what they are, whoever typed them. Errors: Refused."""
    for part in path:
        # The client would take these for a way up to what was not asked for.
        if part in ("", ".", ".."):
            raise Refused("invalid_request", f"{part!r} is no name")
    return "/v1/" + "/".join(quote(str(part), safe="") for part in path)


def _object(text: str) -> Answer:
    try:
        found = json.loads(text) if text else {}
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _answer(response: httpx.Response) -> Answer:
    body = _object(response.text)
    detail = str(body.get("detail") or f"the platform answered {response.status_code}")
    code = str(body.get("code") or "refused")
    if response.is_client_error or code == PAUSED:
        said = response.headers.get("Retry-After", "")
        wait_s = float(said) if said.isdecimal() else None
        raise Refused(code, detail, retry_after_s=wait_s)
    if not response.is_success or not body:
        raise Failed(f"the platform answered {response.status_code}: {detail}")
    return body


@asynccontextmanager
async def connected(url: str, token: str, public_url: str = "") -> AsyncIterator[HttpApi]:
    """The API at a URL, as the edge. Connecting takes at most 3 s, an answer 35 s."""
    timeout = httpx.Timeout(ANSWER_S, connect=CONNECT_S)
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=50)
    headers = {"Authorization": f"Bearer {token}"}
    # A proxy for the outside, named in the environment, must not catch 127.0.0.1.
    async with httpx.AsyncClient(
        base_url=url, headers=headers, timeout=timeout, limits=limits, trust_env=False
    ) as client:
        yield HttpApi(client, public_url.rstrip("/"))
