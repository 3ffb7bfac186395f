"""The platform's public HTTP API, as one participant asks it."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple
from urllib.parse import quote

import httpx

from shared.errors import Failed, Refused
from shared.problems.languages import MEDIA, suffix
from warpboard.domain.answers import Answer
from warpboard.service.ports import Unavailable, Wish

CONNECT_S = 3.0
ANSWER_S = 35.0
AWAY = (502, 503, 504)
# An operator said no: asking again at once is of no use.
PAUSED = "submissions_paused"


class Operator(NamedTuple):
    """Who acts for the platform, and the token that opens its door."""

    name: str
    token: str


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

    async def submit(self, wish: Wish, key: str) -> Answer:
        """The receipts of a submission. Errors: as get."""
        return await self._ask(
            "POST",
            "/v1/submissions",
            data={"problem": wish.problem, "mode": wish.mode, "gpu": list(wish.gpus)},
            files={"file": (wish.name, wish.source, MEDIA[suffix(wish.name)])},
            headers={"Idempotency-Key": key},
        )

    async def publish(self, slug: str, files: Mapping[str, bytes]) -> Answer:
        """The problem's newest version. Errors: as get."""
        return await self._ask(
            "POST",
            "/v1/problems",
            data={"slug": slug},
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
        try:
            response = await self._client.request(method, path, **sent)
        except httpx.TransportError as error:
            raise self._away(error) from error
        return self._answer(response)

    def _away(self, error: httpx.TransportError) -> Unavailable:
        return Unavailable(f"no answer from {self._url}: {str(error) or type(error).__name__}")

    def _answer(self, response: httpx.Response) -> Answer:
        body = _json(response)
        detail = str(body.get("detail") or f"HTTP status {response.status_code}")
        is_no = response.is_client_error or body.get("code") == PAUSED
        if is_no:
            raise Refused(str(body.get("code", "refused")), detail, _field(body))
        if response.status_code in AWAY:
            raise Unavailable(f"{self._url} is not ready: {detail}")
        if not response.is_success or not body:
            raise Failed(f"{self._url} answered {response.status_code}: {detail}")
        return body


def _under_v1(path: Sequence[str | int]) -> str:
    return "/v1/" + "/".join(quote(str(part), safe="") for part in path)


def _json(response: httpx.Response) -> Answer:
    try:
        body = response.json()
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}


def _field(body: Answer) -> str | None:
    errors = body.get("errors")
    if isinstance(errors, list) and errors and isinstance(errors[0], dict):
        return str(errors[0].get("field") or "") or None
    return None


@asynccontextmanager
async def connected(
    url: str, participant: str, operator: Operator | None = None
) -> AsyncIterator[HttpApi]:
    """The API at a URL, as a participant, or as an operator who is one.

    Connecting takes at most 3 s, an answer 35 s.
    """
    headers = {"Warpboard-Participant": participant}
    if operator is not None:
        headers |= {
            "Authorization": f"Bearer {operator.token}",
            "Warpboard-Operator": operator.name,
        }
    timeout = httpx.Timeout(ANSWER_S, connect=CONNECT_S)
    # A proxy for the outside, named in the environment, must not catch 127.0.0.1.
    async with httpx.AsyncClient(
        base_url=url, headers=headers, timeout=timeout, trust_env=False
    ) as client:
        yield HttpApi(client, url)
