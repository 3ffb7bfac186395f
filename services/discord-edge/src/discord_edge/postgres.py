"""The edge's own tables: tracked submissions and what was announced."""

from dataclasses import asdict, dataclass
from typing import Any, ClassVar, NamedTuple

import msgspec
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

from discord_edge.notifications.texts import PodiumUpdate, ProblemPost, ProblemSummary
from discord_edge.platform_api import DiscordUser
from discord_edge.submissions.models import PendingSubmission, TrackedSubmission
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


class PendingMessage(NamedTuple):
    """A message that is about to be sent, and the newest message before it."""

    text: str
    after: str


@dataclass(frozen=True)
class _Tables:
    """Tables of the pool's schema, with the statements of one file. Methods raise `Failed`."""

    pool: AsyncConnectionPool
    file: ClassVar[str]

    async def _execute(self, statement: str, **values: object) -> Rows:
        text = load_statements("discord_edge", self.file)[statement].encode()
        problem = "the edge's own table cannot be reached"
        async with borrow_connection(self.pool, problem) as connection:
            cursor = connection.cursor(row_factory=dict_row)
            await cursor.execute(text, values)
            return await cursor.fetchall() if cursor.description else []


class PostgresTrackedSubmissions(_Tables):
    """Tracked and pending submissions."""

    file = "posts.sql"

    async def add(self, submission: TrackedSubmission) -> None:
        """Add a submission to track."""
        await self._execute("add", **asdict(submission))

    async def save(self, number: int, field: str, value: str) -> None:
        """Store its `thread`, `status`, `report` or why it `ended`."""
        await self._execute(SAVE_STATEMENTS[field], number=number, value=value)

    async def list_open(self) -> list[TrackedSubmission]:
        """Return the submissions that are still reported on."""
        return [TrackedSubmission(**row) for row in await self._execute("open")]

    async def list_group(self, first: int) -> list[TrackedSubmission]:
        """Return the submissions of one command, by its first number."""
        return [TrackedSubmission(**row) for row in await self._execute("group", first=first)]

    async def find_previous_thread(self, submission: TrackedSubmission) -> str | None:
        """Return the newest thread of another submission of the same user and problem."""
        rows = await self._execute("former", **asdict(submission))
        return str(rows[0]["thread"]) if rows else None

    async def add_pending(self, pending: PendingSubmission) -> None:
        """Store a request until its answer is stored."""
        user, request = pending.user, pending.request
        await self._execute(
            "want",
            key=pending.key,
            person=str(user.id),
            name=user.name,
            channel=pending.channel,
            problem=request.problem,
            mode=request.mode,
            gpus=list(request.gpus),
            file=request.name,
            source=request.source,
            case=request.case,
            runner=request.runner,
        )

    async def remove_pending(self, key: str) -> None:
        """Remove a request whose answer is stored or that was refused."""
        await self._execute("unwant", key=key)

    async def list_pending(self) -> list[PendingSubmission]:
        """Return the requests whose answers were never stored."""
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
                    runner=row["runner"],
                ),
            )
            for row in await self._execute("wanted")
        ]

    async def synced_digest(self, guild: str) -> str:
        """Return the digest of the synced commands, "" before the first time."""
        rows = await self._execute("synced", guild=guild)
        return str(rows[0]["digest"]) if rows else ""

    async def save_synced_digest(self, guild: str, digest: str) -> None:
        """Store the digest of the synced commands."""
        await self._execute("set_synced", guild=guild, digest=digest)


class PostgresLedger(_Tables):
    """The record of what was created and announced."""

    file = "public.sql"

    async def made(self, name: str) -> str | None:
        """Return the id of what was created under a name."""
        rows = await self._execute("made", name=name)
        return str(rows[0]["id"]) if rows else None

    async def keep(self, name: str, identity: str) -> None:
        """Store the id of what was created under a name."""
        await self._execute("keep", name=name, id=identity)

    async def pending_message(self, name: str, room: str) -> PendingMessage | None:
        """Return the message that was about to be sent under a name."""
        rows = await self._execute("begun", name=name, room=room)
        return PendingMessage(**rows[0]) if rows else None

    async def save_pending_message(self, name: str, room: str, pending: PendingMessage) -> None:
        """Store a message before it is sent."""
        await self._execute("begin", name=name, room=room, **pending._asdict())

    async def submission_thread(self, number: int) -> str | None:
        """Return the thread of a submission."""
        rows = await self._execute("room", number=number)
        return rows[0]["thread"] if rows else None

    async def newest_thread(self, person: str, problem: str) -> str | None:
        """Return the thread of a user's newest submission to a problem."""
        rows = await self._execute("newest_room", person=person, problem=problem)
        return rows[0]["thread"] if rows else None

    async def problem_post(self, problem: str) -> ProblemPost | None:
        """Return the post of a problem."""
        rows = await self._execute("board", problem=problem)
        return ProblemPost(rows[0]["thread"], _decode_summary(rows[0]["facts"])) if rows else None

    async def save_problem_post(self, problem: str, post: ProblemPost) -> None:
        """Store the post of a problem."""
        facts = msgspec.json.encode(post.facts).decode()
        await self._execute("set_board", problem=problem, thread=post.thread, facts=facts)

    async def problem_summaries(self) -> dict[str, ProblemSummary]:
        """Return what each problem's post shows, by problem."""
        rows = await self._execute("boards")
        return {row["problem"]: _decode_summary(row["facts"]) for row in rows}

    async def add_podium_update(self, update: PodiumUpdate) -> None:
        """Store that a podium changed."""
        await self._execute("moved", **update._asdict())

    async def due_podium_updates(self, every_s: float, quiet_s: float) -> list[PodiumUpdate]:
        """Return the podiums to announce now."""
        rows = await self._execute("due", every_s=every_s, quiet_s=quiet_s)
        return [PodiumUpdate(**row) for row in rows]

    async def begin_podium(self, update: PodiumUpdate) -> None:
        """Mark a podium as being announced, as of its event."""
        await self._execute("telling", **update._asdict())

    async def finish_podium(self, update: PodiumUpdate) -> None:
        """Mark a podium as announced."""
        await self._execute("told", **update._asdict())


def _decode_summary(text: str) -> ProblemSummary:
    return msgspec.json.decode(text, type=ProblemSummary)
