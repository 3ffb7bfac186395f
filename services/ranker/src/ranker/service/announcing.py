"""Records and podiums, announced as they happen: never while catching up, never twice."""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from ranker.domain import records
from ranker.domain.records import Known, Leader, Past
from ranker.service.ports import Board, Reads
from ranker.service.top import Placed, read_top
from shared import subjects
from shared.clock import now
from shared.event_log import Conflict, EventLog, New
from shared.events import Fact, RecordSet
from shared.ids import derived
from shared.wire import Stamp, seal

logger = logging.getLogger(__name__)

ACTOR = "service:ranker"
BANS_PAUSE_S = 1.0


class PodiumJobs(Protocol):
    """Runs that are requested for the first three, such as duels and confirmations."""

    async def request(self, board: Board, placed: Sequence[Placed]) -> None:
        """Request what the first places of a leaderboard lack. Errors: Failed."""
        ...


@dataclass
class Announcements:
    """Compares leaderboards with what was announced of them, and appends what is new."""

    log: EventLog
    reads: Reads
    looked_at: datetime | None = None
    podium_jobs: Sequence[PodiumJobs] = ()

    async def of(self, boards: Iterable[Board] | None) -> set[Board]:
        """Announce what is new of some leaderboards, or of all; which to look at again.

        A ban that is over moves a leaderboard without an event: said with the next event of any.
        Errors: Failed.
        """
        at = now()
        wanted = await self._boards("boards") if boards is None else set(boards)
        since = self.looked_at or at
        if (at - since).total_seconds() > BANS_PAUSE_S:
            wanted |= await self._boards("boards_of_bans_over", since=since, at=at)
            since = at
        self.looked_at = since
        return {board for board in sorted(wanted) if not await self._announce(board, at)}

    async def _boards(self, statement: str, **values: object) -> set[Board]:
        return {Board(**row) for row in await self.reads.rows(statement, **values)}

    async def _announce(self, board: Board, at: datetime) -> bool:
        """Say what is new of a leaderboard; False if another moved its history meanwhile."""
        placed = await read_top(self.reads, board, records.PODIUM, at)
        found = await self.reads.rows("announced", **_named(board))
        accounts = [(one.place, one.row["account"]) for one in placed]
        leader = await self._leader(board, placed)
        known = Known(
            found[0]["accounts"] or () if found else (),
            await self._records(board, at),
            await self._best_of_others_us(board, leader, placed),
        )
        movers = await self._movers(board, [account for _, account in accounts])
        version = found[0]["seq"] if found else 0
        for fact in records.news(board.problem_number, accounts, leader, known, movers):
            version = await self._say(board, fact, version)
            if not version:
                return False
        for jobs in self.podium_jobs:
            await jobs.request(board, placed)
        return True

    async def _records(self, board: Board, at: datetime) -> list[Past]:
        rows = await self.reads.rows("records_known", at=at, **_named(board))
        return [Past(**row) for row in rows]

    async def _best_of_others_us(
        self, board: Board, leader: Leader | None, placed: list[Placed]
    ) -> float | None:
        if leader is None:
            return None
        row = placed[0].row
        (best,) = await self.reads.rows(
            "best_of_others",
            account=row["account"],
            source=row["source"],
            seq=leader.seq,
            **_named(board),
        )
        found: float | None = best["score_us"]
        return found

    async def _movers(self, board: Board, accounts: list[str]) -> set[str]:
        """The accounts that may have come to their places by a run of their own."""
        rows = await self.reads.rows("movers", accounts=accounts, **_named(board))
        return {row["account"] for row in rows}

    async def _leader(self, board: Board, placed: list[Placed]) -> Leader | None:
        if not placed or placed[0].place.is_tied:
            return None
        row = placed[0].row
        made = await self.reads.rows(
            "leader", account=row["account"], source=row["source"], **_named(board)
        )
        if not made:  # The leaderboard moved on; the batch that moved it comes here too.
            return None
        score_us = row["score_us"]
        return Leader(row["submission"], made[0]["run"], row["account"], score_us, made[0]["seq"])

    async def _say(self, board: Board, fact: Fact, version: int) -> int:
        """Append to the history of a leaderboard; the new version, 0 if another was first."""
        agg = subjects.ranking(board.problem, board.gpu)
        cause = f"{agg}/{version}"
        if isinstance(fact, RecordSet):
            cause = f"{fact.submission}/{board.problem_number}"
        return await say(self.log, agg, fact, version, cause)


async def say(log: EventLog, agg: str, fact: Fact, version: int, cause: str) -> int:
    """Append to a history under an id of its cause; the new version, 0 if another was first."""
    stamp = Stamp(derived(cause, type(fact).__name__), now(), ACTOR, agg, cause)
    try:
        return await log.append(New(seal(fact, agg, stamp), version))
    except Conflict:
        logger.info("%s moved on after %s", agg, version)
        return 0


def _named(board: Board) -> dict[str, object]:
    return {"problem": board.problem, "gpu": board.gpu, "number": board.problem_number}
