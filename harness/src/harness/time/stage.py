"""The timed stages: two sides in fresh processes, a block of each in turn, and a null worker.

In a ranked run or a benchmark the submission is timed beside the yardstick, in a duel beside its
rival. One side is frozen while the other runs, and both sides of a pair of blocks get the same
inputs.
"""

import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from itertools import islice

from harness.check.calls import GatedCase
from harness.messages import CaseFailed, CaseReport, Progress, hide_details
from harness.problem import Case
from harness.ranking_rules import combine_times
from harness.sandbox.box import SandboxFault
from harness.sandbox.team import Team
from harness.time.batches import ShortCase, measure_batch
from harness.time.combination import (
    CaseTime,
    combine_processes,
    compress_records,
    is_noisy,
    make_record,
    measure_ratio,
    run_figures,
)
from harness.time.policy import Policy, policy_for
from harness.time.procedure import ClockWarmUp, measure_edge, measure_process
from harness.time.process import MeasurementPlan, Process, Sample
from harness.time.sides import (
    GatedPair,
    Side,
    TimingContext,
    call_flags,
    clock_without_freezing,
)
from harness.vocabulary import DUEL, SIDES

A, B = SIDES
# A stage plans with half of its budget, because the machine may become slower.
_BUDGET_SHARE = 0.5
_NULL_S_MAX = 60.0
_NULLS_BLOCK = 10
_NULLS_S_MAX = 0.1
_SHARE_S_MIN = 0.05
_IN_PROCESS = "G0"
_ATTEMPTS_MAX = 2


class NoisyMachine(Exception):  # noqa: N818  (STYLE.md, section 3: an outcome, not an error)
    """The machine was unfit for timing: its fault, not the submission's."""


@dataclass
class _TimedCase:
    """What is known of a case so far; `columns` and `doubt` are what the device says of it."""

    case: Case
    plan: MeasurementPlan
    processes: list[Process] = field(default_factory=list)
    columns: dict[str, float] = field(default_factory=dict)
    doubt: str = ""

    @property
    def time(self) -> CaseTime:
        """The time by all processes so far; there must be one."""
        return combine_processes(self.processes, self.plan)


