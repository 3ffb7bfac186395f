"""Random secrets, values derived from them, and password hashes."""

import asyncio
import base64
import hashlib
import secrets
from functools import cache

from argon2 import PasswordHasher
from argon2.exceptions import Argon2Error, InvalidHashError

from ingest.login.rules import USER_CODE_LENGTH, USER_CODE_LETTERS

SECRET_BYTES = 32
# One hash takes 64 MiB and about 50 ms of a core: more at once would starve other requests.
AT_ONCE_MAX = 2
DUMMY_PASSWORD = "nobody's password"  # noqa: S105  (protects nothing)


def new_secret() -> str:
    """Return a new secret of 256 random bits, valid in headers, cookies and URLs."""
    return secrets.token_urlsafe(SECRET_BYTES)


def new_user_code() -> str:
    """Return a new user code."""
    return "".join(secrets.choice(USER_CODE_LETTERS) for _ in range(USER_CODE_LENGTH))


def pkce_challenge(verifier: str) -> str:
    """Return the PKCE challenge of a verifier; Source: RFC 7636, 4.2, S256.

    >>> pkce_challenge("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk")
    'E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM'
    """
    digest = hashlib.sha256(verifier.encode()).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def derive_token(device_code: str) -> str:
    """Return the token of a device code: the same one for every poll, if a response gets lost."""
    return f"wb_{pkce_challenge(f'token {device_code}')}"


class Argon2Hasher:
    """Hashes and verifies passwords; verifying against no hash takes the same time."""

    def __init__(self, argon: PasswordHasher | None = None) -> None:
        self._argon = argon or PasswordHasher()
        self._slots = asyncio.Semaphore(AT_ONCE_MAX)
        self._dummy_hash = argon.hash(DUMMY_PASSWORD) if argon else _dummy_hash()

    async def hash_password(self, password: str) -> str:
        """Return a new hash of a password, with its own salt."""
        async with self._slots:
            return await asyncio.to_thread(self._argon.hash, password)

    async def matches(self, stored_hash: str | None, password: str) -> bool:
        """Return whether the password matches; False for no hash, after the same work."""
        async with self._slots:
            try:
                await asyncio.to_thread(
                    self._argon.verify, stored_hash or self._dummy_hash, password
                )
            except (Argon2Error, InvalidHashError):
                return False
        return stored_hash is not None

    def is_old(self, stored_hash: str) -> bool:
        """Return whether a hash was made with weaker parameters than today's."""
        return self._argon.check_needs_rehash(stored_hash)


@cache
def _dummy_hash() -> str:
    return PasswordHasher().hash(DUMMY_PASSWORD)
