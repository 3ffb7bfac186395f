"""When each waiting job may begin, from how long such runs took lately, or why it cannot."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from heapq import heapify, heappop, heappush

import msgspec

from scheduler.domain import fair
from scheduler.domain.board import Board, Job, Pool
from scheduler.domain.fair import Policy
from scheduler.domain.match import Candidate, Need, need_of, objection
from scheduler.domain.moves import World

JOBS_TOLD_MAX = 300
JOBS_LOOKED_AT_MAX = 2000
WHY_LENGTH_MAX = 200
KINDS_MAX = 16
MEDIAN, HIGH = 0.5, 0.9


class Row(msgspec.Struct, frozen=True, array_like=True):
    """A waiting submission: its place, in how many seconds it may begin, or why it cannot."""

    submission: str
    position: int
    eta_s: float | None
    eta_p90_s: float | None
    why: str


class Forecast(msgspec.Struct, frozen=True):
    """A pool as those see it who wait for it; `depth` counts all, `jobs` the first few hundred."""

    gpu: str
    at: datetime
    paused: str | None
    free: int
    busy: int
    depth: int
    run_s: dict[str, float]
    jobs: list[Row]


def quantile(values: Iterable[float], share: float) -> float:
    """The value under which this share of them lies, by nearest rank; 0 if there are none.

    >>> quantile([4, 1, 3, 2], 0.5), quantile([], 0.9)
    (2, 0.0)
    """
    ranked = sorted(values)
    if not ranked:
        return 0.0
    return ranked[max(0, min(len(ranked) - 1, int(share * len(ranked) + 0.5) - 1))]


def forecast(
    board: Board, gpu: str, alive: Sequence[Candidate], world: World, policy: Policy
) -> Forecast:
    """What a pool would do from now on if nothing more came."""
    pool = board.pools.get(gpu) or Pool()
    serving = [one for one in alive if not one.out_of_service and not one.agent.cordon]
    free = sum(one.is_free for one in serving)
    return Forecast(
        gpu=gpu,
        at=world.now,
        paused=pool.paused,
        free=free,
        busy=len(serving) - free,
        depth=sum(len(queue) for lane in pool.lanes.values() for queue in lane.waiting.values()),
        run_s=_run_s(pool),
        jobs=_rows(board, pool, policy, _Ahead(board, pool, alive, serving, world)),
    )


def _run_s(pool: Pool) -> dict[str, float]:
    newest = list(pool.recent_s.values())[-KINDS_MAX:]
    took_s = [one for kind in newest for one in kind]
    return {"p50": round(quantile(took_s, MEDIAN), 3), "p90": round(quantile(took_s, HIGH), 3)}


def _rows(board: Board, pool: Pool, policy: Policy, ahead: "_Ahead") -> list[Row]:
    taken: set[str] = set()
    rows: list[Row] = []
    for id_ in fair.order(pool, policy, taken, lambda id_: fair.cost_s(pool, board.jobs[id_])):
        taken.add(id_)
        job = board.jobs[id_]
        row = ahead.row(job, len(taken))
        if not job.is_side:
            rows.append(row)
        if len(rows) == JOBS_TOLD_MAX or len(taken) == JOBS_LOOKED_AT_MAX:
            break
    return rows


@dataclass
class _Ahead:
    """The agents of a pool in the time to come: when each is free, at the usual and at the worst.

    Every agent is thought to take every job that some agent could take: an estimate.
    """

    board: Board
    pool: Pool
    alive: Sequence[Candidate]
    serving: Sequence[Candidate]
    world: World

    def __post_init__(self) -> None:
        self.whys: dict[Need, str] = {}
        self.free_in = {share: self._free_in(share) for share in (MEDIAN, HIGH)}

    def row(self, job: Job, position: int) -> Row:
        """A job at its place; it takes its agents' time from those behind it."""
        why = self._why(job)
        if why:
            return Row(job.submission, position, None, None, why)
        usual, late = (self._begin(job, share) for share in (MEDIAN, HIGH))
        return Row(job.submission, position, round(usual, 1), round(max(usual, late), 1), "")

    def _why(self, job: Job) -> str:
        if self.pool.paused is not None:
            return f"the pool is paused: {self.pool.paused}"[:WHY_LENGTH_MAX]
        need = need_of(job)
        if need not in self.whys:
            self.whys[need] = objection(need, self.alive)[:WHY_LENGTH_MAX]
        return self.whys[need]

    def _begin(self, job: Job, share: float) -> float:
        heap = self.free_in[share]
        count = min(job.requires.count, len(heap))
        begin_s = max((heappop(heap) for _ in range(count)), default=0.0)
        for _ in range(count):
            heappush(heap, begin_s + quantile(fair.recent_s(self.pool, job), share))
        return begin_s

    def _free_in(self, share: float) -> list[float]:
        heap = [self._left_s(one, share) for one in self.serving]
        heapify(heap)
        return heap

    def _left_s(self, one: Candidate, share: float) -> float:
        run = self.board.runs.get(one.agent.run)
        job = self.board.jobs.get(run.job) if run else None
        if run is None or job is None:
            return 0.0
        gone_s = (self.world.now - run.assigned_at).total_seconds()
        return max(0.0, quantile(fair.recent_s(self.pool, job), share) - gone_s)
