"""A client of the platform's HTTP API, which the command line and the Discord bot share.

httpx is imported when a client is opened: loading it takes about as long as everything else of the
command line.
"""

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import quote

import msgspec

from shared.api.fields import JsonObject
from shared.errors import Failed, Refused

if TYPE_CHECKING:
    import httpx

CONNECT_S = 3.0
ANSWER_S = 35.0
# A stream sends something every 15 s, if only a keep-alive.
SILENCE_S = 40.0
UNAVAILABLE_STATUSES = (502, 503, 504)
# An operator paused the intake: an answer with a status of failures, but a decision.
PAUSED = "submissions_paused"
T = TypeVar("T")


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


def v1_path(*parts: str | int) -> str:
    """Join and escape the parts of a path, which users may have typed. Raises Refused.

    >>> v1_path("leaderboards", "a/b", "CPU")
    '/v1/leaderboards/a%2Fb/CPU'
    """
    for part in parts:
        # An HTTP client would resolve these to another path.
        if part in ("", ".", ".."):
            raise Refused("invalid_request", f"{part!r} is not a name")
    return "/v1/" + "/".join(quote(str(part), safe="") for part in parts)


class ApiClient:
    """The API over an HTTP client.

    Every method raises Refused, Failed, and Unavailable if the platform does not answer.
    """

    client: "httpx.AsyncClient"
    # What to do if nothing listens at the address.
    connect_hint = ""

    @property
    def url(self) -> str:
        """The platform's address, as messages name it."""
        return str(self.client.base_url).rstrip("/")

    def request_headers(self, method: str) -> dict[str, str]:
        """Return the headers of a request beside those of the HTTP client."""
        del method
        return {}

    async def send(
        self, method: str, path: str, headers: Mapping[str, str] | None = None, **sent: Any
    ) -> "httpx.Response":
        """Send a request and return a response of success."""
        all_headers = self.request_headers(method) | dict(headers or {})
        with self._translate_errors():
            response = await self.client.request(method, path, headers=all_headers, **sent)
        await self._check(response)
        return response

    @asynccontextmanager
    async def stream(
        self, path: str, headers: Mapping[str, str] | None = None, silence_s: float = ANSWER_S
    ) -> AsyncIterator["httpx.Response"]:
        """Read a response piece by piece."""
        import httpx

        timeout = httpx.Timeout(silence_s, connect=CONNECT_S)
        all_headers = self.request_headers("GET") | dict(headers or {})
        with self._translate_errors():
            async with self.client.stream(
                "GET", path, headers=all_headers, timeout=timeout
            ) as response:
                await self._check(response)
                yield response

    async def events(self, number: int, after: int) -> AsyncIterator[StreamMessage]:
        """Yield the events of a submission as they happen, after a place in its history (0: all).

        Raises Unavailable when the connection is cut.
        """
        from httpx_sse import EventSource

        headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": str(after)} if after else {})
        path = f"/v1/submissions/{number}/events"
        async with self.stream(path, headers, SILENCE_S) as response:
            async for event in EventSource(response).aiter_sse():
                yield _parse_event(event.event, event.data)

    def decode(self, response: "httpx.Response", expected_type: type[T]) -> T:
        """Return the body of a response as its type."""
        try:
            return msgspec.json.decode(response.content, type=expected_type)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise Failed(
                f"{self.url} answered {response.status_code}, but not with a "
                f"{expected_type.__name__}: {error}"
            ) from error

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        import httpx

        try:
            yield
        except httpx.TransportError as error:
            text = str(error) or type(error).__name__
            if isinstance(error, httpx.ConnectError):
                text += self.connect_hint
            raise Unavailable(f"no answer from {self.url}: {text}") from error

    async def _check(self, response: "httpx.Response") -> None:
        if not response.is_success:
            await response.aread()
            raise self.describe_error(response)

    def describe_error(self, response: "httpx.Response") -> Refused | Failed:
        """Return the error that a response is."""
        try:
            body = response.json()
        except ValueError:
            body = None
        body = body if isinstance(body, dict) else {}
        detail = str(body.get("detail") or f"HTTP status {response.status_code}")
        code = str(body.get("code") or body.get("error") or "refused")
        retry_after = response.headers.get("Retry-After", "")
        wait_s = float(retry_after) if retry_after.isdecimal() else None
        if response.is_client_error or code == PAUSED:
            return Refused(code, detail, _error_field(body), wait_s)
        if response.status_code in UNAVAILABLE_STATUSES:
            return Unavailable(f"{self.url} is not ready: {detail}", wait_s)
        return Failed(f"{self.url} answered {response.status_code}: {detail}")


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
async def open_http_client(
    url: str, headers: Mapping[str, str], **options: Any
) -> AsyncIterator["httpx.AsyncClient"]:
    """Open an HTTP client of a platform. Connecting takes at most 3 s, an answer 35 s."""
    import httpx

    timeout = httpx.Timeout(ANSWER_S, connect=CONNECT_S)
    if url.startswith("https:"):
        # Of the environment only SSL_CERT_FILE and SSL_CERT_DIR, for a CA of the operator's own.
        options = {"verify": httpx.create_ssl_context()} | options
    # A proxy named in the environment must not be used for 127.0.0.1.
    async with httpx.AsyncClient(
        base_url=url, headers=headers, timeout=timeout, trust_env=False, **options
    ) as client:
        yield client
