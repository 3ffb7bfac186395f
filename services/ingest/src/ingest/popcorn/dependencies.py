"""What all routes of the client share.

Some requests are described here and parsed by hand, to refuse them with 400. So are uploads: the
usual parser drops `filename*`, which the client sends for every name that is not plain ASCII, and
then takes the file for a text.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote_to_bytes

from fastapi import Request
from pydantic import BaseModel, ConfigDict
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from ingest.bootstrap import Ingest
from ingest.identity.caller import Caller
from ingest.identity.http.authenticator import Authenticator
from ingest.popcorn.read_client import STAFF, ReadClient, retry_while_unavailable
from ingest.reads.limits import DownloadLimiter, StreamLimiter
from shared.api.submissions import NCU_NAME_BASES
from shared.blobs import BlobStore
from shared.clock import now
from shared.errors import Failed, Refused, unknown_submission

# The client sends no reason.
NO_REASON = "by the client's admin command"
NUMBER_MAX = 2**53 - 1
TEXT: Mapping[str, Any] = {"type": "string"}
SOURCE: Mapping[str, Any] = {"type": "string", "format": "binary"}
REQUEST_BYTES_MAX = 1_100_000
PARTS_MAX = 8
NAME_LENGTH_MAX = 1000
_EXTENDED = re.compile(r"""filename\*\s*=\s*"?([A-Za-z0-9-]+)'[^']*'([^;"\s]+)""", re.IGNORECASE)


@dataclass(frozen=True)
class Dependencies:
    """The services, the read side, authentication and blobs.

    Problems come from folders under `problem_roots` and from `repositories`, URLs by name;
    `unchecked` says why they are published without a check, "" if they are not.
    """

    ingest: Ingest
    auth: Authenticator
    read_client: ReadClient
    blobs: BlobStore
    is_well: Callable[[], Awaitable[str]]
    profiler_gpu: str = ""
    clock: Callable[[], datetime] = now
    streams: StreamLimiter | None = None
    downloads: DownloadLimiter | None = None
    problem_roots: tuple[Path, ...] = ()
    repositories: Mapping[str, str] = field(default_factory=dict)
    unchecked: str = ""

    async def wait_until_read(self) -> None:
        """Wait briefly until reads show what is in the log, unless the read side does not answer.

        The client expects that a list which follows a change shows it.
        """
        # ranker answers a read of a number once it has folded everything up to it.
        with suppress(Failed):
            await self.read_client.submission(await self.ingest.ports.log.last(), STAFF)


async def leaderboard_gpus(deps: Dependencies, caller: Caller, slug: str) -> list[str]:
    """Return the GPU types of a leaderboard, in order.

    Raises `Refused`: 404, or 401 or 403 for a closed one. A token that is limited to other problems
    may still look at public leaderboards.
    """
    published = await deps.ingest.intake.published(slug)
    viewer = replace(caller, boards=frozenset(caller.reader.boards), problems=frozenset())
    try:
        deps.auth.check_sees(viewer, slug)
    except Refused as refused:
        if refused.code != "no_access":
            raise
        message = (
            f"{slug} is a closed leaderboard: join it with an invite, by `popcorn-cli join CODE`"
        )
        raise Refused(refused.code, message, refused.field) from refused
    return published.gpus


def parse_bounded(
    request: Request, name: str, default: int, low: int, high: int = NUMBER_MAX
) -> int:
    """Return an integer query parameter. Raises `Refused`, naming the bounds."""
    text = request.query_params.get(name)
    if text is None:
        return default
    is_number = text.isascii() and text.isdigit() and len(text) < 16
    if not is_number or not low <= int(text) <= high:
        expected = f"at least {low}" if high == NUMBER_MAX else f"{low} to {high}"
        raise Refused("bad_query", f"{name} must be {expected}, not {text[:20]!r}", name)
    return int(text)


def parse_page(
    request: Request, limit: int, limit_max: int, offset_max: int = NUMBER_MAX
) -> tuple[int, int]:
    """Return the limit and the offset of a page. Raises `Refused`."""
    return (
        parse_bounded(request, "limit", limit, 1, limit_max),
        parse_bounded(request, "offset", 0, 0, offset_max),
    )


def parse_number(text: str) -> int:
    """Return a submission number from a path. Raises `Refused` (`unknown_submission`)."""
    if not (text.isascii() and text.isdigit() and 0 < int(text[:16]) < 10**15):
        raise unknown_submission(repr(text[:40]), "id")
    return int(text)


def own_reader(deps: Dependencies) -> Callable[[Request], Awaitable[Caller]]:
    """Return a dependency: a participant who reads their own submissions.

    It retries while authentication is unavailable: the client never repeats a poll.
    """
    authenticate = deps.auth.participant("read:own")

    async def require_reader(request: Request) -> Caller:
        return await retry_while_unavailable(partial(authenticate, request))

    return require_reader


# The options of ncu that a profile may have, by the names of the client and of RunOptions.
CAPTURE_OPTIONS = ("ncu_kernel_name", "ncu_kernel_name_base", "ncu_launch_count")
_INTEGER: Mapping[str, Any] = {"type": "string", "pattern": "^[0-9]{0,3}$"}
PROFILE_FIELDS: Mapping[str, Any] = {
    "benchmark_index": _INTEGER,
    "ncu_kernel_name": TEXT,
    "ncu_kernel_name_base": {"enum": ["", *NCU_NAME_BASES]},
    "ncu_launch_count": _INTEGER,
}


class PopcornRequest(BaseModel):
    """A request body of the client: strict types, unknown fields ignored."""

    model_config = ConfigDict(extra="ignore", strict=True)


def upload_form(
    required: Mapping[str, Any] | None = None, optional: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Describe a multipart body: a source file and more fields."""
    needed = {"file": SOURCE, **(required or {})}
    form = {"type": "object", "required": [*needed], "properties": {**needed, **(optional or {})}}
    content = {"multipart/form-data": {"schema": form}}
    return {"requestBody": {"required": True, "content": content}}


