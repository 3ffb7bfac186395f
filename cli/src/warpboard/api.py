"""A client of the platform's public HTTP API."""

import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar
from urllib.parse import quote

import msgspec

from shared.api.fields import JsonObject
from shared.api.leaderboards import LeaderboardMembership
from shared.api.problems import PublishedVersion
from shared.api.submissions import SubmissionReceipts, SubmissionRequest
from shared.errors import Failed, Refused

if TYPE_CHECKING:  # Loading it takes about as long as everything else.
    import httpx

CONNECT_S = 3.0
ANSWER_S = 35.0
# A stream sends something every 15 s, if only a keep-alive.
SILENCE_S = 40.0
UNAVAILABLE_STATUSES = (502, 503, 504)
RATE_LIMITED = "rate_limited"
# An operator paused intake: retrying at once is useless.
PAUSED = "submissions_paused"
# Form fields that are sent beside a problem's files: its settings, and why it may be published.
Fields = Mapping[str, str | Sequence[str]]
T = TypeVar("T", bound=msgspec.Struct)
T_co = TypeVar("T_co", bound=msgspec.Struct, covariant=True)


@dataclass(frozen=True)
class Response(Generic[T_co]):
    """A response of the API: decoded, and its body as it came."""

    value: T_co
    body: bytes

    @property
    def document(self) -> Any:
        """The JSON document as it came, with fields that this version does not know."""
        return msgspec.json.decode(self.body)


class Unavailable(Failed):
    """The platform does not answer; the request may be repeated, after `wait_s` if given."""

    def __init__(self, reason: str, wait_s: float | None = None) -> None:
        super().__init__(reason)
        self.wait_s = wait_s


class StreamMessage(NamedTuple):
    """A message of a submission's stream; transient notices have no place in the history."""

    place: int | None
    kind: str
    data: JsonObject


class Caller(NamedTuple):
    """Who sends requests: the owner of a token, or a participant whom a local platform believes.

    `operator` is recorded as the actor if the token is the platform's own.
    """

    participant: str | None = None
    token: str | None = None
    operator: str | None = None

    @property
    def headers(self) -> dict[str, str]:
        """The headers that identify the caller."""
        headers = {
            "Authorization": f"Bearer {self.token}" if self.token else None,
            "Warpboard-Operator": self.operator,
            "Warpboard-Participant": None if self.token else self.participant,
        }
        return {name: value for name, value in headers.items() if value is not None}


