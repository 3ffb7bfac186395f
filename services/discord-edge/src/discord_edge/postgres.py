"""The edge's own tables: tracked submissions, what was announced, and running updates."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

from discord_edge.notifications.announcement_texts import PodiumUpdate, ProblemPost, ProblemSummary
from discord_edge.platform_api import DiscordUser
from discord_edge.submissions.models import PendingSubmission, TrackedSubmission
from discord_edge.wording import escaped
from shared.api.submissions import SubmissionRequest
from shared.postgres import borrow_connection, load_statements

SCHEMA = "discord_edge"
Rows = list[dict[str, Any]]
SAVE_STATEMENTS = {
    "thread": "set_thread",
    "status": "set_status",
    "report": "set_report",
    "ended": "set_ended",
}


@dataclass(frozen=True)
class RepositoryUpdate:
    """A repository to publish for a user; `body` is the request to the platform.

    `before` are the versions of its problems, 0 for none. An update that `is_late` was confirmed
    hours ago: the repository may have changed since.
    """

    key: str
    user: DiscordUser
    channel: str
    body: Mapping[str, object]
    before: Mapping[str, int]
    is_late: bool = False

    @property
    def name(self) -> str:
        """The escaped name of the repository."""
        return escaped(str(self.body["repository"]))


class PendingMessage(NamedTuple):
    """A message that is about to be sent, and the newest message before it."""

    text: str
    after: str


@dataclass(frozen=True)
class PostgresTrackedSubmissions:
    """Tracked and pending submissions, in the pool's schema."""

    pool: AsyncConnectionPool

    async def add(self, submission: TrackedSubmission) -> None:
        """Add a submission to track. Raises `Failed`."""
        names = ("number", "person", "channel", "problem", "gpu", "mode", "first", "case")
        await self._execute("add", {name: getattr(submission, name) for name in names})

    async def save(self, number: int, field: str, value: str) -> None:
        """Store its `thread`, `status`, `report` or why it `ended`. Raises `Failed`."""
        await self._execute(SAVE_STATEMENTS[field], {"number": number, "value": value})

    async def list_open(self) -> list[TrackedSubmission]:
        """Return the submissions that are still reported on. Raises `Failed`."""
        return [TrackedSubmission(**row) for row in await self._execute("open", {})]

    async def list_group(self, first: int) -> list[TrackedSubmission]:
        """Return the submissions of one command, by its first number. Raises `Failed`."""
        return [TrackedSubmission(**row) for row in await self._execute("group", {"first": first})]

    async def find_previous_thread(self, submission: TrackedSubmission) -> str | None:
        """Return the newest thread of another submission of the same user and problem."""
        values = {
            "person": submission.person,
            "problem": submission.problem,
            "number": submission.number,
        }
        rows = await self._execute("former", values)
        return str(rows[0]["thread"]) if rows else None

    async def add_pending(self, pending: PendingSubmission) -> None:
        """Store a request until its answer is stored. Raises `Failed`."""
        user, request = pending.user, pending.request
        values = {
            "key": pending.key,
            "person": str(user.id),
            "name": user.name,
            "channel": pending.channel,
            "problem": request.problem,
            "mode": request.mode,
            "gpus": list(request.gpus),
            "file": request.name,
            "source": request.source,
            "case": request.case,
        }
        await self._execute("want", values)

    async def remove_pending(self, key: str) -> None:
        """Remove a request whose answer is stored or that was refused. Raises `Failed`."""
        await self._execute("unwant", {"key": key})

    async def list_pending(self) -> list[PendingSubmission]:
        """Return the requests whose answers were never stored. Raises `Failed`."""
        return [
            PendingSubmission(
                key=row["key"],
                user=DiscordUser(int(row["person"]), row["name"]),
                channel=row["channel"],
                request=SubmissionRequest(
                    problem=row["problem"],
                    mode=row["mode"],
                    gpus=tuple(row["gpus"]),
                    name=row["file"],
                    source=bytes(row["source"]),
                    case=row["only_case"],
                ),
            )
            for row in await self._execute("wanted", {})
        ]

    async def synced_digest(self, guild: str) -> str:
        """Return the digest of the synced commands, "" before the first time. Raises `Failed`."""
        rows = await self._execute("synced", {"guild": guild})
        return str(rows[0]["digest"]) if rows else ""

    async def save_synced_digest(self, guild: str, digest: str) -> None:
        """Store the digest of the synced commands. Raises `Failed`."""
        await self._execute("set_synced", {"guild": guild, "digest": digest})

    async def _execute(self, statement: str, values: Mapping[str, Any]) -> Rows:
        return await _execute(self.pool, "posts.sql", statement, values)


