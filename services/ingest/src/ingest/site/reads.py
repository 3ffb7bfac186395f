"""What a page reads from ranker: as its visitor, into the types of the API, within a time limit."""

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, TypeVar
from urllib.parse import quote, urlencode

import msgspec
from fastapi import Request

from ingest.identity.login.service import Session
from ingest.identity.login.web import Web
from ingest.ports import ReadProxy
from shared.errors import Failed, Refused
from shared.reader import ANONYMOUS_READER, Reader

# A page that waits longer says that the leaderboards are unavailable.
READ_S_MAX = 5.0
# The past is folded from the archive.
PAST_READ_S_MAX = 25.0
DAY_LENGTH = len("2026-01-31")
BROKEN, REFUSED = 500, 400
OK, NOT_MODIFIED = 200, 304
T = TypeVar("T")


class _FieldError(msgspec.Struct):
    field: str


class _Refusal(msgspec.Struct):
    code: str
    detail: str
    errors: list[_FieldError] = []


def api_path(*parts: object) -> str:
    """Return a path of the API from its parts.

    >>> api_path("leaderboards", "copy", "RTX 4090")
    '/v1/leaderboards/copy/RTX%204090'
    """
    return "/v1/" + "/".join(quote(str(part), safe="") for part in parts)


def check_response(path: str, status: int, body: bytes) -> bytes:
    """Return the body of a response of the API. Raises `Refused` and `Failed`."""
    if status >= BROKEN:
        raise Failed(f"{path} was answered with {status}")
    if status < REFUSED:
        return body
    try:
        refusal = msgspec.json.decode(body, type=_Refusal)
    except msgspec.DecodeError as error:
        raise Failed(f"{path} was answered with an invalid refusal: {error}") from error
    field = refusal.errors[0].field if refusal.errors else None
    raise Refused(refusal.code, refusal.detail, field)


def decode_response(path: str, body: bytes, response_type: type[T]) -> T:
    """Return the body of a response as its type. Raises `Failed`."""
    try:
        return msgspec.json.decode(body, type=response_type)
    except msgspec.DecodeError as error:
        # During an upgrade, ranker may be of another version.
        raise Failed(f"{path} was answered with an invalid response: {error}") from error


@dataclass(frozen=True)
class PageReads:
    """The read side for one visitor."""

    ranker: ReadProxy
    reader: Reader

    async def read(self, path: str, response_type: type[T], **query: object) -> T:
        """Return a response of the API. Raises `Refused` and `Failed`."""
        return decode_response(path, await self.read_bytes(path, **query), response_type)

    async def read_bytes(self, path: str, **query: object) -> bytes:
        """Return a response as it is, without the parameters that are None.

        Raises `Refused` and `Failed`.
        """
        parameters = {name: value for name, value in query.items() if value is not None}
        response = await self.ranker.read(path, urlencode(parameters), {}, self.reader)
        return check_response(path, response.status, response.body)

    async def read_file(self, path: str, bytes_max: int) -> bytes:
        """Return the beginning of a file. Raises `Failed`, also if the visitor may not read it."""
        data = b""
        async with self.ranker.stream(path, "", {}, self.reader) as stream:
            if stream.status != OK:
                raise Failed(f"the read side answered {path} with {stream.status}")
            async for piece in stream.pieces:
                data += piece
                if len(data) >= bytes_max:
                    break
        return data[:bytes_max]


class Visitor(NamedTuple):
    """Who opens a page, and what they can read."""

    session: Session | None
    reads: PageReads

    @property
    def account(self) -> str | None:
        """The account of the visitor, None if they are not logged in."""
        return self.reads.reader.account


async def find_visitor(request: Request, web: Web, ranker: ReadProxy) -> Visitor:
    """Return the visitor of a page. Raises `Failed`."""
    session = await web.session(request)
    reader = session.caller.reader if session else ANONYMOUS_READER
    return Visitor(session, PageReads(ranker, reader))


def parse_as_of(text: str) -> datetime | None:
    """Return an instant from a form, in UTC; a day means its end. Raises `Refused`.

    >>> parse_as_of("2026-01-31").isoformat(), parse_as_of("2026-01-31T12:30").isoformat()
    ('2026-01-31T23:59:59.999999+00:00', '2026-01-31T12:30:00+00:00')
    """
    if not text:
        return None
    try:
        at = datetime.fromisoformat(text)
        if len(text) == DAY_LENGTH:
            at += timedelta(days=1, microseconds=-1)
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        message = (
            f"as_of: expected a date such as 2026-01-31 or 2026-01-31T12:30, not {text[:40]!r}"
        )
        raise Refused("invalid_request", message, "as_of") from error


def read_s_max(as_of: datetime | None) -> float:
    """Return how long a read of now or of an instant may take."""
    return READ_S_MAX if as_of is None else PAST_READ_S_MAX


async def read_in_time(reading: Awaitable[T], within_s: float = READ_S_MAX) -> T:
    """Return what is read, or raise `Failed` after a while."""
    try:
        async with asyncio.timeout(within_s):
            return await reading
    except TimeoutError as late:
        raise Failed(f"the read side did not answer within {within_s:.0f} s") from late


async def read_if_possible(reading: Awaitable[T]) -> T | None:
    """Return what is read, None if it is refused or fails: the page is useful without it."""
    try:
        return await reading
    except (Refused, Failed):
        return None