class StageTimer:
    """Times every case in as many fresh processes of both sides as the mode needs."""

    def __init__(
        self, sides: tuple[Side, Side], context: TimingContext, mode: str, stage: str
    ) -> None:
        self.sides = sides
        self._context = context
        self._stage = stage
        device = context.judge_context.device
        self.policy = _with_timer_step(
            policy_for(device.name, mode, context.precision), device.calibration()
        )
        self._clock_warm_up = ClockWarmUp(self.policy)
        self._cases: list[_TimedCase] = []
        self._measured_us = 0.0
        self.stopped = ""
        self.sigma_run = 0.0
        self.tie_us = 0.0

    def run(
        self, cases: Sequence[Case], ranking_by: str = "", best_us: float = 0.0
    ) -> list[CaseReport]:
        """Return how every case ended; the teams of the sides have already imported their files.

        A run stops after its first process if even then its score cannot be under `best_us`.
        Raises SideFailed, NoisyMachine, SandboxFault, ProblemFault, DeviceFault.
        """
        began_s = time.monotonic()
        self._measure(cases, ranking_by, best_us)
        share = self._measured_us / 1e6 / (time.monotonic() - began_s)
        times = [timed.time for timed in self._cases]
        self.sigma_run, self.tie_us = run_figures(times)
        return [
            report_timed_case(
                timed.case, case_time, timed.doubt, timed.columns | {"measured_share": share}
            )
            for timed, case_time in zip(self._cases, times, strict=True)
        ]

    def run_duel(self, cases: Sequence[Case]) -> list[list[tuple[float, float]]]:
        """Measure a duel; return the values of A and B of each pair of each process, by case."""
        self._measure(cases, "", 0.0)
        return [
            [pair.values_us(timed.plan) for process in timed.processes for pair in process.pairs]
            for timed in self._cases
        ]

    def record(self) -> bytes:
        """Return every sample of every case, compressed."""
        return compress_records(
            {
                timed.case.name: make_record(timed.processes, timed.plan)
                for timed in self._cases
                if not timed.case.is_hidden
            }
        )

    @property
    def _has_hidden_sizes(self) -> bool:
        """Whether a public case must not be measured in a process that was given a hidden one."""
        return any(timed.case.is_hidden for timed in self._cases)

    def _measure(self, cases: Sequence[Case], ranking_by: str, best_us: float) -> None:
        null_team = self._start_nulls(cases)
        self._measure_rounds(ranking_by, best_us)
        self._end_nulls(null_team)

    def _measure_rounds(self, ranking_by: str, best_us: float) -> None:
        for number in range(self.policy.processes_max):
            if number >= self.policy.processes and not self._needs_more():
                return
            began_s = time.monotonic()
            if reason := self._context.quiet_wait.wait():
                raise NoisyMachine(reason)
            for side in self.sides:
                side.budget.extend(time.monotonic() - began_s)
            self._measure_round(number)
            is_first_of_many = number == 0 and self.policy.processes > 1
            if is_first_of_many and self._cannot_beat(ranking_by, best_us):
                return

    def _measure_round(self, number: int) -> None:
        """Measure every case in one fresh process of each side."""
        side_a, side_b = self.sides
        rounds_left = max(1, self.policy.processes - number)
        count = len(self._cases)
        for done_count, timed in enumerate(self._cases):
            left_s = _BUDGET_SHARE * (side_a.budget.ends_at - time.monotonic())
            share_s = max(_SHARE_S_MIN, left_s / (rounds_left * count - done_count))
            total = self.policy.processes * count
            position = min(number * count + done_count, total - 1)
            self._context.report_progress(Progress(self._stage, timed.case.name, position, total))
            is_fresh = done_count == 0 and (number > 0 or self._has_hidden_sizes)
            self._ready_teams(timed.case, is_fresh=is_fresh)
            policy = replace(self.policy, wall_s=min(self.policy.wall_s, share_s))
            timed.plan = replace(timed.plan, policy=policy)
            self._measure_process(timed)
        if number == 0 and not self._has_hidden_sizes:
            for timed in self._cases:
                timed.columns |= self._time_batch(timed)
        if side_b.is_yardstick:
            # An ended submission does nothing any more.
            side_a.team.end()
            for timed in self._cases:
                self._measure_last(timed)

    def _time_batch(self, timed: _TimedCase) -> dict[str, float]:
        """Time a short case in batches on a GPU; a native submission takes one set at a time."""
        context, side, case = self._context, self.sides[0], timed.case
        if "launch" in side.worker_teams.role or case.ranks > 1:
            return {}
        shape, seeds = context.shapes[case.name][0], context.seeds_of(case)
        statistics = timed.time.statistics
        times_us = statistics["raw_us"], statistics["handshake_us"]
        short = ShortCase(case, shape, seeds, *times_us)
        return measure_batch(context.judge_context, side.team, short, side.budget.until())

    def _ready_teams(self, case: Case, *, is_fresh: bool) -> None:
        """Give both sides a frozen team with the ranks of a case; fresh ones for a new process.

        Both boxes are started before either is waited for. The import costs no stage budget.
        """
        replaced = [side for side in self.sides if is_fresh or side.team.ranks != case.ranks]
        began_s = time.monotonic()
        for side in replaced:
            side.team.end()
        for side in replaced:
            with side.failing_on(case, self._stage):
                side.team = side.worker_teams.start(case.ranks)
        for side in self.sides:
            with side.failing_on(case, self._stage):
                if side in replaced:
                    side.worker_teams.wait_until_ready(side.team)
                side.team.freeze()
        for side in self.sides:
            side.budget.extend(time.monotonic() - began_s)

    @contextmanager
    def _open_gates(self, timed: _TimedCase, sides: Sequence[Side]) -> Iterator[GatedPair]:
        context, case = self._context, timed.case
        shapes = context.shapes[case.name]
        with ExitStack() as stack:
            gates = {
                side.name: stack.enter_context(
                    GatedCase(context.judge_context, side.team, case, shapes)
                )
                for side in sides
            }
            by_name = {side.name: side for side in sides}
            handshake_us = timed.plan.handshake_us
            pair = GatedPair(context, self._stage, case, by_name, gates, handshake_us)
            yield pair
            self._measured_us += pair.measured_us

    def _measure_process(self, timed: _TimedCase) -> None:
        """Measure one case in one process of each side. Raises SideFailed, NoisyMachine."""
        with self._open_gates(timed, self.sides) as pair:
            for side in self.sides:
                with side.failing_on(timed.case, self._stage):
                    self._context.warm_ups.warm_up(pair.gates[side.name], side.budget)
                    side.team.freeze()
            teams = [side.team for side in self.sides]
            clock = clock_without_freezing(teams, timed.plan.policy.wall_s)

            def attempt() -> Process:
                self._clock_warm_up.warm_up(pair, clock)
                return measure_process(pair, timed.plan, clock, secrets.randbelow)

            process = self._measure_when_fit(attempt)
            self._require_honesty(timed, pair)
        timed.processes.append(process)

    def _measure_last(self, timed: _TimedCase) -> None:
        """Measure the yardstick after the submission's end."""
        side = self.sides[1]
        side.team = side.worker_teams.fit_team(side.team, timed.case.ranks, side.budget)
        with self._open_gates(timed, [side]) as pair:
            last = measure_edge(pair, timed.plan)
        timed.processes[-1] = replace(timed.processes[-1], last=last)

    def _measure_when_fit(self, attempt: Callable[[], Process]) -> Process:
        """Return a measurement on a fit device: `attempt`, and again after a pause.

        Raises NoisyMachine if the second is no better, and whatever `attempt` raises.
        """
        health = self._context.judge_context.device.unfit
        reasons: list[str] = []
        for number in range(_ATTEMPTS_MAX):
            if number:
                time.sleep(self.policy.pause_s)
            reasons = list(health())
            if not reasons:
                process = attempt()
                reasons = list(health())
                if not reasons:
                    return process
        raise NoisyMachine("the machine is unfit for timing: " + "; ".join(reasons))

    def _require_honesty(self, timed: _TimedCase, pair: GatedPair) -> None:
        """Note what the device finds suspicious about the calls of a submission, and its columns.

        Raises SideFailed for a rival; the submission of other runs is held for review.
        """
        device, null_us = self._context.judge_context.device, timed.plan.null_us
        spread_us = null_us[2] - null_us[0] if null_us else 0.0
        for side in self.sides:
            inputs, _ = pair.gates[side.name].memories[0]
            if side.name == A:
                for name, value in device.statistics(inputs).items():
                    timed.columns[name] = max(value, timed.columns.get(name, value))
            doubt = "" if side.is_yardstick else device.suspicion(inputs, spread_us)
            if doubt and self._stage == DUEL:
                with side.failing_on(timed.case, self._stage):
                    raise CaseFailed("suspicious", doubt)
            timed.doubt = doubt or timed.doubt
        timed.plan = replace(timed.plan, stagger_us=timed.columns.get("stagger_us", 0.0))

    def _start_nulls(self, cases: Sequence[Case]) -> Team:
        """Start the null worker and plan the cases with its calls: what a handshake takes."""
        context, worker_teams = self._context, self.sides[0].worker_teams
        began_s = time.monotonic()
        device = context.judge_context.device
        # On a GPU a null call passes the gate; a team that cannot be frozen must sleep.
        is_bare = device.tier == "C1"
        with _blaming_the_sandbox():
            team = worker_teams.start_null(is_bare=is_bare)
            worker_teams.wait_until_ready(team, "the null worker", _NULL_S_MAX)
            team.freeze()
            for case in cases:
                plan = MeasurementPlan(
                    self.policy,
                    self._time_nulls(case, team),
                    inputs_max=context.inputs_max(case),
                    unit_us=context.yardstick_us.get(case.name),
                    is_gated=device.tier != _IN_PROCESS,
                    calibration=device.calibration(),
                )
                self._cases.append(_TimedCase(case, plan))
        for side in self.sides:
            side.budget.extend(time.monotonic() - began_s)
        return team

    def _end_nulls(self, team: Team) -> None:
        """Make the null calls again at the end of the run; the faster ones count.

        A submission would gain from slow ones, and may have slowed the first ones at its import.
        """
        with _blaming_the_sandbox():
            for timed in self._cases:
                later = replace(timed.plan, nulls=self._time_nulls(timed.case, team))
                if later.handshake_us < timed.plan.handshake_us:
                    timed.plan = later
            team.end()

    def _time_nulls(self, case: Case, team: Team) -> tuple[Sample, ...]:
        """Make empty calls in blocks like those of the submission: the first ones are slower."""
        context, seeds = self._context, self._context.seeds_of(case)
        device, shapes = context.judge_context.device, context.shapes[case.name]
        block = max(1, min(_NULLS_BLOCK, context.inputs_max(case)))
        samples: list[Sample] = []
        ends_s = time.monotonic() + _NULLS_S_MAX
        with GatedCase(context.judge_context, team, case, shapes) as gate:
            while len(samples) < self.policy.nulls:
                if samples and time.monotonic() > ends_s:
                    break
                gate.draw(list(islice(seeds, block)))
                for index in range(block):
                    time_us = gate.time(index, time.monotonic() + _NULL_S_MAX)
                    flags = call_flags(gate, device, time_us, index, block)
                    # The platform's own worker never waits on purpose.
                    lost_us = min(gate.waited_us, time_us)
                    samples.append(Sample(time_us - lost_us, flags, lost_us))
        return tuple(samples)

    def _needs_more(self) -> bool:
        """Return whether another process could make a case precise that is not."""
        half_widths = []
        for timed in self._cases:
            ratio = measure_ratio(timed.processes, timed.plan)
            is_futile = timed.plan.policy.is_futile(ratio.half_width)
            if is_futile or is_noisy(timed.processes, ratio, timed.plan):
                return False
            half_widths.append(ratio.half_width)
        return max(half_widths) > self.policy.precision

    def _cannot_beat(self, ranking_by: str, best_us: float) -> bool:
        """Return whether the score is above the participant's own best, and note it."""
        if not best_us or any(timed.plan.unit_us is None for timed in self._cases):
            return False
        lows_us = [timed.time.interval_us[0] for timed in self._cases]
        weights = [timed.case.weight for timed in self._cases]
        least_us = combine_times(ranking_by, lows_us, weights)
        if least_us <= best_us:
            return False
        self.stopped = (
            f"stopped after one of {self.policy.processes} processes: the score is at least "
            f"{least_us:.4g} us, and your best is {best_us:.4g} us"
        )
        return True


