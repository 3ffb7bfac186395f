"""Leaderboards as they were, folded from the archive when somebody asks."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, Protocol

from ranker.domain import standings
from ranker.domain.score import with_interval
from ranker.domain.standings import Standings
from ranker.service import Board, Reads
from shared.errors import Failed
from shared.event_log import Recorded
from shared.events import SubmissionFinished

TURN_S_MAX = 5.0
# So long other requests wait, in events.
STRETCH = 500
LIVE_NAMES = ("participant", "tier", "level", "policy", "is_withdrawn", "is_consented")
SHOWN = (
    *("rank", "is_tied", "account", "submission", "number", "pooled_over", "score_us", "error"),
    *("freedom", "delta", "received_at", "duel", "confirmation"),
)


class Events(Protocol):
    """Where the past is kept."""

    async def then(self, problem: str, gpu: str, at: datetime) -> tuple[int, list[Recorded]]:
        """The last sequence at an instant, and all that mattered to a leaderboard."""
        ...


class ArchivedPast:
    """Folds one leaderboard at a time, for that reads the whole archive."""

    def __init__(self, events: Events, reads: Reads) -> None:
        self._events = events
        self._reads = reads
        self._turn = asyncio.Lock()

    async def board(
        self, board: Board, at: datetime, limit: int
    ) -> tuple[int, list[dict[str, Any]]]:
        """The sequence that was the last then, and the rows, best first. Errors: Failed."""
        async with self._alone():
            seq, events = await self._events.then(board.problem, board.gpu, at)
            state = await _folded(events)
        key = standings.Board(board.problem, board.problem_number, board.gpu)
        rows = state.board(key, at)[:limit]
        shown = await self._reads.rows(
            "shown",
            submissions=[row.submission for row in rows],
            problem_number=board.problem_number,
        )
        live = {one["submission"]: {name: one[name] for name in LIVE_NAMES} for one in shown}
        none = dict.fromkeys(LIVE_NAMES)
        results = state.results.get(key, {})
        return seq, [
            _item(row, results[row.submission]) | live.get(row.submission, none) for row in rows
        ]

    @asynccontextmanager
    async def _alone(self) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(TURN_S_MAX):
                await self._turn.acquire()
        except TimeoutError as late:
            raise Failed("others look at the past; ask again") from late
        try:
            yield
        finally:
            self._turn.release()


async def _folded(events: list[Recorded]) -> Standings:
    state = Standings()
    for place, event in enumerate(events):
        if place % STRETCH == 0:
            await asyncio.sleep(0)
        state.fold(event)
    return state


def _item(row: standings.Row, result: SubmissionFinished) -> dict[str, Any]:
    """A row as the live leaderboard shows it."""
    said = row._asdict()
    low, high = result.interval_us or (None, None)
    own = {"run_us": result.score_us, "low_us": low, "high_us": high}
    grade = {"grade": result.grade, "is_provisional": result.is_provisional}
    pooled_over = list(row.pooled_over) if len(row.pooled_over) > 1 else []
    shown = {name: said[name] for name in SHOWN} | {"pooled_over": pooled_over}
    return with_interval(shown | own | grade)
