"""Which submission has which thread and messages on Discord, and what was synced."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from psycopg import OperationalError
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool, PoolClosed, PoolTimeout

from discord_edge.domain.wishes import Wish
from discord_edge.service.ports import Post, Sent, User
from shared.errors import Failed
from shared.postgres import statements

SCHEMA = "discord_edge"
KEEPS = {
    "thread": "set_thread",
    "status": "set_status",
    "report": "set_report",
    "ended": "set_ended",
}


@dataclass(frozen=True)
class PostgresPosts:
    """The posts, in the pool's schema."""

    pool: AsyncConnectionPool

    async def add(self, post: Post) -> None:
        """Begin to follow one. Errors: Failed."""
        names = ("number", "person", "channel", "problem", "gpu", "mode")
        await self._ask("add", {name: getattr(post, name) for name in names})

    async def keep(self, number: int, what: str, value: str) -> None:
        """Keep the id of its `thread`, `status` or `report`, or why it `ended`. Errors: Failed."""
        await self._ask(KEEPS[what], {"number": number, "value": value})

    async def open(self) -> list[Post]:
        """Those that are still told of. Errors: Failed."""
        return [Post(**row) for row in await self._ask("open", {})]

    async def want(self, sent: Sent) -> None:
        """Keep what is sent until its answer is kept. Errors: Failed."""
        user, wish = sent.user, sent.wish
        who = {"person": str(user.id), "name": user.name, "channel": sent.channel}
        what = {"problem": wish.problem, "mode": wish.mode, "gpus": list(wish.gpus)}
        file = {"file": wish.name, "source": wish.source}
        await self._ask("want", {"key": sent.key, **who, **what, **file})

    async def unwant(self, key: str) -> None:
        """Its answer is kept, or it was refused. Errors: Failed."""
        await self._ask("unwant", {"key": key})

    async def wanted(self) -> list[Sent]:
        """What was sent, and whose answer nobody kept. Errors: Failed."""
        return [
            Sent(
                key=row["key"],
                user=User(int(row["person"]), row["name"]),
                channel=row["channel"],
                wish=Wish(
                    problem=row["problem"],
                    mode=row["mode"],
                    gpus=tuple(row["gpus"]),
                    name=row["file"],
                    source=bytes(row["source"]),
                ),
            )
            for row in await self._ask("wanted", {})
        ]

    async def synced(self, guild: str) -> str:
        """The digest of what was synced last, "" before the first time. Errors: Failed."""
        rows = await self._ask("synced", {"guild": guild})
        return str(rows[0]["digest"]) if rows else ""

    async def keep_synced(self, guild: str, digest: str) -> None:
        """Keep what is synced now. Errors: Failed."""
        await self._ask("set_synced", {"guild": guild, "digest": digest})

    async def _ask(self, statement: str, values: Mapping[str, Any]) -> list[dict[str, Any]]:
        text = statements("discord_edge", "posts.sql")[statement].encode()
        try:
            async with self.pool.connection() as connection:
                cursor = connection.cursor(row_factory=dict_row)
                await cursor.execute(text, values)
                return await cursor.fetchall() if cursor.description else []
        except (OperationalError, PoolTimeout, PoolClosed) as error:
            raise Failed(f"the edge's own table cannot be reached: {error}") from error
