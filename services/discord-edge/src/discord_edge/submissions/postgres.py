"""The tables of tracked and pending submissions."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from discord_edge.platform_api import DiscordUser
from discord_edge.postgres import Tables
from discord_edge.submissions.models import PendingSubmission, TrackedSubmission
from shared.api.submissions import SubmissionRequest
from shared.source_files import pack_files, unpack_files

SAVE_STATEMENTS = {
    "thread": "set_thread",
    "status": "set_status",
    "report": "set_report",
    "ended": "set_ended",
}


class PostgresTrackedSubmissions(Tables):
    """Tracked and pending submissions."""

    file = "posts.sql"

    async def add(self, submission: TrackedSubmission) -> None:
        """Add a submission to track."""
        await self.execute("add", **asdict(submission))

    async def save(self, number: int, field: str, value: str) -> None:
        """Store its `thread`, `status`, `report` or why it `ended`."""
        await self.execute(SAVE_STATEMENTS[field], number=number, value=value)

    async def list_open(self) -> list[TrackedSubmission]:
        """Return the submissions that are still reported on."""
        return [TrackedSubmission(**row) for row in await self.execute("open")]

    async def list_group(self, first: int) -> list[TrackedSubmission]:
        """Return the submissions of one command, by its first number."""
        return [TrackedSubmission(**row) for row in await self.execute("group", first=first)]

    async def find_previous_thread(self, submission: TrackedSubmission) -> str | None:
        """Return the newest thread of another submission of the same user and problem."""
        rows = await self.execute("former", **asdict(submission))
        return str(rows[0]["thread"]) if rows else None

    async def add_pending(self, pending: PendingSubmission) -> None:
        """Store a request until its answer is stored."""
        user, request = pending.user, pending.request
        await self.execute(
            "want",
            key=pending.key,
            person=str(user.id),
            name=user.name,
            channel=pending.channel,
            problem=request.problem,
            mode=request.mode,
            gpus=list(request.gpus),
            file=request.name,
            source=pack_files(request.files),
            case=request.case,
            runner=request.runner,
        )

    async def remove_pending(self, key: str) -> None:
        """Remove a request whose answer is stored or that was refused."""
        await self.execute("unwant", key=key)

    async def list_pending(self) -> list[PendingSubmission]:
        """Return the requests whose answers were never stored."""
        return [_make_pending(row) for row in await self.execute("wanted")]

    async def synced_digest(self, guild: str) -> str:
        """Return the digest of the synced commands, "" before the first time."""
        rows = await self.execute("synced", guild=guild)
        return str(rows[0]["digest"]) if rows else ""

    async def save_synced_digest(self, guild: str, digest: str) -> None:
        """Store the digest of the synced commands."""
        await self.execute("set_synced", guild=guild, digest=digest)


def _make_pending(row: Mapping[str, Any]) -> PendingSubmission:
    entry, *others = unpack_files(row["file"], bytes(row["source"]))
    return PendingSubmission(
        key=row["key"],
        user=DiscordUser(int(row["person"]), row["name"]),
        channel=row["channel"],
        request=SubmissionRequest(
            problem=row["problem"],
            mode=row["mode"],
            gpus=tuple(row["gpus"]),
            name=entry.name,
            source=entry.data,
            others=tuple(others),
            case=row["only_case"],
            runner=row["runner"],
        ),
    )
