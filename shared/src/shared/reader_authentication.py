"""Authenticates ingest to ranker: only a request with the shared key may say who reads."""

import secrets

from starlette.types import ASGIApp, Receive, Scope, Send

from shared.errors import Refused
from shared.reader import HEADER

KEY_HEADER = "Warpboard-Reader-Key"
KEY_LENGTH_MIN = 16
INTERNAL = "/internal/"


def check_key(key: str, setting: str) -> None:
    """Check a key. Errors: Refused, if no header can carry it or it is easily guessed."""
    is_sendable = key.isascii() and key.isprintable() and " " not in key
    if not is_sendable or len(key) < KEY_LENGTH_MIN:
        what = f"{setting} is no key: expected at least {KEY_LENGTH_MIN} visible ASCII characters"
        raise Refused("bad_settings", what, "reader_key")


class ReaderAuthentication:
    """Lets an application believe who reads, and reach /internal/, only with the key.

    Without it a request is anybody's, whatever it says.
    """

    def __init__(self, app: ASGIApp, key: str) -> None:
        self._app = app
        self._key = key.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, without the reader that only ingest may name."""
        if scope["type"] == "http" and not self._is_ingest(scope):
            name = HEADER.lower().encode()
            headers = [pair for pair in scope["headers"] if pair[0].lower() != name]
            scope = {**scope, "headers": headers}
            if scope["path"].startswith(INTERNAL):
                await send({"type": "http.response.start", "status": 404, "headers": []})
                await send({"type": "http.response.body", "body": b""})
                return
        await self._app(scope, receive, send)

    def _is_ingest(self, scope: Scope) -> bool:
        name = KEY_HEADER.lower().encode()
        shown = [value for header, value in scope["headers"] if header.lower() == name]
        return len(shown) == 1 and secrets.compare_digest(shown[0], self._key)