class Api:
    """The API as one caller; `url` is the platform's and appears in messages.

    Every method raises Refused, Failed, and Unavailable if the platform does not answer.
    """

    def __init__(self, client: "httpx.AsyncClient", url: str) -> None:
        self._client = client
        self._url = url

    async def get(
        self, expected_type: type[T], /, *path: str | int, **query: str | float | None
    ) -> Response[T]:
        """Read a resource under /v1; parts of the query that are None are left out."""
        params = {name: value for name, value in query.items() if value is not None}
        return await self._request(expected_type, "GET", _under_v1(path), params=params)

    async def act(
        self, expected_type: type[T], method: str, *path: str | int, body: Mapping[str, object]
    ) -> Response[T]:
        """Send a request with a JSON body under /v1."""
        return await self._request(expected_type, method, _under_v1(path), json=body)

    async def join(self, code: str) -> Response[LeaderboardMembership]:
        """Accept an invite and return its leaderboards."""
        return await self._request(LeaderboardMembership, "POST", "/user/join", json={"code": code})

    async def history(self, number: int) -> list[JsonObject]:
        """Return the events of a submission so far, in order."""
        path = f"/v1/submissions/{number}/events"
        response = await self._send("GET", path, headers={"Accept": "application/json"})
        events = _decode_body(response)
        if not isinstance(events, list):
            raise Failed(f"{self._url} sent no list of events")
        return list(events)

    async def events(self, number: int, after: int) -> AsyncIterator[StreamMessage]:
        """Yield the events of a submission as they happen, after a place in its history (0: all).

        Raises Unavailable when the connection is cut.
        """
        import httpx
        from httpx_sse import EventSource

        headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": str(after)} if after else {})
        timeout = httpx.Timeout(SILENCE_S, connect=CONNECT_S)
        path = f"/v1/submissions/{number}/events"
        with self._translate_errors():
            async with self._client.stream(
                "GET", path, headers=headers, timeout=timeout
            ) as response:
                await self._check(response)
                async for event in EventSource(response).aiter_sse():
                    yield _parse_event(event.event, event.data)

    async def file(self, *path: str | int, **query: Sequence[str]) -> bytes:
        """Return a small file under /v1."""
        return (await self._send("GET", _under_v1(path), params=query)).content

    async def submit(self, request: SubmissionRequest, key: str) -> Response[SubmissionReceipts]:
        """Send a submission and return its receipts; a key never makes a second one."""
        return await self._request(
            SubmissionReceipts,
            "POST",
            "/v1/submissions",
            data=request.form,
            files={"file": (request.name, request.source)},
            headers={"Idempotency-Key": key},
        )

    async def publish(
        self, slug: str, files: Mapping[str, bytes], fields: Fields
    ) -> Response[PublishedVersion]:
        """Publish a problem and return its newest version."""
        return await self._request(
            PublishedVersion,
            "POST",
            "/v1/problems",
            data={name: text for name, text in {"slug": slug, **fields}.items() if text},
            files=[("files", (name, data)) for name, data in files.items()],
        )

    async def download(self, number: int, name: str) -> AsyncIterator[bytes]:
        """Yield a file of a submission in pieces."""
        path = f"/v1/submissions/{number}/files/{quote(name, safe='')}"
        with self._translate_errors():
            async with self._client.stream("GET", path) as response:
                await self._check(response)
                async for piece in response.aiter_raw():
                    yield piece

    async def _request(
        self, expected_type: type[T], method: str, path: str, **sent: Any
    ) -> Response[T]:
        response = await self._send(method, path, **sent)
        try:
            value = msgspec.json.decode(response.content, type=expected_type)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise Failed(
                f"{self._url} answered {response.status_code}, but not with a "
                f"{expected_type.__name__}: {error}"
            ) from error
        return Response(value, response.content)

    async def _send(self, method: str, path: str, **sent: Any) -> "httpx.Response":
        with self._translate_errors():
            response = await self._client.request(method, path, **sent)
        await self._check(response)
        return response

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        import httpx

        try:
            yield
        except httpx.TransportError as error:
            text = str(error) or type(error).__name__
            if isinstance(error, httpx.ConnectError):
                text += "; start a platform here by `warpboard up`, or set WARPBOARD_URL"
            raise Unavailable(f"no answer from {self._url}: {text}") from error

    async def _check(self, response: "httpx.Response") -> None:
        if response.is_success:
            return
        await response.aread()
        body = _decode_body(response)
        body = body if isinstance(body, dict) else {}
        detail = str(body.get("detail") or f"HTTP status {response.status_code}")
        code = str(body.get("code") or body.get("error") or "refused")
        retry_after = response.headers.get("Retry-After", "")
        wait_s = float(retry_after) if retry_after.isdecimal() else None
        if code == RATE_LIMITED:
            raise Unavailable(f"{self._url}: {detail}", wait_s)
        if response.is_client_error or code == PAUSED:
            raise Refused(code, detail, _error_field(body), wait_s)
        if response.status_code in UNAVAILABLE_STATUSES:
            raise Unavailable(f"{self._url} is not ready: {detail}", wait_s)
        raise Failed(f"{self._url} answered {response.status_code}: {detail}")


def _under_v1(path: Sequence[str | int]) -> str:
    return "/v1/" + "/".join(quote(str(part), safe="") for part in path)


def _decode_body(response: "httpx.Response") -> Any:
    try:
        return response.json()
    except ValueError:
        return None


def _parse_event(kind: str, data: str) -> StreamMessage:
    try:
        content = json.loads(data) if data else {}
    except ValueError as error:
        raise Failed(f"the platform's stream sent {data[:80]!r}: expected a JSON event") from error
    if not isinstance(content, dict):
        content = {}
    place = content.get("id")
    return StreamMessage(place if isinstance(place, int) else None, kind, content)


def _error_field(body: JsonObject) -> str | None:
    errors = body.get("errors")
    if isinstance(errors, list) and errors and isinstance(errors[0], dict):
        return str(errors[0].get("field") or "") or None
    return None


@asynccontextmanager
async def open_api(url: str, caller: Caller) -> AsyncIterator[Api]:
    """Connect to the API at a URL. Connecting takes at most 3 s, an answer 35 s."""
    import httpx

    timeout = httpx.Timeout(ANSWER_S, connect=CONNECT_S)
    # A proxy named in the environment must not be used for 127.0.0.1.
    async with httpx.AsyncClient(
        base_url=url, headers=caller.headers, timeout=timeout, trust_env=False
    ) as client:
        yield Api(client, url)
