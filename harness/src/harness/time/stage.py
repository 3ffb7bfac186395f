"""The timed stage: fresh processes, cases in turn, and a null worker beside them."""

import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from statistics import median
from typing import Any

from harness import messages
from harness.build.teams import StageBudget, WorkerTeams
from harness.build.yardstick import YardstickTeams, blame_yardstick
from harness.check.calls import GatedCase, WarmUps
from harness.check.inputs import Shape
from harness.check.judging import JudgeContext
from harness.check.structure import layout_bytes
from harness.messages import CaseFailed, CaseReport, Progress
from harness.problem import Case
from harness.sandbox.box import SandboxFault
from harness.sandbox.team import Team
from harness.time import combination, unranked
from harness.time.combination import CaseTime, combine_processes, list_quiet_us, run_figures
from harness.time.estimators import quantile
from harness.time.policy import History, Policy, policy_for
from harness.time.procedure import measure_process
from harness.time.process import CONTAMINATED, MeasurementPlan, Process, Sample, measure_when_fit
from harness.worker import protocol

# A stage plans with half of its budget, because the machine may become slower.
_BUDGET_SHARE = 0.5
_NULL_S_MAX = 60.0
_IN_PROCESS = "G0"
# A sample is contaminated if its worker was off its core for longer than a handshake explains.
_IDLE_SHARE_MAX = 0.02
_HANDSHAKE_US_MAX = 100.0
_WORK_MAX = 1.2
_SHARE_S_MIN = 0.05
_EXTRA_S_MIN = 2.0


@dataclass
class TimingContext:
    """What samples need: the judge context, the shapes of the cases, the seeds of calls."""

    judge_context: JudgeContext
    shapes: dict[str, list[Shape]]
    seeds: Callable[[Case], Iterator[int]]
    history: History
    running_seeds: dict[str, Iterator[int]] = field(default_factory=dict)

    def seeds_of(self, case: Case) -> Iterator[int]:
        """Return the seeds of a case; they continue across processes and never repeat."""
        if case.name not in self.running_seeds:
            self.running_seeds[case.name] = self.seeds(case)
        return self.running_seeds[case.name]

    def memory_sizes(self, case: Case) -> str:
        """Return the sizes of a case's memories as text: null calls depend on them."""
        shapes = self.shapes[case.name]
        return " ".join(
            f"{layout_bytes(shape.inputs)}+{layout_bytes(shape.outputs)}" for shape in shapes
        )

    def plan(self, case: Case, policy: Policy) -> MeasurementPlan:
        """Return the measurement plan of a case."""
        device = self.judge_context.device
        calibration = device.calibration()
        return MeasurementPlan(
            with_timer_step(policy, calibration),
            self.history,
            self.memory_sizes(case),
            is_gated=device.tier != _IN_PROCESS,
            calibration=calibration,
        )

    def start_null(self, worker_teams: WorkerTeams) -> Team:
        """Start a frozen null team, which shows what the handshake of a call takes."""
        # On a GPU a null call passes the gate; a team that cannot be frozen must sleep.
        is_bare = self.judge_context.device.tier == "C1"
        try:
            team = worker_teams.start_null(is_bare=is_bare)
            worker_teams.wait_until_ready(team, "the null worker", _NULL_S_MAX)
            team.freeze()
        except CaseFailed as failure:
            raise SandboxFault(f"the null worker did not start: {failure.message}") from failure
        return team


def time_null_us(gate: GatedCase, seed: int) -> float:
    """Time a call of a null worker. Raises SandboxFault, as no submission is in it."""
    try:
        return gate.null(seed, time.monotonic() + _NULL_S_MAX)
    except CaseFailed as failure:
        raise SandboxFault(f"the null worker failed: {failure.message}") from failure


