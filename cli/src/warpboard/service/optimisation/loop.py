"""The loop of the optimiser: propose, evaluate in the harness, keep, and confirm the best.

Proposals pass through successive halving: all are checked, those that pass are timed roughly, and
the best third precisely, because most are wrong or plainly slower, which one cheap look shows.
"""

import asyncio
import math
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any, Protocol

from harness.evaluations import Evaluation, known_reward
from harness.evaluator import EvaluationMode
from warpboard.optimiser_files import Stage, TraceFile, TraceLine
from warpboard.service.optimisation.pool import Candidate, Pool, Proposal
from warpboard.service.optimisation.proposers import Proposer

# The half width of the interval of a rough time; a precise one has the mode's own, 5 %.
SCREEN_PRECISION = 0.2
KEPT_SHARE = 1 / 3
# A time that is too noisy to count, or no verdict, is tried again: so often in all.
ATTEMPTS = 2
_MODES: dict[Stage, tuple[EvaluationMode, float]] = {
    "test": ("test", 0.0),
    "screen": ("benchmark", SCREEN_PRECISION),
    "benchmark": ("benchmark", 0.0),
    "confirm": ("benchmark", 0.0),
}


class Evaluate(Protocol):
    """Evaluates kernels in the isolated harness."""

    def __call__(
        self, candidates: Sequence[Candidate], mode: EvaluationMode, precision: float
    ) -> AsyncGenerator[tuple[Candidate, Evaluation], None]:
        """Yield how each ended, as they end."""


@dataclass(frozen=True)
class Duel:
    """How a kernel compares with the start, timed in alternation: a speed-up with its interval."""

    verdict: str
    reason: str
    speedup: float | None = None
    interval: tuple[float, float] | None = None
    took_s: float = 0.0


@dataclass(frozen=True)
class Budget:
    """How much a run may use in all its calls; the confirmation is one of the evaluations."""

    evaluations: int
    seconds: float


@dataclass(frozen=True)
class ProblemName:
    """What a trace says of the problem."""

    slug: str
    digest: str


