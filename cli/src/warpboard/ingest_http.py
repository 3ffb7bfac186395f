"""The platform's public HTTP API, as one participant asks it."""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple
from urllib.parse import quote

import httpx
from httpx_sse import EventSource

from shared.errors import Failed, Refused
from shared.problems.languages import MEDIA, suffix
from warpboard.domain.answers import Answer
from warpboard.domain.problems import NO_FIELDS, Fields
from warpboard.service.ports import Told, Unavailable, Voucher, Wish

CONNECT_S = 3.0
ANSWER_S = 35.0
# A stream says something every 15 s, if only that it is there.
SILENCE_S = 40.0
AWAY = (502, 503, 504)
TOO_OFTEN = "rate_limited"
# An operator said no: asking again at once is of no use.
PAUSED = "submissions_paused"


class Caller(NamedTuple):
    """Who asks: whoever a token is of; without one a participant, whom a local platform believes.

    An operator's name goes into the log where the token is that of the platform itself.
    """

    participant: str | None = None
    token: str | None = None
    operator: str | None = None

    @property
    def headers(self) -> dict[str, str]:
        """What says so in a request."""
        said = {
            "Authorization": f"Bearer {self.token}" if self.token else None,
            "Warpboard-Operator": self.operator,
            "Warpboard-Participant": None if self.token else self.participant,
        }
        return {name: value for name, value in said.items() if value is not None}


class HttpApi:
    """An Api over one client; `url` is the platform's, for messages."""

    def __init__(self, client: httpx.AsyncClient, url: str) -> None:
        self._client = client
        self._url = url

    async def get(self, *path: str | int, **query: str | float) -> Answer:
        """What a read under /v1 answers. Errors: Refused; Unavailable; Failed."""
        return await self._ask("GET", _under_v1(path), params=query)

    async def act(self, method: str, *path: str | int, said: Mapping[str, object]) -> Answer:
        """What a request with a JSON body answers. Errors: as get."""
        return await self._ask(method, _under_v1(path), json=said)

    async def join(self, code: str) -> Answer:
        """The leaderboards that an invite opens. Errors: as get."""
        return await self._ask("POST", "/user/join", json={"code": code})

    async def history(self, number: int) -> list[Answer]:
        """What happened to a submission so far, in order. Errors: as get."""
        path = f"/v1/submissions/{number}/events"
        response = await self._send("GET", path, headers={"Accept": "application/json"})
        found = _value(response)
        if not response.is_success or not isinstance(found, list):
            self._answer(response)
        return list(found)

    async def events(self, number: int, after: int) -> AsyncIterator[Told]:
        """What happens to a submission, as it happens, from after a place in its history.

        Errors: as get; Unavailable too when the connection is cut.
        """
        headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": str(after)} if after else {})
        timeout = httpx.Timeout(SILENCE_S, connect=CONNECT_S)
        path = f"/v1/submissions/{number}/events"
        try:
            async with self._client.stream("GET", path, headers=headers, timeout=timeout) as heard:
                if not heard.is_success:
                    await heard.aread()
                    self._answer(heard)
                async for one in EventSource(heard).aiter_sse():
                    yield _told(one.event, one.data)
        except httpx.TransportError as error:
            raise self._away(error) from error

    async def file(self, *path: str | int, **query: Sequence[str]) -> bytes:
        """A small file under /v1, whole. Errors: as get."""
        response = await self._send("GET", _under_v1(path), params=query)
        if not response.is_success:
            self._answer(response)
        return response.content

    async def submit(self, wish: Wish, key: str) -> Answer:
        """The receipts of a submission. Errors: as get."""
        said = {"note": wish.note, "tag": wish.tag, "case": str(wish.case or "")}
        data = {"problem": wish.problem, "mode": wish.mode, "gpu": list(wish.gpus)}
        return await self._ask(
            "POST",
            "/v1/submissions",
            data=data | {name: text for name, text in said.items() if text},
            files={"file": (wish.name, wish.source, MEDIA[suffix(wish.name)])},
            headers={"Idempotency-Key": key},
        )

    async def publish(
        self, slug: str, files: Mapping[str, bytes], voucher: Voucher, said: Fields = NO_FIELDS
    ) -> Answer:
        """The problem's newest version. Errors: as get."""
        fields = {"slug": slug, "report": voucher.report, "unchecked": voucher.unchecked, **said}
        return await self._ask(
            "POST",
            "/v1/problems",
            data={name: text for name, text in fields.items() if text},
            files=[("files", (name, data)) for name, data in files.items()],
        )

    async def download(self, number: int, name: str) -> AsyncIterator[bytes]:
        """A file of a submission, piece by piece. Errors: as get."""
        path = f"/v1/submissions/{number}/files/{quote(name, safe='')}"
        try:
            async with self._client.stream("GET", path) as response:
                if not response.is_success:
                    await response.aread()
                    self._answer(response)
                async for piece in response.aiter_raw():
                    yield piece
        except httpx.TransportError as error:
            raise self._away(error) from error

    async def _ask(self, method: str, path: str, **sent: Any) -> Answer:
        return self._answer(await self._send(method, path, **sent))

    async def _send(self, method: str, path: str, **sent: Any) -> httpx.Response:
        try:
            return await self._client.request(method, path, **sent)
        except httpx.TransportError as error:
            raise self._away(error) from error

    def _away(self, error: httpx.TransportError) -> Unavailable:
        return Unavailable(f"no answer from {self._url}: {str(error) or type(error).__name__}")

    def _answer(self, response: httpx.Response) -> Answer:
        body = _json(response)
        detail = str(body.get("detail") or f"HTTP status {response.status_code}")
        code, wait_s = str(body.get("code") or body.get("error") or "refused"), _wait_s(response)
        if code == TOO_OFTEN:
            raise Unavailable(f"{self._url}: {detail}", wait_s)
        if response.is_client_error or code == PAUSED:
            raise Refused(code, detail, _field(body), wait_s)
        if response.status_code in AWAY:
            raise Unavailable(f"{self._url} is not ready: {detail}", wait_s)
        if not response.is_success or not body:
            raise Failed(f"{self._url} answered {response.status_code}: {detail}")
        return body


