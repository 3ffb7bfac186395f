"""A client of the platform's public HTTP API."""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import httpx
import msgspec
from httpx_sse import EventSource

from shared.api.leaderboards import LeaderboardMembership
from shared.api.problems import PublishedVersion
from shared.api.submissions import SubmissionReceipts, SubmissionRequest
from shared.errors import Failed, Refused
from shared.presentation.responses import JsonObject
from warpboard.service.ports import (
    NO_FIELDS,
    Caller,
    Fields,
    PublishApproval,
    Response,
    StreamMessage,
    T,
    Unavailable,
)

CONNECT_S = 3.0
ANSWER_S = 35.0
# A stream sends something every 15 s, if only a keep-alive.
SILENCE_S = 40.0
UNAVAILABLE_STATUSES = (502, 503, 504)
RATE_LIMITED = "rate_limited"
# An operator paused intake: retrying at once is useless.
PAUSED = "submissions_paused"


class HttpApi:
    """The API over one client; `url` is the platform's and appears in messages."""

    def __init__(self, client: httpx.AsyncClient, url: str) -> None:
        self._client = client
        self._url = url

    async def get(
        self, expected_type: type[T], /, *path: str | int, **query: str | float
    ) -> Response[T]:
        """Read a resource under /v1. Raises Refused, Unavailable and Failed."""
        return await self._request(expected_type, "GET", _under_v1(path), params=query)

    async def act(
        self, expected_type: type[T], method: str, *path: str | int, body: Mapping[str, object]
    ) -> Response[T]:
        """Send a request with a JSON body. Raises the same as get."""
        return await self._request(expected_type, method, _under_v1(path), json=body)

    async def join(self, code: str) -> Response[LeaderboardMembership]:
        """Accept an invite and return its leaderboards. Raises the same as get."""
        return await self._request(LeaderboardMembership, "POST", "/user/join", json={"code": code})

    async def history(self, number: int) -> list[JsonObject]:
        """Return the events of a submission so far, in order. Raises the same as get."""
        path = f"/v1/submissions/{number}/events"
        response = await self._send_request("GET", path, headers={"Accept": "application/json"})
        self._check(response)
        events = _decode_body(response)
        if not isinstance(events, list):
            raise Failed(f"{self._url} sent no list of events")
        return list(events)

    async def events(self, number: int, after: int) -> AsyncIterator[StreamMessage]:
        """Yield the events of a submission as they happen, after a place in its history.

        Raises the same as get, and Unavailable when the connection is cut.
        """
        headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": str(after)} if after else {})
        timeout = httpx.Timeout(SILENCE_S, connect=CONNECT_S)
        path = f"/v1/submissions/{number}/events"
        try:
            async with self._client.stream(
                "GET", path, headers=headers, timeout=timeout
            ) as response:
                if not response.is_success:
                    await response.aread()
                self._check(response)
                async for event in EventSource(response).aiter_sse():
                    yield _parse_event(event.event, event.data)
        except httpx.TransportError as error:
            raise self._unavailable(error) from error

    async def file(self, *path: str | int, **query: Sequence[str]) -> bytes:
        """Return a small file under /v1. Raises the same as get."""
        response = await self._send_request("GET", _under_v1(path), params=query)
        self._check(response)
        return response.content

    async def submit(self, request: SubmissionRequest, key: str) -> Response[SubmissionReceipts]:
        """Send a submission and return its receipts. Raises the same as get."""
        return await self._request(
            SubmissionReceipts,
            "POST",
            "/v1/submissions",
            data=request.form,
            files={"file": (request.name, request.source)},
            headers={"Idempotency-Key": key},
        )

    async def publish(
        self,
        slug: str,
        files: Mapping[str, bytes],
        approval: PublishApproval,
        settings: Fields = NO_FIELDS,
    ) -> Response[PublishedVersion]:
        """Publish a problem and return its newest version. Raises the same as get."""
        approvals = {"report": approval.report, "unchecked": approval.unchecked}
        fields = {"slug": slug, **approvals, **settings}
        return await self._request(
            PublishedVersion,
            "POST",
            "/v1/problems",
            data={name: text for name, text in fields.items() if text},
            files=[("files", (name, data)) for name, data in files.items()],
        )

    async def download(self, number: int, name: str) -> AsyncIterator[bytes]:
        """Yield a file of a submission in pieces. Raises the same as get."""
        path = f"/v1/submissions/{number}/files/{quote(name, safe='')}"
        try:
            async with self._client.stream("GET", path) as response:
                if not response.is_success:
                    await response.aread()
                self._check(response)
                async for piece in response.aiter_raw():
                    yield piece
        except httpx.TransportError as error:
            raise self._unavailable(error) from error

    async def _request(
        self, expected_type: type[T], method: str, path: str, **sent: Any
    ) -> Response[T]:
        response = await self._send_request(method, path, **sent)
        self._check(response)
        try:
            value = msgspec.json.decode(response.content, type=expected_type)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise Failed(
                f"{self._url} answered {response.status_code}, but not with a "
                f"{expected_type.__name__}: {error}"
            ) from error
        return Response(value, response.content)

    async def _send_request(self, method: str, path: str, **sent: Any) -> httpx.Response:
        try:
            return await self._client.request(method, path, **sent)
        except httpx.TransportError as error:
            raise self._unavailable(error) from error

    def _unavailable(self, error: httpx.TransportError) -> Unavailable:
        return Unavailable(f"no answer from {self._url}: {str(error) or type(error).__name__}")

    def _check(self, response: httpx.Response) -> None:
        """Raise the error that a response reports, if it reports one."""
        if response.is_success:
            return
        body = _decode_body(response)
        body = body if isinstance(body, dict) else {}
        detail = str(body.get("detail") or f"HTTP status {response.status_code}")
        code = str(body.get("code") or body.get("error") or "refused")
        wait_s = _retry_after_s(response)
        if code == RATE_LIMITED:
            raise Unavailable(f"{self._url}: {detail}", wait_s)
        if response.is_client_error or code == PAUSED:
            raise Refused(code, detail, _error_field(body), wait_s)
        if response.status_code in UNAVAILABLE_STATUSES:
            raise Unavailable(f"{self._url} is not ready: {detail}", wait_s)
        raise Failed(f"{self._url} answered {response.status_code}: {detail}")


