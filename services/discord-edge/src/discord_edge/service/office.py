"""What authors and operators need of the platform beside what participants do."""

from collections.abc import Mapping
from typing import Protocol

from discord_edge.service.ports import Api, User
from shared.telling.answers import Answer


class Office(Api, Protocol):
    """The platform, asked for somebody who has a role on the server, too."""

    async def do(
        self, user: User, method: str, *path: str | int, key: str, **said: object
    ) -> Answer:
        """What any request under /v1 answers, done once for a key. Errors: Refused; Failed."""
        ...

    async def publish(
        self, user: User, key: str, said: Mapping[str, object], files: Mapping[str, bytes]
    ) -> Answer:
        """A problem's newest version. Errors: Refused; Failed."""
        ...

    async def late(self, user: User, path: str, bytes_max: int, **said: object) -> bytes:
        """What a POST at a path answers that may take minutes, whole.

        Errors: Refused, `too_large` for what has more bytes; Failed.
        """
        ...