@dataclass(frozen=True)
class PostgresLedger:
    """The record of what was created and announced, in the pool's schema."""

    pool: AsyncConnectionPool

    async def made(self, name: str) -> str | None:
        """Return the id of what was created under a name. Raises `Failed`."""
        rows = await self._execute("made", name=name)
        return str(rows[0]["id"]) if rows else None

    async def keep(self, name: str, identity: str) -> None:
        """Store the id of what was created under a name. Raises `Failed`."""
        await self._execute("keep", name=name, id=identity)

    async def pending_message(self, name: str, room: str) -> PendingMessage | None:
        """Return the message that was about to be sent under a name. Raises `Failed`."""
        rows = await self._execute("begun", name=name, room=room)
        return PendingMessage(**rows[0]) if rows else None

    async def save_pending_message(self, name: str, room: str, pending: PendingMessage) -> None:
        """Store a message before it is sent. Raises `Failed`."""
        await self._execute("begin", name=name, room=room, **pending._asdict())

    async def submission_thread(self, number: int) -> str | None:
        """Return the thread of a submission. Raises `Failed`."""
        rows = await self._execute("room", number=number)
        return rows[0]["thread"] if rows else None

    async def newest_thread(self, person: str, problem: str) -> str | None:
        """Return the thread of a user's newest submission to a problem. Raises `Failed`."""
        rows = await self._execute("newest_room", person=person, problem=problem)
        return rows[0]["thread"] if rows else None

    async def problem_post(self, problem: str) -> ProblemPost | None:
        """Return the post of a problem. Raises `Failed`."""
        rows = await self._execute("board", problem=problem)
        return ProblemPost(rows[0]["thread"], _decode_summary(rows[0]["facts"])) if rows else None

    async def save_problem_post(self, problem: str, post: ProblemPost) -> None:
        """Store the post of a problem. Raises `Failed`."""
        facts = msgspec.json.encode(post.facts).decode()
        await self._execute("set_board", problem=problem, thread=post.thread, facts=facts)

    async def problem_summaries(self) -> dict[str, ProblemSummary]:
        """Return what each problem's post shows, by problem. Raises `Failed`."""
        rows = await self._execute("boards")
        return {row["problem"]: _decode_summary(row["facts"]) for row in rows}

    async def add_podium_update(self, update: PodiumUpdate) -> None:
        """Store that a podium changed. Raises `Failed`."""
        await self._execute("moved", **update._asdict())

    async def due_podium_updates(self, every_s: float, quiet_s: float) -> list[PodiumUpdate]:
        """Return the podiums to announce now. Raises `Failed`."""
        rows = await self._execute("due", every_s=every_s, quiet_s=quiet_s)
        return [PodiumUpdate(**row) for row in rows]

    async def begin_podium(self, update: PodiumUpdate) -> None:
        """Mark a podium as being announced, as of its event. Raises `Failed`."""
        values = {"problem": update.problem, "gpu": update.gpu}
        await self._execute("telling", **values, seq=update.seq)

    async def finish_podium(self, update: PodiumUpdate) -> None:
        """Mark a podium as announced. Raises `Failed`."""
        await self._execute("told", problem=update.problem, gpu=update.gpu, seq=update.seq)

    async def _execute(self, statement: str, **values: object) -> Rows:
        return await _execute(self.pool, "public.sql", statement, values)


@dataclass(frozen=True)
class PostgresRepositoryUpdates:
    """The running repository updates, in the pool's schema."""

    pool: AsyncConnectionPool

    async def add(self, update: RepositoryUpdate) -> None:
        """Store an update until its result is reported. Raises `Failed`."""
        values = {
            "key": update.key,
            "person": str(update.user.id),
            "name": update.user.name,
            "roles": list(update.user.roles),
            "channel": update.channel,
            "said": json.dumps(dict(update.body)),
            "before": json.dumps(dict(update.before)),
        }
        await self._execute("begin", values)

    async def remove(self, key: str) -> None:
        """Remove an update whose result was reported. Raises `Failed`."""
        await self._execute("end", {"key": key})

    async def list_open(self) -> list[RepositoryUpdate]:
        """Return the updates whose results were not reported. Raises `Failed`."""
        return [
            RepositoryUpdate(
                key=row["key"],
                user=DiscordUser(int(row["person"]), row["name"], tuple(row["roles"])),
                channel=row["channel"],
                body=json.loads(row["said"]),
                before=json.loads(row["before"]),
                is_late=row["is_late"],
            )
            for row in await self._execute("open", {})
        ]

    async def _execute(self, statement: str, values: Mapping[str, Any]) -> Rows:
        return await _execute(self.pool, "errands.sql", statement, values)


def _decode_summary(text: str) -> ProblemSummary:
    return msgspec.json.decode(text, type=ProblemSummary)


async def _execute(
    pool: AsyncConnectionPool, file: str, statement: str, values: Mapping[str, Any]
) -> Rows:
    text = load_statements("discord_edge", file)[statement].encode()
    async with borrow_connection(pool, "the edge's own table cannot be reached") as connection:
        cursor = connection.cursor(row_factory=dict_row)
        await cursor.execute(text, values)
        return await cursor.fetchall() if cursor.description else []