def report_timed_case(
    case: Case, case_time: CaseTime, doubt: str, columns: Mapping[str, float]
) -> CaseReport:
    """Report a timed case, with more `columns` among its statistics.

    Below its floor, or with a `doubt` of the device's, it is held until somebody has reviewed it.
    """
    if case_time.time_us <= max(0.0, case.floor_us):
        doubt = f"{case_time.time_us:.4g} us is below the floor of {case.floor_us:.4g} us"
    verdict = "suspicious" if doubt else "passed"
    values = asdict(case_time)
    values["statistics"] |= columns
    values |= {"name": case.name, "stage": "time", "weight": case.weight}
    report = CaseReport(verdict=verdict, message=doubt, **values)
    return hide_details(report) if case.is_hidden else report


@contextmanager
def _blaming_the_sandbox() -> Iterator[None]:
    """Raise SandboxFault for a failure of the null worker within: no submission is in it."""
    try:
        yield
    except CaseFailed as failure:
        raise SandboxFault(f"the null worker failed: {failure.message}") from failure


def _with_timer_step(policy: Policy, calibration: Mapping[str, float]) -> Policy:
    """Return the policy with the clock's measured step, if it was measured."""
    step_ns = calibration.get("timer_step_ns", 0.0)
    return replace(policy, timer_step_us=step_ns / 1000) if step_ns > 0 else policy
