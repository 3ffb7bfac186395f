"""The table of the phases of contests that were announced."""

from collections.abc import Sequence

from discord_edge.postgres import Tables


class PostgresContests(Tables):
    """Which phases of each contest were announced."""

    file = "contests.sql"

    async def announced_phases(self, slug: str) -> list[str] | None:
        """Return the phases of a contest that were announced; None for an unknown contest."""
        rows = await self.execute("phases", slug=slug)
        return list(rows[0]["phases"]) if rows else None

    async def save_announced_phases(self, slug: str, phases: Sequence[str]) -> None:
        """Store the phases of a contest that were announced."""
        await self.execute("set_phases", slug=slug, phases=list(phases))
