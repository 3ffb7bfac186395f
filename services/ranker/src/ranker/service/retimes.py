"""Runs that were noisy are timed again: rejudges under the same version, a limited number of times.

`Decisions` ends them: a result that may be ranked and is not noisy replaces the noisy one.
"""

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from ranker.domain.rows import LeaderboardKey
from ranker.service.decisions import EventCause, Reads, append_event
from ranker.service.podium_jobs import OPEN_MAX, make_rejudge_item
from shared import subjects
from shared.event_log import EventLog
from shared.events import RejudgeDiscarded, RejudgeRequested
from shared.subjects import retime_id

# The first attempt comes this long after the noisy run, each later one after the attempt before.
DELAYS_S = (300.0, 1200.0, 3600.0)
# The clock alone makes an attempt due.
LOOK_S = 10.0
SELECT = "noisy"


@dataclass
class Retimes:
    """Requests that noisy entries are timed again; deciding twice gives one event.

    `delays_s` has one delay for each attempt, and `look_s` passes between looks for what is due.
    """

    log: EventLog
    reads: Reads
    is_on: bool = True
    delays_s: tuple[float, ...] = DELAYS_S
    look_s: float = LOOK_S
    requested: set[str] = field(default_factory=set)

    async def look(self, at: datetime) -> None:
        """Request what is due, and discard what is needless by now. Raises Failed."""
        if not self.is_on:
            return
        for row in await self.reads.rows("retimes_needless"):
            reason = "timed again no more: the entry has changed or is not ranked"
            await self._append(row["id"], RejudgeDiscarded(reason=reason), row["version"])
        due = await self.reads.rows("retimes_due", at=at, delays_s=list(self.delays_s))
        open_counts: Counter[LeaderboardKey] = Counter()
        for row in due:
            board = LeaderboardKey(row["problem"], row["gpu"], row["problem_number"])
            id_ = retime_id(row["submission"], board.problem_number, row["attempts"] + 1)
            if id_ in self.requested or row["open_count"] + open_counts[board] >= OPEN_MAX:
                continue
            open_counts[board] += 1
            if await self._append(id_, self._make_request(board, row), 0):
                self.requested.add(id_)

    def _make_request(self, board: LeaderboardKey, row: dict[str, Any]) -> RejudgeRequested:
        attempt = f"attempt {row['attempts'] + 1} of {len(self.delays_s)}"
        return RejudgeRequested(
            problem=board.problem,
            from_number=board.problem_number,
            to_number=board.problem_number,
            to_digest=row["digest"],
            select=SELECT,
            reason=f"to be timed again on a quiet machine, {attempt}",
            items=[make_rejudge_item(row, board.gpu)],
        )

    async def _append(
        self, id_: str, fact: RejudgeRequested | RejudgeDiscarded, version: int
    ) -> int:
        return await append_event(
            self.log, subjects.rejudge(id_), fact, version, EventCause(id_, corr=id_)
        )
