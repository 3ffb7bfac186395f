"""The client's uploads: multipart parts without Content-Type, and RFC 5987 file names.

Parsed by hand: the usual parser drops `filename*`, which the client sends for every name that is
not plain ASCII, and then takes the file for a text.
"""

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from fastapi import Request
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from shared.errors import Refused

REQUEST_BYTES_MAX = 1_100_000
PARTS_MAX = 8
NAME_LENGTH_MAX = 1000
_EXTENDED = re.compile(r"""filename\*\s*=\s*"?([A-Za-z0-9-]+)'[^']*'([^;"\s]+)""", re.IGNORECASE)


class Upload(NamedTuple):
    """An uploaded file and the text fields beside it."""

    name: str
    data: bytes
    texts: dict[str, str]


@dataclass
class _Part:
    headers: dict[bytes, bytes] = field(default_factory=dict)
    data: bytearray = field(default_factory=bytearray)


async def read_upload(request: Request) -> Upload | Refused:
    """Return the upload of a request, or its refusal.

    A client that is refused while it sends sees a broken connection, so everything is read before
    anything else is checked.
    """
    try:
        return await _read_upload(request)
    except Refused as refused:
        return refused


async def _read_upload(request: Request) -> Upload:
    """Return the part `file` of a request and its text fields. Raises `Refused`."""
    _, options = parse_options_header(request.headers.get("content-type", ""))
    boundary = options.get(b"boundary")
    body = await _read_body(request.stream())
    if not boundary:
        raise _bad_upload("send multipart/form-data with a boundary and one part named file")
    file: tuple[str, bytes] | None = None
    texts = {}
    for part in _parse_parts(body, boundary):
        disposition = part.headers.get(b"content-disposition", b"").decode("utf-8", "replace")
        name, filename = _parse_names(disposition)
        if name == "file" and file is None:
            file = filename or "submission.py", bytes(part.data)
        elif filename is None:
            texts[name] = part.data.decode("utf-8", "replace")
    if file is None:
        raise _bad_upload("the part named file is missing: send the source in it")
    return Upload(file[0], file[1], texts)


async def _read_body(pieces: AsyncIterator[bytes]) -> bytes:
    """Return the body; a large one is read to its end, so that its sender sees the refusal."""
    body, size = bytearray(), 0
    async for piece in pieces:
        size += len(piece)
        if size <= REQUEST_BYTES_MAX:
            body += piece
    if size > REQUEST_BYTES_MAX:
        message = f"the request has {size:,} bytes: at most {REQUEST_BYTES_MAX:,} are accepted"
        raise Refused("file_too_large", message, "file")
    return bytes(body)


def _parse_parts(body: bytes, boundary: bytes) -> list[_Part]:
    parts: list[_Part] = []
    header: list[bytearray] = [bytearray(), bytearray()]

    def begin() -> None:
        if len(parts) >= PARTS_MAX:
            raise _bad_upload(f"there are more than {PARTS_MAX} parts")
        parts.append(_Part())

    def end_header() -> None:
        parts[-1].headers[bytes(header[0]).lower()] = bytes(header[1])
        header[0], header[1] = bytearray(), bytearray()

    try:
        parser = MultipartParser(
            boundary,
            {
                "on_part_begin": begin,
                "on_header_field": lambda data, start, end: header[0].extend(data[start:end]),
                "on_header_value": lambda data, start, end: header[1].extend(data[start:end]),
                "on_header_end": end_header,
                "on_part_data": lambda data, start, end: parts[-1].data.extend(data[start:end]),
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
