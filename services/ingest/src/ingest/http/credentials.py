"""What a request shows of who sends it, as it came."""

from typing import NamedTuple

from fastapi import Request

from shared.errors import Refused

SCHEME = "bearer"
# What a client sends that has nothing to send.
NOTHING = ("", "None")


class Shown(NamedTuple):
    """A credential as it came; `header` is where."""

    header: str
    secret: str


def bearer(request: Request) -> Shown | None:
    """The token of `Authorization`. Errors: Refused `conflicting_credentials` for two."""
    scheme, _, given = only(request, "authorization").partition(" ")
    return shown("Authorization", given) if scheme.lower() == SCHEME else None


def only(request: Request, header: str) -> str:
    """A header that says who asks, "" if it is not there. Errors: Refused if it comes twice."""
    given = set(request.headers.getlist(header))
    if len(given) > 1:
        raise Refused("conflicting_credentials", f"{header} came twice: send one", header)
    return given.pop() if given else ""


def shown(header: str, text: str) -> Shown | None:
    """A credential, None for a header with nothing in it."""
    secret = text.strip()
    return None if secret in NOTHING else Shown(header, secret)
