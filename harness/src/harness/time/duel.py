"""The duel stage: two submissions in separate boxes, timed in alternation.

One side is frozen while the other runs, every call is judged, and the blocks follow the order of
`timing.duel`. Both sides of a pair of blocks get the same inputs.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import Any

from harness import messages
from harness.build.teams import Machine, StageBudget, WorkerTeams
from harness.check.calls import GatedCase, WarmUps
from harness.messages import DUEL, SIDES, CaseFailed, DuelReport, Progress
from harness.problem import Case
from harness.sandbox.box import SandboxFault
from harness.sandbox.team import Team
from harness.time import combination
from harness.time.estimators import (
    PAIRS,
    ROUNDS,
    Pair,
    block_order,
    combine_cases,
    compare_rounds,
    quantile,
)
from harness.time.policy import Policy, policy_for
from harness.time.process import CONTAMINATED, Block, NoisyMachine, Sample, make_block
from harness.time.stage import TimingContext, lost_time_us, time_null_us, with_timer_step

ROUND_PAIRS = PAIRS // ROUNDS
# Half of the budget: the machine may become slower, and other jobs wait for it.
_SHARE = 0.5
_CASE_S_MAX = 20.0
_DUEL_S_MAX = 60.0
_WARM_UPS = 2
_REPEATS_MAX = 8
_LOST_SHARE_MAX = 0.02
_WALLS = ("namespaces", "freezer")


class SideFailed(Exception):  # noqa: N818  (STYLE.md, section 3: an outcome, not an error)
    """One side did not pass; `report` says how, and on which case."""

    def __init__(self, side: str, case: str, failure: CaseFailed) -> None:
        super().__init__(failure.message)
        self.side = side
        self.report = messages.failed_case_report(case, DUEL, failure)


@dataclass
class DuelSide:
    """One of the two submissions: its teams, its current team, and its own budget."""

    name: str
    worker_teams: WorkerTeams
    team: Team
    budget: StageBudget
    blocks: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    @contextmanager
    def failing_on(self, case: Case) -> Iterator[None]:
        """Within it, a failure on a case is this side's."""
        try:
            yield
        except CaseFailed as failure:
            raise SideFailed(self.name, case.name, failure) from failure


@dataclass
class _CasePlan:
    """What the first calls of a case have shown."""

    policy: Policy
    handshake_us: float
    null_spread_us: float
    calls: int = 0
    pairs: list[Pair] = field(default_factory=list)


def require_walls(machine: Machine) -> None:
    """Raise SandboxFault if two submissions cannot be separated or frozen here."""
    missing = [wall for wall in _WALLS if wall not in machine.walls]
    if missing:
        walls = " and ".join(missing)
        raise SandboxFault(f"a duel needs the walls {' and '.join(_WALLS)}; missing: {walls}")