class Optimiser:
    """A run of the optimiser, which goes on where its trace ends."""

    def __init__(
        self,
        trace: TraceFile,
        problem: ProblemName,
        budget: Budget,
        evaluate: Evaluate,
        report: Callable[["Optimiser"], None],
    ) -> None:
        self.pool = Pool(trace.lines)
        self.budget = budget
        self._trace, self._problem = trace, problem
        self._evaluate, self._report = evaluate, report
        self._before_s = max((line.elapsed_s for line in trace.lines), default=0.0)
        self._began = time.monotonic()

    @property
    def elapsed_s(self) -> float:
        """The seconds that all calls have taken so far."""
        return self._before_s + time.monotonic() - self._began

    @property
    def evaluations(self) -> int:
        """How many evaluations all calls have made so far."""
        return len(self._trace.lines)

    @property
    def remaining(self) -> int:
        """How many evaluations are left, without the one that confirms the best."""
        return max(0, self.budget.evaluations - 1 - self.evaluations)

    @property
    def _remaining_s(self) -> float:
        return max(0.0, self.budget.seconds - self.elapsed_s)

    @property
    def is_over(self) -> bool:
        """Whether the budget is used up."""
        return not self.remaining or self.elapsed_s >= self.budget.seconds

    @property
    def is_beginning(self) -> bool:
        """Whether nothing has been proposed so far, so that kernels may still be retrieved."""
        return not self.pool.candidates or not self.pool.newest_round[0].round

    async def begin(self, start: Proposal, retrieved: Sequence[Proposal]) -> Candidate:
        """Evaluate the start and what was retrieved, as far as that is not in the trace."""
        if not self.pool.candidates:
            self.pool.add(start, 0)
        if self.is_beginning:
            for proposal in retrieved:
                if not self.pool.knows(proposal.source):
                    self.pool.add(proposal, 0)
        first, *others = [kernel for kernel in self.pool.candidates if kernel.round == 0]
        # A trace begins with its start, by which a call that goes on knows it.
        await self._run_stage([first], "test")
        await self._run_stage(others, "test")
        await self._run_stage([first], "benchmark")
        await self._run_stage(others, "screen")
        self.pool.forget_unevaluated()
        return first

    async def improve(self, proposer: Proposer, population: int) -> None:
        """Run rounds of proposals until the budget is used up or nothing more is proposed.

        Raises what the proposer raises.
        """
        if self.pool.newest_round[0].round > 0:
            await self._halve(self.pool.newest_round)
        while not self.is_over:
            proposals: list[Proposal] = []
            with suppress(TimeoutError):
                async with asyncio.timeout(self._remaining_s):
                    count = min(population, self.remaining)
                    proposals = await proposer.propose(self.pool, count)
            if not proposals:
                return
            round_ = self.pool.newest_round[0].round + 1
            await self._halve([self.pool.add(proposal, round_) for proposal in proposals])
            self.pool.forget_unevaluated()

    async def _halve(self, candidates: Sequence[Candidate]) -> None:
        """Check all, time those that pass roughly, and the best third precisely."""
        await self._run_stage(candidates, "test")
        await self._run_stage(candidates, "screen")
        timed = [kernel for kernel in candidates if kernel.low_at("screen") is not None]
        timed = timed or [kernel for kernel in candidates if kernel.estimate is not None]
        timed.sort(key=lambda kernel: -(kernel.low_at("screen") or kernel.estimate or 0.0))
        await self._run_stage(timed[: math.ceil(KEPT_SHARE * len(timed))], "benchmark")

    async def _run_stage(self, candidates: Sequence[Candidate], stage: Stage) -> None:
        """Evaluate those that are right so far, as far as the budget allows."""
        for _ in range(ATTEMPTS):
            waiting = [kernel for kernel in candidates if _waits(kernel, stage)][: self.remaining]
            if not waiting or self.is_over:
                return
            mode, precision = _MODES[stage]
            with suppress(TimeoutError):
                async with (
                    asyncio.timeout(self._remaining_s),
                    aclosing(self._evaluate(waiting, mode, precision)) as results,
                ):
                    async for candidate, evaluation in results:
                        self._append(candidate, self._judge(candidate, stage, evaluation))

    async def confirm(
        self,
        best: Candidate,
        compare: Callable[[Candidate, Candidate], Awaitable[Duel]],
    ) -> TraceLine:
        """Time the best beside the start once more; return what the trace says of it.

        A start that does not pass, such as a module to translate, cannot be timed: then the best
        is benchmarked again.
        """
        known = best.result("confirm")
        if known is not None and known.verdict and self._trace.lines[-1] == known:
            return known
        if not self.pool.start.has_passed:
            async for candidate, evaluation in self._evaluate([best], *_MODES["confirm"]):
                self._append(candidate, self._judge(candidate, "confirm", evaluation))
        else:
            for _ in range(ATTEMPTS):
                duel = await compare(best, self.pool.start)
                self._append(best, self._compare(best, duel))
                if duel.verdict:
                    break
        return best.lines[-1]

    def _judge(self, candidate: Candidate, stage: Stage, evaluation: Evaluation) -> TraceLine:
        fields = {name: getattr(evaluation, name) for name in _EVALUATION_FIELDS}
        over = "yardstick" if evaluation.speedup else ""
        return TraceLine(
            **self._describe(candidate, stage),
            **fields,
            speedup_over=over,
            reward=known_reward(evaluation),
        )

    def _compare(self, candidate: Candidate, duel: Duel) -> TraceLine:
        return TraceLine(**self._describe(candidate, "confirm"), **vars(duel), speedup_over="start")

    def _append(self, candidate: Candidate, line: TraceLine) -> None:
        self._trace.append(line)
        candidate.lines.append(line)
        self._report(self)

    def _describe(self, candidate: Candidate, stage: Stage) -> dict[str, Any]:
        """Return the fields of a line that say what was evaluated, and why."""
        proposal = candidate.proposal
        fields = {name: getattr(proposal, name) for name in _PROPOSAL_FIELDS}
        return fields | {
            "candidate": candidate.id,
            "round": candidate.round,
            "stage": stage,
            "problem": self._problem.slug,
            "problem_digest": self._problem.digest,
            "elapsed_s": self.elapsed_s,
        }


_EVALUATION_FIELDS = (
    *("verdict", "reason", "failure_code", "speedup", "interval", "time_us", "grade"),
    *("harness_code", "device", "level", "tier", "took_s"),
)
_PROPOSAL_FIELDS = (
    *("origin", "name", "source", "parents", "submission", "values"),
    *("prompt", "completion", "model", "tokens"),
)


def _waits(candidate: Candidate, stage: Stage) -> bool:
    """Return whether a stage is to be evaluated, also again after noise or without a verdict."""
    if stage != "test" and not candidate.has_passed:
        return False
    result = candidate.result(stage)
    if result is None:
        return True
    is_judged = result.verdict and (stage == "test" or not result.has_passed or result.low)
    return not is_judged and candidate.attempts(stage) < ATTEMPTS
