"""Which submission has which thread and messages on Discord, and what was synced."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

from discord_edge.domain.news import Facts
from discord_edge.domain.wishes import Wish
from discord_edge.service.ports import Post, Sent, User
from discord_edge.service.public import Begun, Moved, Told
from discord_edge.service.sets import Errand
from shared.postgres import borrow_connection, statements

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
        names = ("number", "person", "channel", "problem", "gpu", "mode", "first", "case")
        await self._ask("add", {name: getattr(post, name) for name in names})

    async def keep(self, number: int, what: str, value: str) -> None:
        """Keep the id of its `thread`, `status` or `report`, or why it `ended`. Errors: Failed."""
        await self._ask(KEEPS[what], {"number": number, "value": value})

    async def open(self) -> list[Post]:
        """Those that are still told of. Errors: Failed."""
        return [Post(**row) for row in await self._ask("open", {})]

    async def group(self, first: int) -> list[Post]:
        """What was submitted by one command, by its first number. Errors: Failed."""
        return [Post(**row) for row in await self._ask("group", {"first": first})]

    async def former(self, post: Post) -> str | None:
        """The newest thread of another submission of its person to its problem. Errors: Failed."""
        whose = {"person": post.person, "problem": post.problem, "number": post.number}
        rows = await self._ask("former", whose)
        return str(rows[0]["thread"]) if rows else None

    async def want(self, sent: Sent) -> None:
        """Keep what is sent until its answer is kept. Errors: Failed."""
        user, wish = sent.user, sent.wish
        who = {"person": str(user.id), "name": user.name, "channel": sent.channel}
        what = {"problem": wish.problem, "mode": wish.mode, "gpus": list(wish.gpus)}
        file = {"file": wish.name, "source": wish.source, "case": wish.case}
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
                    case=row["only_case"],
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

    async def begun(self, name: str, room: str) -> Begun | None:
        """What was about to be said in a room under a name. Errors: Failed."""
        rows = await self._ask("begun", name=name, room=room)
        return Begun(**rows[0]) if rows else None

    async def begin(self, name: str, room: str, begun: Begun) -> None:
        """Keep what is about to be said. Errors: Failed."""
        await self._ask("begin", name=name, room=room, **begun._asdict())

    async def room(self, number: int) -> str | None:
        """Where a submission is told to its owner. Errors: Failed."""
        rows = await self._ask("room", number=number)
        return rows[0]["thread"] if rows else None

    async def newest_room(self, person: str, problem: str) -> str | None:
        """Where the newest submission of somebody to a problem is told. Errors: Failed."""
        rows = await self._ask("newest_room", person=person, problem=problem)
        return rows[0]["thread"] if rows else None

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

    async def telling(self, moved: Moved) -> None:
        """A podium is being told of, as of its event. Errors: Failed."""
        where = {"problem": moved.problem, "gpu": moved.gpu}
        await self._ask("telling", **where, seq=moved.seq)

    async def told(self, moved: Moved) -> None:
        """A podium was told of. Errors: Failed."""
        await self._ask("told", problem=moved.problem, gpu=moved.gpu, seq=moved.seq)

    async def _ask(self, statement: str, **values: object) -> Rows:
        return await _asked(self.pool, "public.sql", statement, values)


@dataclass(frozen=True)
class PostgresErrands:
    """What is being published, in the pool's schema."""

    pool: AsyncConnectionPool

    async def begin(self, errand: Errand) -> None:
        """Keep it until its end is told. Errors: Failed."""
        user = errand.user
        who = {"person": str(user.id), "name": user.name, "roles": list(user.roles)}
        said, before = (json.dumps(dict(one)) for one in (errand.said, errand.before))
        what = {"key": errand.key, "channel": errand.channel, "said": said, "before": before}
        await self._ask("begin", who | what)

    async def end(self, key: str) -> None:
        """Its end was told. Errors: Failed."""
        await self._ask("end", {"key": key})

    async def open(self) -> list[Errand]:
        """Those whose end nobody was told. Errors: Failed."""
        return [
            Errand(
                key=row["key"],
                user=User(int(row["person"]), row["name"], tuple(row["roles"])),
                channel=row["channel"],
                said=json.loads(row["said"]),
                before=json.loads(row["before"]),
                is_late=row["is_late"],
            )
            for row in await self._ask("open", {})
        ]

    async def _ask(self, statement: str, values: Mapping[str, Any]) -> Rows:
        return await _asked(self.pool, "errands.sql", statement, values)


def _facts(text: str) -> Facts:
    return msgspec.json.decode(text, type=Facts)


async def _asked(
    pool: AsyncConnectionPool, file: str, statement: str, values: Mapping[str, Any]
) -> Rows:
    text = statements("discord_edge", file)[statement].encode()
    async with borrow_connection(pool, "the edge's own table cannot be reached") as connection:
        cursor = connection.cursor(row_factory=dict_row)
        await cursor.execute(text, values)
        return await cursor.fetchall() if cursor.description else []
