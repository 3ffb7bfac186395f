"""Duels: requested for tied neighbours of a podium, and judged once their job is over."""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import isfinite
from typing import Any

import msgspec

from ranker.domain.attestation import Fault, Origin, find_fault
from ranker.domain.batch import Told
from ranker.domain.eligibility import Demand, objection
from ranker.domain.records import PODIUM
from ranker.service.announcing import say
from ranker.service.ports import Board, Reads
from ranker.service.top import Placed
from shared import signing, subjects
from shared.event_log import EventLog, Recorded
from shared.events import (
    Blob,
    DuelJudged,
    DuelRequested,
    DuelResult,
    DuelSide,
    JobAssigned,
    JobCancelled,
    JobFinished,
    JobGivenUp,
    JobLeased,
    RunCompleted,
    RunStarted,
)
from shared.ids import duel_job, podium_duel
from shared.wire import UnknownEvent, is_genuine

log = logging.getLogger(__name__)

# So many duels of one leaderboard wait for an agent; what is tied beyond that waits for them.
OPEN_MAX = 4
RATIO_MAX = 1e6
ENDS = (JobFinished, JobGivenUp, JobCancelled)

Row = dict[str, Any]


@dataclass
class Duels:
    """Requests duels and judges them; what is decided twice is one event.

    `open` are the duels without a result by their job, None where they must be read again.
    """

    log: EventLog
    reads: Reads
    wanted: Demand
    is_on: bool = True
    open: dict[str, Row] | None = None
    ended: set[str] | None = None
    said: set[str] = field(default_factory=set)

    def hear(self, batch: Sequence[Told]) -> set[Board]:
        """Note which jobs ended and which duels began; the leaderboards that a duel reordered."""
        moved = set()
        for told in batch:
            if isinstance(told.fact, ENDS) and self.ended is not None:
                self.ended.add(told.id)
            elif isinstance(told.fact, DuelRequested):
                self.open = None
            elif isinstance(told.fact, DuelJudged) and is_genuine(told.event.envelope):
                self.open = None
                fact = told.fact
                moved.add(Board(fact.problem, fact.gpu, fact.problem_number))
        return moved

    def forget(self) -> None:
        """Look at every open duel again: nobody knows what ended meanwhile."""
        self.open, self.ended = None, None

    async def judge(self) -> None:
        """Judge the duels whose job is over. Errors: Failed."""
        if self.open is None:
            rows = await self.reads.rows("duels_open")
            self.open = {duel_job(row["id"]): row for row in rows}
        ended = set(self.open) if self.ended is None else self.ended & self.open.keys()
        for job in sorted(ended):
            await self._judge(job, self.open[job])
        self.ended = set()

    async def request(self, board: Board, placed: Sequence[Placed]) -> None:
        """Request the duels of neighbours on a podium that share a rank, once for each pair.

        None while no agent of the GPU type takes duels.

        Errors: Failed.
        """
        pairs = [pair for pair in pairwise(placed[:PODIUM]) if _is_tied_pair(*pair)]
        if not pairs or not self.is_on:
            return
        if not await self.reads.rows("duel_agents", gpu=board.gpu):
            return
        known = await self.reads.rows("duels_of_board", **_named(board))
        had = {frozenset((row["first_source"], row["second_source"])) for row in known}
        open_count = sum(row["judged_seq"] is None for row in known)
        for one, other in pairs:
            sources = one.row["source"], other.row["source"]
            id_ = podium_duel(board.problem, board.problem_number, board.gpu, sources)
            if frozenset(sources) in had or id_ in self.said or open_count >= OPEN_MAX:
                continue
            fact = await self._requested(board, one.row["submission"], other.row["submission"])
            if fact is not None:
                await say(self.log, subjects.duel(id_), fact, 0, id_)
                self.said.add(id_)
                open_count += 1

    async def _requested(self, board: Board, first: str, second: str) -> DuelRequested | None:
        rows = await self.reads.rows(
            "duel_sides", submissions=[first, second], number=board.problem_number
        )
        sides = {row["id"]: row for row in rows}
        if first not in sides or second not in sides:
            return None
        return DuelRequested(
            problem=board.problem,
            problem_number=board.problem_number,
            problem_digest=sides[first]["digest"],
            gpu=board.gpu,
            first=_side(sides[first]),
            second=_side(sides[second]),
            reason="tied neighbours among the first three",
        )

    async def _judge(self, job: str, duel: Row) -> None:
        history = [one for one in await self.log.history(subjects.job(job)) if _is_read(one)]
        facts = [one.fact for one in history]
        end = next((fact for fact in facts if isinstance(fact, ENDS)), None)
        if end is None:
            return
        board = {name: duel[name] for name in ("problem", "problem_number", "gpu")}
        if isinstance(end, JobFinished):
            leases = (fact for fact in facts if isinstance(fact, JobLeased))
            agent = next(lease.agent for lease in leases if lease.run == end.run)
            fact = await self._verdict(job, agent, end.run, board)
        else:
            fact = DuelJudged(**board, code="given_up", reason=end.reason)
        await say(self.log, subjects.duel(duel["id"]), fact, duel["seq"], duel["id"])

    async def _verdict(self, job: str, agent: str, run: str, board: Row) -> DuelJudged:
        """What a run says of its duel, if its agent vouches for it."""
        history = [one for one in await self.log.history(subjects.run(agent, run)) if _is_read(one)]
        order = _first(history, JobAssigned)
        if order is None or order.fact.job != job:
            return DuelJudged(**board, run=run, code="no_run", reason="its run was of another job")
        # What an agent says of a run before its order means nothing.
        history = [one for one in history if one.seq > order.seq]
        began, ended = _first(history, RunStarted), _first(history, RunCompleted)
        if ended is None:
            return DuelJudged(**board, run=run, code="no_run", reason="its run left no verdict")
        (keys,) = await self.reads.rows("agent_then", agent=agent, seq=ended.seq)
        origin = Origin(
            agent=agent,
            run=run,
            token=order.seq,
            sign_key=keys["sign_key"],
            key_commit=began.fact.key_commit if began else None,
            harness_code=keys["harness_code"] or "",
        )
        said = ended.fact
        fault = find_fault(ended.envelope, said.key, said.environment, origin, signing.verify)
        fault = fault or self._objection(began, said)
        if fault is not None:
            return DuelJudged(**board, run=run, code=fault.code, reason=fault.reason)
        if said.verdict != "passed":
            return DuelJudged(**board, run=run, code=said.verdict, reason=said.reason)
        return DuelJudged(**board, run=run, result=said.duel, code="judged")

    def _objection(self, began: Any, said: RunCompleted) -> Fault | None:
        """Why a verdict of this machine, or this verdict, is worth nothing here."""
        level, tier = (began.fact.level, began.fact.tier) if began else ("", "")
        against = objection(self.wanted, level, tier, ())
        if against is not None:
            return Fault(*against)
        if said.verdict == "passed" and not is_sound(said.duel):
            return Fault("bad_result", "the run passed, but what it says of the duel is no result")
        return None


