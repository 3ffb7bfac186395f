"""The operators' door: a token that opens it, and the name that goes into every event."""

import hmac

from fastapi import Request

from ingest.http.who import checked_name
from shared.errors import Refused

SCHEME = "bearer"


class Door:
    """Lets operators in by their token; without one, nobody."""

    def __init__(self, token: str) -> None:
        self._token = token.encode()

    def __call__(self, request: Request) -> str:
        """The actor of an operator's request. Errors: Refused."""
        if not self._token:
            what = "operators are let in nowhere here: set WARPBOARD_INGEST_OPERATOR_TOKEN"
            raise Refused("operator_access_off", what)
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != SCHEME or not given:
            what = "operators send the header Authorization: Bearer <token>"
            raise Refused("missing_credential", what, "authorization")
        # Headers are bytes, which starlette shows as Latin-1.
        if not hmac.compare_digest(given.strip().encode("latin-1"), self._token):
            raise Refused("invalid_credential", "this is not the operators' token", "authorization")
        name = request.headers.get("warpboard-operator")
        return f"operator:{checked_name(name, 'Warpboard-Operator', 'operator')}"

    def is_tried(self, request: Request) -> bool:
        """Whether a request that others may make too comes as an operator's."""
        return "authorization" in request.headers or "warpboard-operator" in request.headers
