"""The stage of a duel: two submissions in boxes of their own, timed in alternation.

One side is frozen while the other runs, every call is judged, and the blocks come in the order of
`timing.duel`. Both sides of a pair of blocks are given the same inputs.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from harness.messages import DUEL, SIDES, DuelReport, Progress
from harness.problem import Case
from harness.sandbox.box import SandboxFault
from harness.supervisor import verdict
from harness.supervisor.calls import Gate
from harness.supervisor.guests import Guests, Place
from harness.supervisor.purse import Purse
from harness.supervisor.structure import size_of
from harness.supervisor.team import Team
from harness.supervisor.timed import Clock, lost, stepped
from harness.supervisor.verdict import CaseFailed
from harness.supervisor.warm_ups import WarmUps
from harness.timing import records
from harness.timing.duel import PAIRS, ROUNDS, Pair, combine_cases, compare, order
from harness.timing.estimators import quantile
from harness.timing.gates import Noisy
from harness.timing.policy import Policy, policy_for
from harness.timing.process import Block, block_of
from harness.timing.source import CONTAMINATED, Sample

ROUND_PAIRS = PAIRS // ROUNDS
# Half of the budget, for a machine can be slower than it was; and others wait for the machine.
_SHARE = 0.5
_CASE_S_MAX = 20.0
_DUEL_S_MAX = 60.0
_NULL_S_MAX = 60.0
_WARM_UPS = 2
_REPEATS_MAX = 8
# What is left without the handshake is at least this share: less cannot be told from nothing.
_REST_MIN = 0.05
_LOST_SHARE_MAX = 0.02
_WALLS = ("namespaces", "freezer")


class SideFailed(Exception):  # noqa: N818  (STYLE.md, section 3: an outcome, not an error)
    """One side did not pass; `failure` says how, on which case."""

    def __init__(self, side: str, case: str, failure: CaseFailed) -> None:
        super().__init__(failure.message)
        self.side = side
        self.report = verdict.report(case, DUEL, failure)


@dataclass
class Side:
    """One of the two submissions: its boxes, its team at the moment, and its own budget."""

    name: str
    guests: Guests
    team: Team
    purse: Purse
    blocks: dict[str, list[dict[str, Any]]] = field(default_factory=dict)


@dataclass
class _CasePlan:
    """What is known of a case once its first calls were seen."""

    policy: Policy
    handshake_us: float
    null_spread_us: float
    calls: int = 0
    pairs: list[Pair] = field(default_factory=list)


def require_walls(place: Place) -> None:
    """Raise SandboxFault where two submissions cannot be kept apart, or none can be stopped."""
    missing = [wall for wall in _WALLS if wall not in place.walls]
    if missing:
        walls = " and ".join(missing)
        raise SandboxFault(f"a duel needs the walls {' and '.join(_WALLS)}; missing: {walls}")


class Duel:
    """Times two sides in alternation, in several rounds of fresh processes."""

    def __init__(
        self,
        sides: tuple[Side, Side],
        clock: Clock,
        warm_ups: WarmUps,
        tell: Callable[[Progress], None],
    ) -> None:
        self._sides = sides
        self._warm_ups = warm_ups
        self._clock = clock
        self._tell = tell
        self._plans: dict[str, _CasePlan] = {}
        self._repeats = 0

    def run(self, cases: Sequence[Case], ranking_by: str, budget_s: float) -> DuelReport:
        """Which side is faster. Errors: SideFailed, Noisy, SandboxFault, ProblemFault, DeviceFault.

        The n-th blocks of all cases make the n-th pair of scores, by the problem's ranking rule.
        """
        share_s = min(_CASE_S_MAX, min(_DUEL_S_MAX, _SHARE * budget_s) / len(cases))
        null = self._start_null()
        try:
            for round_ in range(ROUNDS):
                for done, case in enumerate(cases):
                    number, total = round_ * len(cases) + done, ROUNDS * len(cases)
                    self._tell(Progress(DUEL, case.name, number, total))
                    self._ready_teams(case, is_fresh=round_ > 0 and done == 0)
                    self._measure(case, null, share_s)
        finally:
            null.end()
        return self._report(cases, ranking_by)

    def record(self) -> bytes:
        """Every sample of both sides, compressed."""
        found = {
            name: {
                "handshake_us": plan.handshake_us,
                "pairs_us": plan.pairs,
                "sides": {side.name: side.blocks.get(name, []) for side in self._sides},
            }
            for name, plan in self._plans.items()
        }
        return records.compressed(found)

    def _start_null(self) -> Team:
        """A frozen team that does nothing, to show what the handshake of a call takes."""
        guests = self._sides[0].guests
        try:
            team = guests.start_null(is_bare=self._clock.court.device.tier == "C1")
            guests.welcome(team, time.monotonic() + _NULL_S_MAX)
            team.freeze()
        except CaseFailed as failure:
            raise SandboxFault(f"no null worker came: {failure.message}") from failure
        return team

    def _ready_teams(self, case: Case, *, is_fresh: bool) -> None:
        """Both teams with the ranks of a case, frozen; fresh ones at the start of a round."""
        for side in self._sides:
            fit = side.guests.renewed if is_fresh else side.guests.fitted
            try:
                side.team = fit(side.team, case.ranks, side.purse)
                side.team.freeze()
            except CaseFailed as failure:
                raise SideFailed(side.name, case.name, failure) from failure

    def _measure(self, case: Case, null: Team, share_s: float) -> None:
        """One case in one round: warm-ups, then the pairs of the round."""
        court, shapes = self._clock.court, self._clock.shapes[case.name]
        seeds = self._clock.seeds_of(case)
        self._require_fit_device()
        if case.name not in self._plans:
            self._plans[case.name] = self._plan(case, null, seeds)
        plan = self._plans[case.name]
        with ExitStack() as stack:
            gates = {
                side.name: stack.enter_context(Gate(court, side.team, case, shapes))
                for side in self._sides
            }
            self._warm_up(case, gates, seeds, share_s)
            blocks = order(ROUND_PAIRS)
            for first, second in zip(blocks[::2], blocks[1::2], strict=True):
                plan.pairs.append(self._pair(case, gates, (first, second), seeds))
            self._require_honesty(case, gates)
        self._require_fit_device()

    def _plan(self, case: Case, null: Team, seeds: Iterator[int]) -> _CasePlan:
        court, shapes = self._clock.court, self._clock.shapes[case.name]
        device = court.device
        policy = stepped(policy_for(device.name, DUEL), device.calibration())
        try:
            with Gate(court, null, case, shapes) as gate:
                times = [
                    gate.null(next(seeds), time.monotonic() + _NULL_S_MAX)
                    for _ in range(policy.nulls)
                ]
        except CaseFailed as failure:
            raise SandboxFault(f"the null worker failed: {failure.message}") from failure
        low, high = quantile(times, 0.1), quantile(times, 0.9)
        size = " ".join(f"{size_of(one.inputs)}+{size_of(one.outputs)}" for one in shapes)
        usual = self._clock.history.null_us(size)
        return _CasePlan(policy, low if usual is None else min(low, usual), high - low)

    def _warm_up(
        self, case: Case, gates: dict[str, Gate], seeds: Iterator[int], share_s: float
    ) -> None:
        """Call each side as in all blocks; in the first round that says how long blocks can be."""
        plan = self._plans[case.name]
        pair_s, times_us = 0.0, []
        for side in self._sides:
            try:
                self._warm_ups.warm_up(gates[side.name], side.purse)
            except CaseFailed as failure:
                raise SideFailed(side.name, case.name, failure) from failure
            walls_s = []
            for seed in islice(seeds, _WARM_UPS):
                began = time.monotonic()
                times_us.append(self._call(side, case, gates[side.name], seed).time_us)
                walls_s.append(time.monotonic() - began)
            # Both sides are called equally often, so the slow one takes most of the time.
            pair_s += min(walls_s)
        if not plan.calls:
            fits = int(share_s / (PAIRS * pair_s))
            plan.calls = max(1, min(plan.policy.calls(min(times_us), 0.0), fits))

    def _pair(
        self, case: Case, gates: dict[str, Gate], names: tuple[str, str], seeds: Iterator[int]
    ) -> Pair:
        """The values of A and B, without the handshake; measured again if the core was taken."""
        sides = {side.name: side for side in self._sides}
        while True:
            drawn = list(islice(seeds, self._plans[case.name].calls))
            blocks = {name: self._block(sides[name], case, gates[name], drawn) for name in names}
            is_spoilt = any(block.is_spoilt for block in blocks.values())
            if not is_spoilt or self._repeats >= _REPEATS_MAX:
                break
            self._repeats += 1
        one, other = (self._value_us(case, blocks[name]) for name in SIDES)
        return one, other

    def _block(self, side: Side, case: Case, gate: Gate, seeds: Sequence[int]) -> Block:
        began = time.monotonic()
        samples = tuple(self._call(side, case, gate, seed) for seed in seeds)
        policy = self._plans[case.name].policy
        block = block_of(samples, (), time.monotonic() - began, policy)
        side.blocks.setdefault(case.name, []).append(
            {
                "value_us": block.value_us,
                "time_us": [one.time_us for one in samples],
                "lost_us": [one.lost_us for one in samples],
                "flags": {str(at): one.flags for at, one in enumerate(samples) if one.flags},
            }
        )
        return block

    def _value_us(self, case: Case, block: Block) -> float:
        plan = self._plans[case.name]
        least_us = max(plan.policy.timer_step_us, _REST_MIN * block.value_us)
        return max(least_us, block.value_us - plan.handshake_us)

    def _call(self, side: Side, case: Case, gate: Gate, seed: int) -> Sample:
        """One judged call of a side, which is frozen before and after. Errors: SideFailed."""
        try:
            time_us = gate.call(seed, side.purse.until())
        except CaseFailed as failure:
            raise SideFailed(side.name, case.name, failure) from failure
        device = self._clock.court.device
        if device.name != "cpu":
            side.purse.spend(time_us)
            return Sample(time_us, device.flags)
        lost_us = lost(gate.idle_us, gate.waited_us, self._plans[case.name].handshake_us)
        is_disturbed = lost_us > _LOST_SHARE_MAX * time_us
        flags = (*device.flags, CONTAMINATED) if is_disturbed else device.flags
        side.purse.spend(time_us - lost_us)
        return Sample(time_us - lost_us, flags, lost_us)

    def _require_fit_device(self) -> None:
        if reasons := self._clock.court.device.unfit():
            raise Noisy("the machine is not fit to time: " + "; ".join(reasons))

    def _require_honesty(self, case: Case, gates: dict[str, Gate]) -> None:
        """Raise SideFailed where the device doubts the calls of a side."""
        spread_us = self._plans[case.name].null_spread_us
        for side in self._sides:
            inputs, _ = gates[side.name].memories[0]
            if doubt := self._clock.court.device.suspicion(inputs, spread_us):
                raise SideFailed(side.name, case.name, CaseFailed("suspicious", doubt))

    def _report(self, cases: Sequence[Case], ranking_by: str) -> DuelReport:
        by_case = [self._plans[case.name].pairs for case in cases]
        pairs = [
            (
                combine_cases(ranking_by, [one for one, _ in same]),
                combine_cases(ranking_by, [other for _, other in same]),
            )
            for same in zip(*by_case, strict=True)
        ]
        rounds = [pairs[at : at + ROUND_PAIRS] for at in range(0, len(pairs), ROUND_PAIRS)]
        found = compare(rounds)
        return DuelReport(
            winner=found.winner,
            ratio=found.ratio,
            interval=found.interval,
            pairs_us=pairs,
            round_pairs=ROUND_PAIRS,
        )
