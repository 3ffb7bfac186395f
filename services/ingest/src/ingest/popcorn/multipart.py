"""The client's uploads: multipart whose parts have no Content-Type, and names in RFC 5987.

Read by hand, for the usual reader drops `filename*`, which the client sends for every name beyond
plain ASCII, and then takes the file for a text.
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
    """A file as it came, and the texts beside it."""

    name: str
    data: bytes
    texts: dict[str, str]


@dataclass
class _Part:
    headers: dict[bytes, bytes] = field(default_factory=dict)
    data: bytearray = field(default_factory=bytearray)


async def upload(request: Request) -> Upload:
    """The part `file` of a request and its texts. Errors: Refused, with what is wrong."""
    _, options = parse_options_header(request.headers.get("content-type", ""))
    boundary = options.get(b"boundary")
    body = await _body(request.stream())
    if not boundary:
        raise _bad("send multipart/form-data with a boundary and one part named file")
    file: tuple[str, bytes] | None = None
    texts = {}
    for part in _parts(body, boundary):
        disposition = part.headers.get(b"content-disposition", b"").decode("utf-8", "replace")
        name, filename = _names(disposition)
        if name == "file" and file is None:
            file = filename or "submission.py", bytes(part.data)
        elif filename is None:
            texts[name] = part.data.decode("utf-8", "replace")
    if file is None:
        raise _bad("there is no part named file: the source goes there")
    return Upload(file[0], file[1], texts)


async def _body(pieces: AsyncIterator[bytes]) -> bytes:
    """All of a body; one that is too large is heard to its end, or its sender hears nothing."""
    kept, size = bytearray(), 0
    async for piece in pieces:
        size += len(piece)
        if size <= REQUEST_BYTES_MAX:
            kept += piece
    if size > REQUEST_BYTES_MAX:
        what = f"the request has {size:,} bytes: at most {REQUEST_BYTES_MAX:,} are taken"
        raise Refused("file_too_large", what, "file")
    return bytes(kept)


def _parts(body: bytes, boundary: bytes) -> list[_Part]:
    found: list[_Part] = []
    header: list[bytearray] = [bytearray(), bytearray()]

    def begin() -> None:
        if len(found) >= PARTS_MAX:
            raise _bad(f"there are more than {PARTS_MAX} parts")
        found.append(_Part())

    def end_header() -> None:
        found[-1].headers[bytes(header[0]).lower()] = bytes(header[1])
        header[0], header[1] = bytearray(), bytearray()

    try:
        parser = MultipartParser(
            boundary,
            {
                "on_part_begin": begin,
                "on_header_field": lambda data, start, end: header[0].extend(data[start:end]),
                "on_header_value": lambda data, start, end: header[1].extend(data[start:end]),
                "on_header_end": end_header,
                "on_part_data": lambda data, start, end: found[-1].data.extend(data[start:end]),
            },
        )
        parser.write(body)
        parser.finalize()
    except FormParserError as error:
        raise _bad(f"the multipart body cannot be read: {error}") from error
    return found


def _names(disposition: str) -> tuple[str, str | None]:
    """A part's name and its file's name; what RFC 5987 says comes first.

    >>> _names("form-data; name=\\"file\\"; filename*=utf-8''n%C3%A4me.py")
    ('file', 'n\\xe4me.py')
    >>> _names('form-data; name="leaderboard"')
    ('leaderboard', None)
    """
    _, options = parse_options_header(disposition.encode("utf-8"))
    name = options.get(b"name", b"").decode("utf-8", "replace")
    if match := _EXTENDED.search(disposition):
        is_latin = match[1].lower() == "iso-8859-1"
        data = unquote_to_bytes(match[2])
        return name, data.decode("latin-1" if is_latin else "utf-8", "replace")[:NAME_LENGTH_MAX]
    given = options.get(b"filename")
    if given is None:
        return name, None
    return name, given.decode("utf-8", "replace")[:NAME_LENGTH_MAX]


def _bad(what: str) -> Refused:
    return Refused("bad_upload", what, "file")
