"""Which submission has which thread and messages on Discord, and what was synced."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from psycopg import OperationalError
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool, PoolClosed, PoolTimeout

from discord_edge.domain.news import Facts
from discord_edge.domain.wishes import Wish
from discord_edge.service.ports import Post, Sent, User
from discord_edge.service.public import Moved, Told
from shared.errors import Failed
from shared.postgres import statements

SCHEMA = "discord_edge"
Rows = list[dict[str, Any]]
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

    async def _ask(self, statement: str, values: Mapping[str, Any]) -> Rows:
        return await _asked(self.pool, "posts.sql", statement, values)


@dataclass(frozen=True)
class PostgresLedger:
    """What everybody was told, in the pool's schema."""

    pool: AsyncConnectionPool

    async def made(self, name: str) -> str | None:
        """The id of what was made under a name. Errors: Failed."""
        rows = await self._ask("made", name=name)
        return str(rows[0]["id"]) if rows else None

    async def keep(self, name: str, identity: str) -> None:
        """Keep the id of what was made under a name. Errors: Failed."""
        await self._ask("keep", name=name, id=identity)

    async def expect(self, submission: str, problem: str, gpu: str) -> None:
        """A ranked submission is on its way to a leaderboard. Errors: Failed."""
        await self._ask("expect", submission=submission, problem=problem, gpu=gpu)

    async def expected(self, submission: str) -> tuple[str, str] | None:
        """To which problem and GPU type it was; None if nobody said. Errors: Failed."""
        rows = await self._ask("expected", submission=submission)
        return (rows[0]["problem"], rows[0]["gpu"]) if rows else None

    async def board(self, problem: str) -> Told | None:
        """The post of a problem. Errors: Failed."""
        rows = await self._ask("board", problem=problem)
        return Told(rows[0]["thread"], _facts(rows[0]["facts"])) if rows else None

    async def set_board(self, problem: str, told: Told) -> None:
        """Keep the post of a problem. Errors: Failed."""
        facts = msgspec.json.encode(told.facts).decode()
        await self._ask("set_board", problem=problem, thread=told.thread, facts=facts)

    async def boards(self) -> dict[str, Facts]:
        """What the posts say. Errors: Failed."""
        return {row["problem"]: _facts(row["facts"]) for row in await self._ask("boards")}

    async def moved(self, moved: Moved) -> None:
        """A podium changed. Errors: Failed."""
        await self._ask("moved", **moved._asdict())

    async def due(self, every_s: float, quiet_s: float) -> list[Moved]:
        """Podiums that are to be told of now. Errors: Failed."""
        rows = await self._ask("due", every_s=every_s, quiet_s=quiet_s)
        return [Moved(**row) for row in rows]

    async def told(self, moved: Moved) -> None:
        """A podium was told of. Errors: Failed."""
        await self._ask("told", problem=moved.problem, gpu=moved.gpu, seq=moved.seq)

    async def _ask(self, statement: str, **values: object) -> Rows:
        return await _asked(self.pool, "public.sql", statement, values)


def _facts(text: str) -> Facts:
    return msgspec.json.decode(text, type=Facts)


async def _asked(
    pool: AsyncConnectionPool, file: str, statement: str, values: Mapping[str, Any]
) -> Rows:
    text = statements("discord_edge", file)[statement].encode()
    try:
        async with pool.connection() as connection:
            cursor = connection.cursor(row_factory=dict_row)
            await cursor.execute(text, values)
            return await cursor.fetchall() if cursor.description else []
    except (OperationalError, PoolTimeout, PoolClosed) as error:
        raise Failed(f"the edge's own table cannot be reached: {error}") from error
