"""The identity of a reader, passed from ingest to ranker in the header Warpboard-Reader.

Only requests with the key that both share may name a reader.
"""

import hmac

import msgspec
from starlette.types import ASGIApp, Receive, Scope, Send

from shared.errors import Refused

READER_HEADER = "Warpboard-Reader"
HEADER_LENGTH_MAX = 64 * 1024


class Reader(msgspec.Struct, frozen=True, kw_only=True):
    """Who reads; by default nobody, who can see public data only.

    `boards` are the closed leaderboards they can see, `owned` the problems they are the author of.
    `problems` are those in which their own data is treated as theirs, since their token may be
    limited; None means no limit.
    """

    account: str | None = None
    is_staff: bool = False
    boards: list[str] = []
    problems: list[str] = []
    owned: list[str] = []


ANONYMOUS_READER = Reader()
_DECODER = msgspec.json.Decoder(Reader)


def encode_reader(reader: Reader) -> str:
    """Encode a reader as a header value.

    >>> encode_reader(Reader(account="a-1"))
    '{"account":"a-1","is_staff":false,"boards":[],"problems":[],"owned":[]}'
    """
    text = msgspec.json.encode(reader).decode()
    assert text.isascii(), "accounts and slugs are ASCII"
    return text


def decode_reader(text: str | None) -> Reader:
    """Decode a header; nobody if it is missing or invalid.

    >>> decode_reader("{") == decode_reader(None) == Reader()
    True
    """
    if not text or len(text) > HEADER_LENGTH_MAX:
        return ANONYMOUS_READER
    try:
        return _DECODER.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return ANONYMOUS_READER


KEY_HEADER = "Warpboard-Reader-Key"
KEY_LENGTH_MIN = 16
INTERNAL_PATH = "/internal/"


def check_key(key: str, setting: str) -> None:
    """Check a key. Errors: Refused if a header cannot carry it or it is easy to guess."""
    is_sendable = key.isascii() and key.isprintable() and " " not in key
    if not is_sendable or len(key) < KEY_LENGTH_MIN:
        reason = (
            f"{setting} is invalid: expected at least {KEY_LENGTH_MIN} visible ASCII characters"
        )
        raise Refused("bad_settings", reason, "reader_key")


class ReaderAuthentication:
    """Lets requests name a reader, and reach /internal/, only with the key.

    A request without it reads as nobody, whatever its headers say.
    """

    def __init__(self, app: ASGIApp, key: str) -> None:
        self._app = app
        self._key = key.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, without the reader unless it comes from ingest."""
        if scope["type"] == "http" and not self._is_ingest(scope):
            name = READER_HEADER.lower().encode()
            headers = [pair for pair in scope["headers"] if pair[0].lower() != name]
            scope = {**scope, "headers": headers}
            if scope["path"].startswith(INTERNAL_PATH):
                await send({"type": "http.response.start", "status": 404, "headers": []})
                await send({"type": "http.response.body", "body": b""})
                return
        await self._app(scope, receive, send)

    def _is_ingest(self, scope: Scope) -> bool:
        name = KEY_HEADER.lower().encode()
        keys = [value for header, value in scope["headers"] if header.lower() == name]
        return len(keys) == 1 and hmac.compare_digest(keys[0], self._key)
