"""How much there was to do, for operators: counts, and seconds."""

from datetime import timedelta
from typing import Annotated, Any

from fastapi import FastAPI, Query

from ranker.service import Reads
from shared.clock import now

DAY_S = 86400.0


def stats(app: FastAPI, reads: Reads) -> None:
    """The read that ingest asks for its operators; nobody else reaches it."""

    @app.get("/internal/stats")
    async def one(
        problem: Annotated[str | None, Query()] = None, *, is_last_day: bool = False
    ) -> dict[str, Any]:
        """The counts in all and by GPU type, and the last day's run time by participant."""
        since = now() - timedelta(seconds=DAY_S) if is_last_day else None
        asked = {"problem": problem, "since": since}
        (found,) = await reads.rows("stats", **asked)
        for row in await reads.rows("stats_by_gpu", **asked):
            gpu = row.pop("gpu")
            found |= {f"{name}.{gpu}": value for name, value in row.items()}
        if is_last_day:
            for row in await reads.rows("stats_by_account", **asked):
                found[f"total.{row['account']}"] = row["total"]
        return found