def is_sound(result: DuelResult | None) -> bool:
    """Whether a result can be one: a winner, and a ratio within its interval.

    >>> is_sound(DuelResult(winner="A", ratio=0.9, interval=(0.8, 0.95)))
    True
    >>> is_sound(DuelResult(winner="A", ratio=1.1, interval=(1.0, 1.2)))
    False
    """
    if result is None or result.ratio is None or result.interval is None or result.failed:
        return False
    low, high = result.interval
    if not all(isfinite(one) and 1 / RATIO_MAX < one < RATIO_MAX for one in (low, high)):
        return False
    faster = {"A": high < 1, "B": low > 1, "equal": True}
    return low <= result.ratio <= high and faster.get(result.winner, False)


def _is_tied_pair(one: Placed, other: Placed) -> bool:
    """Whether two neighbours share a rank with sources of their own."""
    return one.place.rank == other.place.rank and one.row["source"] != other.row["source"]


def _side(row: Row) -> DuelSide:
    source = Blob(digest=row["source"], bytes=row["source_bytes"], media=row["source_media"])
    return DuelSide(
        submission=row["id"],
        number=row["number"],
        account=row["account"],
        source=source,
        name=row["name"],
    )


def _is_read(event: Recorded) -> bool:
    """Whether an event is from who may write its type, and says something that can be read."""
    try:
        return is_genuine(event.envelope) and event.fact is not None
    except (msgspec.MsgspecError, UnknownEvent):
        return False


def _first(history: Iterable[Recorded], kind: type[Any]) -> Any:
    """The first event of a kind, None if there is none."""
    return next((one for one in history if one.envelope.type == kind.__name__), None)


def _named(board: Board) -> Row:
    return {"problem": board.problem, "gpu": board.gpu, "number": board.problem_number}