def with_timer_step(policy: Policy, calibration: Mapping[str, float]) -> Policy:
    """Return the policy with the clock's measured step, if it was measured.

    >>> policy = policy_for("cuda", "ranked")
    >>> with_timer_step(policy, {"timer_step_ns": 1000.0}).timer_step_us, with_timer_step(policy,
    ...     {}) is policy
    (1.0, True)
    """
    step_ns = calibration.get("timer_step_ns", 0.0)
    return replace(policy, timer_step_us=step_ns / 1000) if step_ns > 0 else policy


@dataclass
class _Source:
    """One case in one fresh process, with the null worker beside it."""

    gate: GatedCase
    null_gate: GatedCase
    seeds: Iterator[int]
    judge_context: JudgeContext
    budget: StageBudget
    work_us: list[float] = field(default_factory=list)
    nulls_us: list[float] = field(default_factory=list)

    def call(self) -> Sample:
        """Make one judged call of the submission. Raises CaseFailed."""
        time_us = self.gate.call(next(self.seeds), self.budget.until())
        device = self.judge_context.device
        # On a GPU the worker is frozen while its work runs, so its idle time means nothing.
        if device.name != "cpu":
            self.budget.spend(time_us)
            return Sample(time_us, device.flags)
        flags = (*device.flags, CONTAMINATED) if self._is_disturbed(time_us) else device.flags
        handshake_us = quantile(self.nulls_us, 0.1) if self.nulls_us else _HANDSHAKE_US_MAX
        lost_us = lost_time_us(self.gate.idle_us, self.gate.waited_us, handshake_us)
        self.budget.spend(time_us - lost_us)
        return Sample(time_us - lost_us, flags, lost_us)

    def null(self) -> Sample:
        """Make the same call with a null worker. Raises SandboxFault."""
        time_us = time_null_us(self.null_gate, next(self.seeds))
        self.nulls_us.append(time_us)
        return Sample(time_us, self.judge_context.device.flags)

    def probe(self) -> float | None:
        """Run the platform's fixed work on the submission's core, while that is frozen."""
        if self.judge_context.device.tier != "C1" or not self.judge_context.defences.has_bare_null:
            return None
        try:
            self.null_gate.team.thaw()
            self.null_gate.team.send(0, protocol.PROBE)
            answer = self.null_gate.team.receive(0, time.monotonic() + _NULL_S_MAX, "")
            self.null_gate.team.freeze()
        except CaseFailed as failure:
            raise SandboxFault(f"the null worker failed: {failure.message}") from failure
        return float(answer[1:])

    def reference(self, name: str) -> float:
        """Make one call of a reference kernel."""
        return self.judge_context.device.reference(name)

    def _is_disturbed(self, time_us: float) -> bool:
        """Return whether the core was taken away from a call that did no extra work.

        A submission decides itself when it waits, so a call that worked longer always counts.
        """
        work_us = time_us - self.gate.idle_us
        self.work_us.append(work_us)
        is_idle = self.gate.idle_us > _IDLE_SHARE_MAX * time_us + _HANDSHAKE_US_MAX
        if not self.judge_context.defences.weighs_work:
            return is_idle
        return is_idle and work_us <= _WORK_MAX * median(self.work_us)


def lost_time_us(idle_us: float, waited_us: float, handshake_us: float) -> float:
    """Return how much of a call other processes of the machine took, in microseconds.

    It is the time in which nothing of the submission ran although a worker wanted a core, beyond
    the waiting in every call. What a submission waits of its own accord is its own time. While its
    own processes take the core from each other, something of it runs, so that does not count.

    >>> lost_time_us(40.0, 3.0, 42.0), lost_time_us(1042.0, 900.0, 42.0), lost_time_us(1042.0,
    ...     5000.0, 42.0)
    (0.0, 900.0, 1000.0)
    >>> lost_time_us(5000.0, 0.0, 42.0)
    0.0
    """
    return max(0.0, min(idle_us - handshake_us, waited_us))