def integer_parameter(name: str, low: int, high: int = NUMBER_MAX, **more: Any) -> dict[str, Any]:
    """Describe an integer query parameter."""
    schema = {"type": "integer", "minimum": low, "maximum": high, **more}
    return {"name": name, "in": "query", "schema": schema}


def page_parameters(
    limit: int, limit_max: int, offset_max: int = NUMBER_MAX
) -> list[dict[str, Any]]:
    """Describe the parameters of a page of a list."""
    return [
        integer_parameter("limit", 1, limit_max, default=limit),
        integer_parameter("offset", 0, offset_max, default=0),
    ]


class ProfileOptions(NamedTuple):
    """What the client asks of a profile; `benchmark_index` is a timed case, counted from 0."""

    benchmark_index: int | None = None
    ncu_kernel_name: str = ""
    ncu_kernel_name_base: str = ""
    ncu_launch_count: int = 0

    @property
    def request_fields(self) -> dict[str, Any]:
        """Return the fields of our own request, which counts cases from 1."""
        ncu = {name: getattr(self, name) for name in CAPTURE_OPTIONS}
        return {"case": 0 if self.benchmark_index is None else self.benchmark_index + 1, **ncu}

    @property
    def given(self) -> dict[str, str | int]:
        """The options that were given, by the client's names."""
        return {
            name: value
            for name, value in self._asdict().items()
            if value or (value == 0 and name == "benchmark_index")
        }


def parse_profile_options(texts: Mapping[str, str]) -> ProfileOptions:
    """Return the options of a profile from the text fields of a form. Raises `Refused`."""

    def parse_integer(name: str, low: int) -> int | None:
        text = texts.get(name, "")
        if not text:
            return None
        if not (text.isascii() and text.isdigit() and len(text) <= 3 and int(text) >= low):
            raise Refused("bad_query", f"{name} must be {low} to 999, not {text[:20]!r}", name)
        return int(text)

    return ProfileOptions(
        benchmark_index=parse_integer("benchmark_index", 0),
        ncu_kernel_name=texts.get("ncu_kernel_name", ""),
        ncu_kernel_name_base=texts.get("ncu_kernel_name_base", ""),
        ncu_launch_count=parse_integer("ncu_launch_count", 1) or 0,
    )