def _under_v1(path: Sequence[str | int]) -> str:
    return "/v1/" + "/".join(quote(str(part), safe="") for part in path)


def _value(response: httpx.Response) -> Any:
    try:
        return response.json()
    except ValueError:
        return None


def _json(response: httpx.Response) -> Answer:
    body = _value(response)
    return body if isinstance(body, dict) else {}


def _told(kind: str, data: str) -> Told:
    """An event of a stream, with its place in the history if it has one."""
    try:
        said = json.loads(data) if data else {}
    except ValueError as error:
        raise Failed(f"the platform's stream says {data[:80]!r}: that is no event") from error
    if not isinstance(said, dict):
        said = {}
    place = said.get("id")
    return Told(place if isinstance(place, int) else None, kind, said)


def _wait_s(response: httpx.Response) -> float | None:
    """How long the platform asks to wait; it may not say."""
    said = response.headers.get("Retry-After", "")
    return float(said) if said.isdecimal() else None


def _field(body: Answer) -> str | None:
    errors = body.get("errors")
    if isinstance(errors, list) and errors and isinstance(errors[0], dict):
        return str(errors[0].get("field") or "") or None
    return None


@asynccontextmanager
async def connected(url: str, caller: Caller) -> AsyncIterator[HttpApi]:
    """The API at a URL, as somebody. Connecting takes at most 3 s, an answer 35 s."""
    timeout = httpx.Timeout(ANSWER_S, connect=CONNECT_S)
    # A proxy for the outside, named in the environment, must not catch 127.0.0.1.
    async with httpx.AsyncClient(
        base_url=url, headers=caller.headers, timeout=timeout, trust_env=False
    ) as client:
        yield HttpApi(client, url)
