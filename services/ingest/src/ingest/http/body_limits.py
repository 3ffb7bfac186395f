"""How long the body of a request may be, decided by its head, before a byte of it is read."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from fastapi import Request
from fastapi.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from ingest.http.who import Gate
from shared.errors import Failed, Refused
from shared.http import announced_bytes, limit_body, refusal, refuse_large_body, unavailable

KIB = 1024
# Without a credential one may log in.
ANONYMOUS_BYTES_MAX = 16 * KIB
# An appeal of 10,000 characters, of which JSON may escape each in 12 bytes.
JSON_BYTES_MAX = 128 * KIB
SUBMISSION_BYTES_MAX = 4 * KIB * KIB
PROBLEM_BYTES_MAX = 16 * KIB * KIB


class Upload(NamedTuple):
    """Paths that take files, always with a credential."""

    path: re.Pattern[str]
    bytes_max: int


UPLOADS: Sequence[Upload] = (
    Upload(re.compile(r"/v1/problems/?"), PROBLEM_BYTES_MAX),
    Upload(re.compile(r"/v1/submissions/?"), SUBMISSION_BYTES_MAX),
    Upload(re.compile(r"/profile|(/admin)?/submission(/[^/]+){3}"), SUBMISSION_BYTES_MAX),
    # The public client's way to submit, by its own names of modes.
    Upload(
        re.compile(r"/(?!v1/)[^/]+/[^/]+/(test|benchmark|leaderboard|profile)", re.IGNORECASE),
        SUBMISSION_BYTES_MAX,
    ),
)
METHODS = ("POST", "PUT", "PATCH", "DELETE")


class BodyLimits:
    """Refuses bodies that are too long for their route, and those of clients it does not know.

    The rest of a refused body is thrown away as it comes, so that the client can read the answer.
    """

    def __init__(self, app: ASGIApp, gate: Gate) -> None:
        self.app = app
        self._gate = gate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it; Source: the ASGI specification."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        upload = next((one for one in UPLOADS if one.path.fullmatch(scope["path"])), None)
        bytes_max = JSON_BYTES_MAX if upload is None else upload.bytes_max
        announced = announced_bytes(scope)
        if (announced or 0) > bytes_max:
            await _send(refuse_large_body(bytes_max), scope, receive, send)
            return
        needs_credential = announced != 0 and scope["method"] in METHODS
        if needs_credential and (upload or announced is None or announced > ANONYMOUS_BYTES_MAX):
            refused = await self._refuse_anonymous(Request(scope))
            if refused is not None and (upload or announced is not None):
                await _send(refused, scope, receive, send)
                return
            if refused is not None:
                bytes_max = ANONYMOUS_BYTES_MAX
        await self.app(scope, limit_body(receive, bytes_max), send)

    async def _refuse_anonymous(self, request: Request) -> JSONResponse | None:
        """Return the answer to a client without a valid credential; None for others."""
        try:
            await self._gate.check_credential(request)
        except Refused as refused:
            return refusal(refused)
        except Failed as failed:
            return unavailable(failed)
        return None


async def _send(answer: JSONResponse, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer before the body came; a client that waits for a `100 Continue` never sends it."""
    if any(name == b"expect" for name, _ in scope["headers"]):
        answer.headers["Connection"] = "close"
    await answer(scope, receive, send)
