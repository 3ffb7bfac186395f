"""A client of the platform's public HTTP API."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import msgspec

from shared.api.evaluations import Evaluation, EvaluationRequest, EvaluationResult
from shared.api.fields import JsonObject
from shared.api.leaderboards import LeaderboardMembership
from shared.api.problems import ProblemCheck, PublishedVersion
from shared.api.submissions import SubmissionReceipts, SubmissionRequest
from shared.api_client import SILENCE_S, ApiClient, Unavailable, open_http_client, v1_path
from shared.errors import Failed, Refused

if TYPE_CHECKING:  # Loading it takes about as long as everything else.
    import httpx

RATE_LIMITED = "rate_limited"
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


class Api(ApiClient):
    """The API as one caller."""

    connect_hint = "; start a platform here by `warpboard up`, or set WARPBOARD_URL"

    def __init__(self, client: "httpx.AsyncClient") -> None:
        self.client = client

    async def get(
        self, expected_type: type[T], /, *path: str | int, **query: str | float | None
    ) -> Response[T]:
        """Read a resource under /v1; parts of the query that are None are left out."""
        params = {name: value for name, value in query.items() if value is not None}
        return await self._request(expected_type, "GET", v1_path(*path), params=params)

    async def act(
        self, expected_type: type[T], method: str, *path: str | int, body: Mapping[str, object]
    ) -> Response[T]:
        """Send a request with a JSON body under /v1."""
        return await self._request(expected_type, method, v1_path(*path), json=body)

    async def join(self, code: str) -> Response[LeaderboardMembership]:
        """Accept an invite and return its leaderboards."""
        return await self._request(LeaderboardMembership, "POST", "/user/join", json={"code": code})

    async def history(self, number: int) -> list[JsonObject]:
        """Return the events of a submission so far, in order."""
        path = f"/v1/submissions/{number}/events"
        response = await self.send("GET", path, headers={"Accept": "application/json"})
        return self.decode(response, list[JsonObject])

    async def file(self, *path: str | int, **query: Sequence[str]) -> bytes:
        """Return a small file under /v1."""
        return (await self.send("GET", v1_path(*path), params=query)).content

    async def submit(self, request: SubmissionRequest, key: str) -> Response[SubmissionReceipts]:
        """Send a submission and return its receipts; a key never makes a second one."""
        return await self._request(
            SubmissionReceipts,
            "POST",
            "/v1/submissions",
            data=request.form,
            files=request.uploads,
            headers={"Idempotency-Key": key},
        )

    async def request_evaluation(
        self, request: EvaluationRequest, key: str
    ) -> Response[Evaluation]:
        """Ask for an evaluation of many sources; a key never makes a second one."""
        return await self._request(
            Evaluation,
            "POST",
            "/v1/evaluations",
            json=msgspec.to_builtins(request),
            headers={"Idempotency-Key": key},
        )

    async def evaluation_results(
        self, id_: str, after: int, *, wait: bool = True
    ) -> AsyncIterator[EvaluationResult]:
        """Yield the results of an evaluation after so many, with `wait` those to come, too.

        Raises Unavailable when the connection is cut.
        """
        path = f"{v1_path('evaluations', id_, 'results')}?after={after}&wait={str(wait).lower()}"
        async with self.stream(path, silence_s=SILENCE_S) as response:
            async for line in response.aiter_lines():
                if line.strip():
                    yield _decode_result(self.url, line)

    async def submit_item(
        self, id_: str, item: str, mode: str, key: str
    ) -> Response[SubmissionReceipts]:
        """Submit an item of an evaluation, or its `best`; a key never makes a second one."""
        return await self._request(
            SubmissionReceipts,
            "POST",
            v1_path("evaluations", id_, "items", item, "submit"),
            json={"mode": mode},
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

    async def request_check(
        self, slug: str, files: Mapping[str, bytes], gpus: Sequence[str]
    ) -> Response[ProblemCheck]:
        """Ask for a check of a problem on an agent; the same files get the same check."""
        return await self._request(
            ProblemCheck,
            "POST",
            "/v1/checks",
            data={"slug": slug, "gpu": list(gpus)},
            files=[("files", (name, data)) for name, data in files.items()],
        )

    async def download(self, number: int, name: str) -> AsyncIterator[bytes]:
        """Yield a file of a submission in pieces."""
        async with self.stream(v1_path("submissions", number, "files", name)) as response:
            async for piece in response.aiter_raw():
                yield piece

    def describe_error(self, response: "httpx.Response") -> Refused | Failed:
        """Return the error that a response is; a rate limit only asks for patience."""
        error = super().describe_error(response)
        if isinstance(error, Refused) and error.code == RATE_LIMITED:
            return Unavailable(f"{self.url}: {error.reason}", error.retry_after_s)
        return error

    async def _request(
        self, expected_type: type[T], method: str, path: str, **sent: Any
    ) -> Response[T]:
        response = await self.send(method, path, **sent)
        return Response(self.decode(response, expected_type), response.content)


def _decode_result(url: str, line: str) -> EvaluationResult:
    try:
        return msgspec.json.decode(line, type=EvaluationResult)
    except msgspec.MsgspecError as error:
        raise Failed(f"{url} sent a line that is no result: {error}") from error


@asynccontextmanager
async def open_api(url: str, caller: Caller) -> AsyncIterator[Api]:
    """Connect to the API at a URL."""
    async with open_http_client(url, caller.headers) as client:
        yield Api(client)
