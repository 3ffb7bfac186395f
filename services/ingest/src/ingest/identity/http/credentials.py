"""The credentials that a request brings."""

import hmac
from typing import NamedTuple

from fastapi import Request

from shared.errors import Refused

CSRF = "X-CSRF-Token"
PARTICIPANT_HEADER = "Warpboard-Participant"
OPERATOR_HEADER = "Warpboard-Operator"
CLI_ID_HEADERS = ("X-Popcorn-Cli-Id", "X-Web-Auth-Id")
USER_HEADER = "Warpboard-Discord-User"
NAME_HEADER = "Warpboard-Discord-Name"
ROLES_HEADER = "Warpboard-Discord-Roles"
CREDENTIAL_HEADERS = ("Authorization", *CLI_ID_HEADERS, PARTICIPANT_HEADER)
# What clients send that have no credential.
EMPTY_CREDENTIALS = ("", "None")


class Credential(NamedTuple):
    """A credential as it arrived; `header` names its source."""

    header: str
    secret: str


def single_header(request: Request, header: str) -> str:
    """Return a header with a credential, "" without one. Raises `Refused` if it is repeated."""
    values = set(request.headers.getlist(header))
    if len(values) > 1:
        raise Refused("conflicting_credentials", f"{header} was sent twice: send it once", header)
    return values.pop() if values else ""


def parse_credential(header: str, text: str) -> Credential | None:
    """Return a credential, None for an empty header."""
    secret = text.strip()
    return None if secret in EMPTY_CREDENTIALS else Credential(header, secret)


def bearer_credential(request: Request) -> Credential | None:
    """Return the token of `Authorization`. Raises `Refused` (`conflicting_credentials`) for two."""
    scheme, _, text = single_header(request, "authorization").partition(" ")
    return parse_credential("Authorization", text) if scheme.lower() == "bearer" else None


def is_secret(credential: Credential, secret: str) -> bool:
    """Return whether a credential is this secret; an empty one lets nobody in."""
    # Headers are bytes, which starlette decodes as Latin-1.
    sent = credential.secret.encode("latin-1")
    return bool(secret) and hmac.compare_digest(sent, secret.encode())


def header_credential(request: Request, header: str) -> Credential | None:
    """Return the credential of a header, None without one. Raises `Refused` if it is repeated."""
    return parse_credential(header, single_header(request, header.lower()))
