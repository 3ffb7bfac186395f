"""The client's uploads: multipart parts without Content-Type, and RFC 5987 file names.

Parsed by hand: the usual parser drops `filename*`, which the client sends for every name that is
not plain ASCII, and then takes the file for a text.
"""

import re
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


async def read_upload(request: Request) -> Upload | Refused:
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


def _parse_upload(content_type: str, body: bytes) -> Upload:
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
    return Upload(*file, texts)


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