class UploadedFile(NamedTuple):
    """An uploaded file and the text fields beside it."""

    name: str
    data: bytes
    texts: dict[str, str]


async def read_upload(request: Request) -> UploadedFile | Refused:
    """Return the part `file` of a request and its text fields, or the refusal.

    A client that is refused while it sends sees a broken connection, so everything is read before
    anything else is checked.
    """
    try:
        return _parse_upload(request.headers.get("content-type", ""), await _read_body(request))
    except Refused as refused:
        return refused


async def _read_body(request: Request) -> bytes:
    """Return the body; a large one is read to its end, so that its sender sees the refusal."""
    body, size = bytearray(), 0
    async for piece in request.stream():
        size += len(piece)
        if size <= REQUEST_BYTES_MAX:
            body += piece
    if size > REQUEST_BYTES_MAX:
        message = f"the request has {size:,} bytes: at most {REQUEST_BYTES_MAX:,} are accepted"
        raise Refused("file_too_large", message, "file")
    return bytes(body)


def _parse_upload(content_type: str, body: bytes) -> UploadedFile:
    """Raises `Refused`."""
    _, options = parse_options_header(content_type)
    boundary = options.get(b"boundary")
    if not boundary:
        raise _bad_upload("send multipart/form-data with a boundary and one part named file")
    file: tuple[str, bytes] | None = None
    texts = {}
    for headers, data in _parse_parts(body, boundary):
        disposition = headers.get(b"content-disposition", b"").decode("utf-8", "replace")
        name, filename = _parse_names(disposition)
        if name == "file" and file is None:
            file = filename or "submission.py", bytes(data)
        elif filename is None:
            texts[name] = data.decode("utf-8", "replace")
    if file is None:
        raise _bad_upload("the part named file is missing: send the source in it")
    return UploadedFile(*file, texts)


def _parse_parts(body: bytes, boundary: bytes) -> list[tuple[dict[bytes, bytes], bytearray]]:
    """Return the headers and the data of each part. Raises `Refused`."""
    parts: list[tuple[dict[bytes, bytes], bytearray]] = []
    name, value = bytearray(), bytearray()

    def begin() -> None:
        if len(parts) >= PARTS_MAX:
            raise _bad_upload(f"there are more than {PARTS_MAX} parts")
        parts.append(({}, bytearray()))

    def end_header() -> None:
        parts[-1][0][bytes(name).lower()] = bytes(value)
        name.clear()
        value.clear()

    try:
        parser = MultipartParser(
            boundary,
            {
                "on_part_begin": begin,
                "on_header_field": lambda data, start, end: name.extend(data[start:end]),
                "on_header_value": lambda data, start, end: value.extend(data[start:end]),
                "on_header_end": end_header,
                "on_part_data": lambda data, start, end: parts[-1][1].extend(data[start:end]),
            },
        )
        parser.write(body)
        parser.finalize()
    except FormParserError as error:
        raise _bad_upload(f"the multipart body cannot be read: {error}") from error
    return parts


def _parse_names(disposition: str) -> tuple[str, str | None]:
    """Return a part's name and its file name; RFC 5987 names come first.

    >>> _parse_names("form-data; name=\\"file\\"; filename*=utf-8''n%C3%A4me.py")
    ('file', 'n\\xe4me.py')
    >>> _parse_names('form-data; name="leaderboard"')
    ('leaderboard', None)
    """
    _, options = parse_options_header(disposition.encode("utf-8"))
    name = options.get(b"name", b"").decode("utf-8", "replace")
    if match := _EXTENDED.search(disposition):
        is_latin = match[1].lower() == "iso-8859-1"
        data = unquote_to_bytes(match[2])
        return name, data.decode("latin-1" if is_latin else "utf-8", "replace")[:NAME_LENGTH_MAX]
    plain_name = options.get(b"filename")
    if plain_name is None:
        return name, None
    return name, plain_name.decode("utf-8", "replace")[:NAME_LENGTH_MAX]


def _bad_upload(message: str) -> Refused:
    return Refused("bad_upload", message, "file")