def clock_without_freezing(team: Team, credit_s: float) -> Callable[[], float]:
    """Return the monotonic clock minus the time to freeze this team, up to a credit.

    Freezing is the platform's work and must not cost a submission its timed calls; but a submission
    that is slow to freeze on purpose must not take all of the machine's time.
    """
    before_s = team.freezing_s
    return lambda: time.monotonic() - min(credit_s, team.freezing_s - before_s)


def check_yardstick(
    yardstick_teams: YardstickTeams, clock: TimingContext, warm_ups: WarmUps, cases: Sequence[Case]
) -> None:
    """Call the yardstick once on each timed case. Raises ProblemFault if it fails."""
    budget = StageBudget(_NULL_S_MAX)
    team = yardstick_teams.start(cases[0].ranks)
    yardstick_teams.wait_until_ready(team)
    for case in cases:
        team = yardstick_teams.fit_team(team, case.ranks, budget)
        with (
            blame_yardstick(case.name),
            GatedCase(clock.judge_context, team, case, clock.shapes[case.name]) as gate,
        ):
            warm_ups.warm_up(gate, budget)
            gate.call(next(clock.seeds_of(case)), budget.until())
    team.end()


class StageTimer:
    """Times every case in as many fresh processes as the mode needs."""

    def __init__(
        self,
        worker_teams: WorkerTeams,
        clock: TimingContext,
        warm_ups: WarmUps,
        mode: str,
        tell: Callable[[Progress], None],
    ) -> None:
        self._worker_teams = worker_teams
        self._warm_ups = warm_ups
        self._context = clock
        self._mode = mode
        self._report_progress = tell
        self._policy = policy_for(clock.judge_context.device.name, mode)
        self._plans: dict[str, MeasurementPlan] = {}
        self._processes: dict[str, list[Process]] = {}
        self._doubts: dict[str, str] = {}
        self._columns: dict[str, dict[str, float]] = {}
        self._records: dict[str, Any] = {}
        self.history = clock.history
        self.sigma_run = 0.0
        self.tie_us = 0.0

    def run(self, team: Team, cases: Sequence[Case], budget: StageBudget) -> list[CaseReport]:
        """Return how every case ended; `team` has already imported the submission.

        Raises NoisyMachine, SandboxFault, ProblemFault, DeviceFault.
        """
        self._processes = {case.name: [] for case in cases}
        began = time.monotonic()
        null = self._context.start_null(self._worker_teams)
        budget.extend(time.monotonic() - began)
        count = self._policy.processes
        for number in range(count + self._policy.extra_processes):
            is_extra = number >= count
            selected_cases = (
                [case for case in cases if self._needs_extra_process(case)] if is_extra else cases
            )
            measurements_left = (1 if is_extra else count - number) * len(selected_cases)
            for done_count, case in enumerate(selected_cases):
                left_s = _BUDGET_SHARE * (budget.ends_at - time.monotonic())
                if is_extra and left_s < _EXTRA_S_MIN:
                    break
                if not is_extra:
                    total = count * len(cases)
                    self._report_progress(
                        Progress("time", case.name, number * len(cases) + done_count, total)
                    )
                is_fresh = count > 1 and done_count == 0
                fit = self._worker_teams.renew_team if is_fresh else self._worker_teams.fit_team
                try:
                    team = fit(team, case.ranks, budget)
                    share_s = max(_SHARE_S_MIN, left_s / (measurements_left - done_count))
                    self._measure((team, null), case, budget, share_s)
                except CaseFailed as failure:
                    return [messages.failed_case_report(case.name, "time", failure)]
        for case in cases:
            self._merge_columns(case, self._time_batch(team, case, budget.until()))
        return self._reports(cases)

    def _needs_extra_process(self, case: Case) -> bool:
        """Return whether too few calls found the machine quiet."""
        quiet_times_us = list_quiet_us(self._processes[case.name], self._plans[case.name])
        return len(quiet_times_us) < self._policy.quiet_calls

    def _merge_columns(self, case: Case, statistics: dict[str, float]) -> None:
        """Add statistics of a case; of several processes the largest value is kept."""
        columns = self._columns.setdefault(case.name, {})
        for name, value in statistics.items():
            columns[name] = max(value, columns.get(name, value))

    def record(self) -> bytes:
        """Return every sample of every case, compressed."""
        return combination.compress_records(self._records)

    def _measure(
        self, teams: tuple[Team, Team], case: Case, budget: StageBudget, share_s: float
    ) -> None:
        """Measure one case in one process. Raises CaseFailed, NoisyMachine."""
        judge_context, shapes = self._context.judge_context, self._context.shapes[case.name]
        policy = policy_for(judge_context.device.name, self._mode, share_s)
        plan = self._plans[case.name] = self._context.plan(case, policy)
        with ExitStack() as stack:
            gate, null_gate = (
                stack.enter_context(GatedCase(judge_context, team, case, shapes)) for team in teams
            )
            self._warm_ups.warm_up(gate, budget)
            source = _Source(gate, null_gate, self._context.seeds_of(case), judge_context, budget)
            # The submission must not run during null calls.
            teams[0].freeze()
            process = measure_when_fit(
                lambda: measure_process(
                    source,
                    plan,
                    clock_without_freezing(teams[0], policy.wall_s),
                    secrets.randbelow,
                ),
                plan,
                judge_context.device.unfit,
                time.sleep,
            )
            inputs, _ = gate.memories[0]
            self._merge_columns(case, judge_context.device.statistics(inputs))
            if doubt := judge_context.device.suspicion(inputs, process.null_spread_us):
                self._doubts[case.name] = doubt
        self._processes[case.name].append(process)
        self.history = self.history.with_pass(
            process.references, plan.shape, process.null_us, process.fast_probe_us
        )

    def _time_batch(self, team: Team, case: Case, deadline: float) -> dict[str, float]:
        """Time a short case in batches; a native submission takes one set at a time."""
        device = self._context.judge_context.device
        if "launch" in self._worker_teams.role or device.tier not in unranked.BATCH_TIERS:
            return {}
        clock, process = self._context, self._processes[case.name][-1]
        seeds, shape = clock.seeds_of(case), clock.shapes[case.name][0]
        short = unranked.ShortCase(case, shape, seeds, process.value_us, process.null_us)
        return unranked.measure_batch(clock.judge_context, team, short, deadline)

    def _reports(self, cases: Sequence[Case]) -> list[CaseReport]:
        times = {}
        for case in cases:
            processes = self._processes[case.name]
            stagger_us = self._columns.get(case.name, {}).get("stagger_us", 0.0)
            plan = replace(self._plans[case.name], stagger_us=stagger_us)
            times[case.name] = combine_processes(processes, plan)
            self._records[case.name] = combination.make_record(processes, times[case.name])
        self.sigma_run, self.tie_us = run_figures(list(times.values()))
        return [self._report(case, times[case.name]) for case in cases]

    def _report(self, case: Case, case_time: CaseTime) -> CaseReport:
        doubt = self._doubts.get(case.name, "")
        report = timed_case_report(case.name, case.floor_us, case_time, doubt)
        columns = self._columns.get(case.name, {})
        return replace(report, statistics=report.statistics | columns)


def timed_case_report(
    case: str, floor_us: float, case_time: CaseTime, doubt: str = ""
) -> CaseReport:
    """Report a timed case.

    Below its floor, or with a `doubt` of the device's, it is held until somebody has reviewed it.
    """
    if case_time.time_us <= max(0.0, floor_us):
        doubt = f"{case_time.time_us:.4g} us is below the floor of {floor_us:.4g} us"
    return CaseReport(
        name=case,
        stage="time",
        verdict="suspicious" if doubt else "passed",
        message=doubt,
        **asdict(case_time),
    )