class Duel:
    """Times two sides in alternation, in several rounds of fresh processes."""

    def __init__(
        self,
        sides: tuple[DuelSide, DuelSide],
        clock: TimingContext,
        warm_ups: WarmUps,
        tell: Callable[[Progress], None],
    ) -> None:
        self._sides = sides
        self._warm_ups = warm_ups
        self._context = clock
        self._report_progress = tell
        self._plans: dict[str, _CasePlan] = {}
        self._repeats = 0

    def run(self, cases: Sequence[Case], ranking_by: str, budget_s: float) -> DuelReport:
        """Return which side is faster.

        The n-th blocks of all cases make the n-th pair of scores, by the problem's ranking rule.
        Raises SideFailed, NoisyMachine, SandboxFault, ProblemFault, DeviceFault.
        """
        share_s = min(_CASE_S_MAX, min(_DUEL_S_MAX, _SHARE * budget_s) / len(cases))
        null = self._context.start_null(self._sides[0].worker_teams)
        try:
            for round_ in range(ROUNDS):
                for done_count, case in enumerate(cases):
                    number, total = round_ * len(cases) + done_count, ROUNDS * len(cases)
                    self._report_progress(Progress(DUEL, case.name, number, total))
                    self._ready_teams(case, is_fresh=round_ > 0 and done_count == 0)
                    self._measure(case, null, share_s)
        finally:
            null.end()
        return self._report(cases, ranking_by)

    def record(self) -> bytes:
        """Return every sample of both sides, compressed."""
        plans = {
            name: {
                "handshake_us": plan.handshake_us,
                "pairs_us": plan.pairs,
                "sides": {side.name: side.blocks.get(name, []) for side in self._sides},
            }
            for name, plan in self._plans.items()
        }
        return combination.compress_records(plans)

    def _ready_teams(self, case: Case, *, is_fresh: bool) -> None:
        """Give both sides a frozen team with the ranks of a case; fresh ones for a new round."""
        for side in self._sides:
            fit = side.worker_teams.renew_team if is_fresh else side.worker_teams.fit_team
            with side.failing_on(case):
                side.team = fit(side.team, case.ranks, side.budget)
                side.team.freeze()

    def _measure(self, case: Case, null: Team, share_s: float) -> None:
        """Measure one case in one round: warm-ups, then the pairs of the round."""
        judge_context, shapes = self._context.judge_context, self._context.shapes[case.name]
        seeds = self._context.seeds_of(case)
        self._require_fit_device()
        if case.name not in self._plans:
            self._plans[case.name] = self._plan(case, null, seeds)
        plan = self._plans[case.name]
        with ExitStack() as stack:
            gates = {
                side.name: stack.enter_context(GatedCase(judge_context, side.team, case, shapes))
                for side in self._sides
            }
            self._warm_up(case, gates, seeds, share_s)
            blocks = block_order(ROUND_PAIRS)
            for first, second in zip(blocks[::2], blocks[1::2], strict=True):
                plan.pairs.append(self._measure_pair(case, gates, (first, second), seeds))
            self._require_honesty(case, gates)
        self._require_fit_device()

    def _plan(self, case: Case, null: Team, seeds: Iterator[int]) -> _CasePlan:
        judge_context, shapes = self._context.judge_context, self._context.shapes[case.name]
        device = judge_context.device
        policy = with_timer_step(policy_for(device.name, DUEL), device.calibration())
        with GatedCase(judge_context, null, case, shapes) as gate:
            times = [time_null_us(gate, next(seeds)) for _ in range(policy.nulls)]
        low, high = quantile(times, 0.1), quantile(times, 0.9)
        usual_us = self._context.history.null_us(self._context.memory_sizes(case))
        return _CasePlan(policy, low if usual_us is None else min(low, usual_us), high - low)

    def _warm_up(
        self, case: Case, gates: dict[str, GatedCase], seeds: Iterator[int], share_s: float
    ) -> None:
        """Call each side as in all blocks; in the first round this sets the length of blocks."""
        plan = self._plans[case.name]
        pair_s, times_us = 0.0, []
        for side in self._sides:
            with side.failing_on(case):
                self._warm_ups.warm_up(gates[side.name], side.budget)
            walls_s = []
            for seed in islice(seeds, _WARM_UPS):
                began = time.monotonic()
                times_us.append(self._call(side, case, gates[side.name], seed).time_us)
                walls_s.append(time.monotonic() - began)
            # Both sides get equally many calls, so the slow one takes most of the time.
            pair_s += min(walls_s)
        if not plan.calls:
            fits = int(share_s / (PAIRS * pair_s))
            plan.calls = max(1, min(plan.policy.calls(min(times_us), 0.0), fits))

    def _measure_pair(
        self, case: Case, gates: dict[str, GatedCase], names: tuple[str, str], seeds: Iterator[int]
    ) -> Pair:
        """Return the values of A and B without the handshake; repeat if the core was taken away."""
        sides = {side.name: side for side in self._sides}
        while True:
            block_seeds = list(islice(seeds, self._plans[case.name].calls))
            blocks = {
                name: self._measure_block(sides[name], case, gates[name], block_seeds)
                for name in names
            }
            is_spoilt = any(block.is_spoilt for block in blocks.values())
            if not is_spoilt or self._repeats >= _REPEATS_MAX:
                break
            self._repeats += 1
        plan = self._plans[case.name]
        value_a, value_b = (
            combination.work_us(blocks[name].value_us, plan.handshake_us, plan.policy)
            for name in SIDES
        )
        return value_a, value_b

    def _measure_block(
        self, side: DuelSide, case: Case, gate: GatedCase, seeds: Sequence[int]
    ) -> Block:
        began = time.monotonic()
        samples = tuple(self._call(side, case, gate, seed) for seed in seeds)
        policy = self._plans[case.name].policy
        block = make_block(samples, (), time.monotonic() - began, policy)
        side.blocks.setdefault(case.name, []).append(
            {
                "value_us": block.value_us,
                "time_us": [sample.time_us for sample in samples],
                "lost_us": [sample.lost_us for sample in samples],
                "flags": {
                    str(index): sample.flags for index, sample in enumerate(samples) if sample.flags
                },
            }
        )
        return block

    def _call(self, side: DuelSide, case: Case, gate: GatedCase, seed: int) -> Sample:
        """Make one judged call of a side, which is frozen before and after. Raises SideFailed."""
        with side.failing_on(case):
            time_us = gate.call(seed, side.budget.until())
        device = self._context.judge_context.device
        if device.name != "cpu":
            side.budget.spend(time_us)
            return Sample(time_us, device.flags)
        lost_us = lost_time_us(gate.idle_us, gate.waited_us, self._plans[case.name].handshake_us)
        is_disturbed = lost_us > _LOST_SHARE_MAX * time_us
        flags = (*device.flags, CONTAMINATED) if is_disturbed else device.flags
        side.budget.spend(time_us - lost_us)
        return Sample(time_us - lost_us, flags, lost_us)

    def _require_fit_device(self) -> None:
        if reasons := self._context.judge_context.device.unfit():
            raise NoisyMachine("the machine is unfit for timing: " + "; ".join(reasons))

    def _require_honesty(self, case: Case, gates: dict[str, GatedCase]) -> None:
        """Raise SideFailed if the device finds the calls of a side suspicious."""
        spread_us = self._plans[case.name].null_spread_us
        for side in self._sides:
            inputs, _ = gates[side.name].memories[0]
            if doubt := self._context.judge_context.device.suspicion(inputs, spread_us):
                raise SideFailed(side.name, case.name, CaseFailed("suspicious", doubt))

    def _report(self, cases: Sequence[Case], ranking_by: str) -> DuelReport:
        by_case = [self._plans[case.name].pairs for case in cases]
        pairs = [
            (
                combine_cases(ranking_by, [value_a for value_a, _ in case_pairs]),
                combine_cases(ranking_by, [value_b for _, value_b in case_pairs]),
            )
            for case_pairs in zip(*by_case, strict=True)
        ]
        rounds = [pairs[start : start + ROUND_PAIRS] for start in range(0, len(pairs), ROUND_PAIRS)]
        comparison = asdict(compare_rounds(rounds))
        return DuelReport(**comparison, pairs_us=pairs, round_pairs=ROUND_PAIRS)