def _under_v1(path: Sequence[str | int]) -> str:
    return "/v1/" + "/".join(quote(str(part), safe="") for part in path)


def _decode_body(response: httpx.Response) -> Any:
    try:
        return response.json()
    except ValueError:
        return None


def _parse_event(kind: str, data: str) -> StreamMessage:
    """Decode an event of a stream, with its place in the history if it has one."""
    try:
        content = json.loads(data) if data else {}
    except ValueError as error:
        raise Failed(f"the platform's stream sent {data[:80]!r}: expected a JSON event") from error
    if not isinstance(content, dict):
        content = {}
    place = content.get("id")
    return StreamMessage(place if isinstance(place, int) else None, kind, content)


def _retry_after_s(response: httpx.Response) -> float | None:
    """Return how long the platform asks to wait, if it does."""
    retry_after = response.headers.get("Retry-After", "")
    return float(retry_after) if retry_after.isdecimal() else None


def _error_field(body: JsonObject) -> str | None:
    errors = body.get("errors")
    if isinstance(errors, list) and errors and isinstance(errors[0], dict):
        return str(errors[0].get("field") or "") or None
    return None


@asynccontextmanager
async def open_api(url: str, caller: Caller) -> AsyncIterator[HttpApi]:
    """Connect to the API at a URL. Connecting takes at most 3 s, an answer 35 s."""
    timeout = httpx.Timeout(ANSWER_S, connect=CONNECT_S)
    # A proxy named in the environment must not be used for 127.0.0.1.
    async with httpx.AsyncClient(
        base_url=url, headers=caller.headers, timeout=timeout, trust_env=False
    ) as client:
        yield HttpApi(client, url)
