"""Passwords by argon2id, away from the loop, no more than a few at once."""

import asyncio
from functools import cache

from argon2 import PasswordHasher
from argon2.exceptions import Argon2Error, InvalidHashError

# One takes 64 MiB and some 50 ms of a core: more at once would starve everybody else.
AT_ONCE_MAX = 2
NOBODYS = "nobody's password"


class Hasher:
    """Makes hashes of passwords and compares with them; for nobody at all it takes as long."""

    def __init__(self, argon: PasswordHasher | None = None) -> None:
        self._argon = argon or PasswordHasher()
        self._slots = asyncio.Semaphore(AT_ONCE_MAX)
        self._nobodys = argon.hash(NOBODYS) if argon else _nobodys()

    async def hashed(self, password: str) -> str:
        """A new hash of a password, with a salt of its own."""
        async with self._slots:
            return await asyncio.to_thread(self._argon.hash, password)

    async def matches(self, kept: str | None, password: str) -> bool:
        """Whether this is the password that was kept; of None never, after the same work."""
        async with self._slots:
            return await asyncio.to_thread(self._matches, kept, password)

    def is_old(self, kept: str) -> bool:
        """Whether a hash was made with weaker parameters than today's."""
        return self._argon.check_needs_rehash(kept)

    def _matches(self, kept: str | None, password: str) -> bool:
        try:
            self._argon.verify(kept or self._nobodys, password)
        except (Argon2Error, InvalidHashError):
            return False
        return kept is not None


@cache
def _nobodys() -> str:
    """What takes as long to compare with as anybody's."""
    return PasswordHasher().hash(NOBODYS)
