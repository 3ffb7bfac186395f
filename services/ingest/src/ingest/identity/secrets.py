"""Secrets: how they are made, and what is derived from them."""

import base64
import hashlib
import hmac
import secrets

SECRET_BYTES = 32
TOKEN_PREFIX = "wb_"  # noqa: S105  (it starts every token)
INVITE_CODE_BYTES = 16


def new_secret() -> str:
    """Return a new secret of 256 random bits, valid in headers, cookies and URLs."""
    return secrets.token_urlsafe(SECRET_BYTES)


def new_token_text() -> str:
    """Return the text of a new token: 256 random bits."""
    return TOKEN_PREFIX + new_secret()


def new_invite_code() -> str:
    """Return a new code: 128 random bits as 26 letters and digits.

    A code never contains "-", which a command line would take for an option.

    >>> len(new_invite_code())
    26
    """
    return base64.b32encode(secrets.token_bytes(INVITE_CODE_BYTES)).decode().rstrip("=").lower()


def hash_secret(secret: str) -> str:
    """Return the SHA-256 of a secret in hexadecimal, which is stored in its place."""
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()


def csrf_token(secret: str) -> str:
    """Return the X-CSRF-Token that belongs to the login cookie with this secret."""
    return hmac.new(secret.encode(), b"warpboard csrf", hashlib.sha256).hexdigest()


def pkce_challenge(verifier: str) -> str:
    """Return the PKCE challenge of a verifier; Source: RFC 7636, 4.2, S256.

    >>> pkce_challenge("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk")
    'E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM'
    """
    digest = hashlib.sha256(verifier.encode()).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def derive_token(device_code: str) -> str:
    """Return the token of a device code: the same one for every poll, if a response gets lost."""
    return TOKEN_PREFIX + pkce_challenge(f"token {device_code}")
