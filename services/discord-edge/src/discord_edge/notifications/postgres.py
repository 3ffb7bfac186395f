"""The tables of what was created and announced."""

from typing import NamedTuple

import msgspec

from discord_edge.notifications.texts import PodiumUpdate, ProblemPost, ProblemSummary
from discord_edge.postgres import Tables


class PendingMessage(NamedTuple):
    """A message that is about to be sent, and the newest message before it."""

    text: str
    after: str


class PostgresLedger(Tables):
    """The record of what was created and announced."""

    file = "public.sql"

    async def made(self, name: str) -> str | None:
        """Return the id of what was created under a name."""
        rows = await self.execute("made", name=name)
        return str(rows[0]["id"]) if rows else None

    async def keep(self, name: str, identity: str) -> None:
        """Store the id of what was created under a name."""
        await self.execute("keep", name=name, id=identity)

    async def pending_message(self, name: str, room: str) -> PendingMessage | None:
        """Return the message that was about to be sent under a name."""
        rows = await self.execute("begun", name=name, room=room)
        return PendingMessage(**rows[0]) if rows else None

    async def save_pending_message(self, name: str, room: str, pending: PendingMessage) -> None:
        """Store a message before it is sent."""
        await self.execute("begin", name=name, room=room, **pending._asdict())

    async def submission_thread(self, number: int) -> str | None:
        """Return the thread of a submission."""
        rows = await self.execute("room", number=number)
        return rows[0]["thread"] if rows else None

    async def newest_thread(self, person: str, problem: str) -> str | None:
        """Return the thread of a user's newest submission to a problem."""
        rows = await self.execute("newest_room", person=person, problem=problem)
        return rows[0]["thread"] if rows else None

    async def problem_post(self, problem: str) -> ProblemPost | None:
        """Return the post of a problem."""
        rows = await self.execute("board", problem=problem)
        return ProblemPost(rows[0]["thread"], _decode_summary(rows[0]["facts"])) if rows else None

    async def save_problem_post(self, problem: str, post: ProblemPost) -> None:
        """Store the post of a problem."""
        facts = msgspec.json.encode(post.facts).decode()
        await self.execute("set_board", problem=problem, thread=post.thread, facts=facts)

    async def problem_summaries(self) -> dict[str, ProblemSummary]:
        """Return what each problem's post shows, by problem."""
        rows = await self.execute("boards")
        return {row["problem"]: _decode_summary(row["facts"]) for row in rows}

    async def add_podium_update(self, update: PodiumUpdate) -> None:
        """Store that a podium changed."""
        await self.execute("moved", **update._asdict())

    async def due_podium_updates(self, every_s: float, quiet_s: float) -> list[PodiumUpdate]:
        """Return the podiums to announce now."""
        rows = await self.execute("due", every_s=every_s, quiet_s=quiet_s)
        return [PodiumUpdate(**row) for row in rows]

    async def begin_podium(self, update: PodiumUpdate) -> None:
        """Mark a podium as being announced, as of its event."""
        await self.execute("telling", **update._asdict())

    async def finish_podium(self, update: PodiumUpdate) -> None:
        """Mark a podium as announced."""
        await self.execute("told", **update._asdict())


def _decode_summary(text: str) -> ProblemSummary:
    return msgspec.json.decode(text, type=ProblemSummary)
