"""Secrets that are drawn here, and what is derived from them."""

import base64
import hashlib
import secrets

from ingest.login.domain import USER_CODE_LENGTH, USER_CODE_LETTERS

BYTES = 32


def drawn() -> str:
    """A new secret of 256 random bits, legal in a header, a cookie and an address."""
    return secrets.token_urlsafe(BYTES)


def drawn_code() -> str:
    """A new user code."""
    return "".join(secrets.choice(USER_CODE_LETTERS) for _ in range(USER_CODE_LENGTH))


def challenge(verifier: str) -> str:
    """What a provider is shown of a verifier; Source: RFC 7636, 4.2, S256.

    >>> challenge("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk")
    'E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM'
    """
    return _url_safe(hashlib.sha256(verifier.encode()).digest())


def token_of(device_code: str) -> str:
    """The token that a device code leads to: who asks again after a lost answer gets it again."""
    return "wb_" + _url_safe(hashlib.sha256(b"token " + device_code.encode()).digest())


def _url_safe(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
