"""The two sides of a timed stage, and the source of their samples."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from itertools import islice

from harness import messages
from harness.build.teams import StageBudget, WorkerTeams
from harness.build.yardstick import blame_yardstick
from harness.check.calls import GatedCase, WarmUps, is_watched_call
from harness.check.inputs import Shape, calls_ahead, measure_sizes
from harness.check.judging import JudgeContext
from harness.devices.device import Device
from harness.messages import CaseFailed, CaseReport, Progress
from harness.problem import Case
from harness.sandbox.crowding import QuietWait
from harness.sandbox.team import Team
from harness.time.process import COLD, REPEATED, WAITED, Sample

# A wait of the process with the clock that is longer spoils a call, and so is a share of its time.
_WAIT_US_MAX = 5.0
_WAIT_SHARE_MAX = 0.01
# In each process, and for each call: a submission may cause such waits on purpose.
_REPEATS_MIN = 8
_REPEATS_SHARE = 0.25
# With fewer calls in a block, the first one counts as well.
_WARM_CALLS_MIN = 4


class SideFailed(Exception):  # noqa: N818  (STYLE.md, section 3: an outcome, not an error)
    """A submission did not pass; `report` says how, and on which case."""

    def __init__(self, side: str, report: CaseReport) -> None:
        super().__init__(report.message)
        self.side = side
        self.report = report


@dataclass
class Side:
    """What is timed: its teams, its current team, and its own budget.

    `is_yardstick` is for a fixed kernel, whose failures are the problem's. Only its first call of
    those that it makes alone is judged.
    """

    name: str
    worker_teams: WorkerTeams
    team: Team
    budget: StageBudget
    is_yardstick: bool = False

    @contextmanager
    def failing_on(self, case: Case, stage: str) -> Iterator[None]:
        """Within it, a failure on a case is this side's. Raises SideFailed, ProblemFault."""
        try:
            with blame_yardstick(case.name) if self.is_yardstick else nullcontext():
                yield
        except CaseFailed as failure:
            report = messages.failed_case_report(case.name, stage, failure)
            report = messages.hide_details(report) if case.is_hidden else report
            raise SideFailed(self.name, report) from failure


@dataclass
class TimingContext:
    """What samples need: the judge context, the shapes of the cases, the seeds of calls.

    `yardstick_us` has the frozen times of the yardstick by case, and `precision` replaces the
    mode's own unless it is 0. `quiet_wait` waits for a quiet machine before each process.
    """

    judge_context: JudgeContext
    shapes: dict[str, list[Shape]]
    seeds: Callable[[Case], Iterator[int]]
    warm_ups: WarmUps
    report_progress: Callable[[Progress], None]
    yardstick_us: Mapping[str, float] = field(default_factory=dict)
    precision: float = 0.0
    quiet_wait: QuietWait = field(default_factory=lambda: QuietWait(0.0))
    running_seeds: dict[str, Iterator[int]] = field(default_factory=dict)

    def seeds_of(self, case: Case) -> Iterator[int]:
        """Return the seeds of a case; they continue across processes and never repeat."""
        if case.name not in self.running_seeds:
            self.running_seeds[case.name] = self.seeds(case)
        return self.running_seeds[case.name]

    def inputs_max(self, case: Case) -> int:
        """Return how many inputs and answers of a case may exist ahead."""
        return calls_ahead([measure_sizes(shape) for shape in self.shapes[case.name]])


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


def clock_without_freezing(teams: Sequence[Team], credit_s: float) -> Callable[[], float]:
    """Return the monotonic clock minus the time to freeze these teams, up to a credit.

    Freezing is the platform's work and must not cost a submission its timed calls; but a submission
    that is slow to freeze on purpose must not take all of the machine's time.
    """

    def freezing_s() -> float:
        return sum(team.freezing_s for team in teams)

    before_s = freezing_s()
    return lambda: time.monotonic() - min(credit_s, freezing_s() - before_s)


@dataclass
class GatedPair:
    """The source of samples of one case in one fresh process of each side."""

    context: TimingContext
    stage: str
    case: Case
    sides: Mapping[str, Side]
    gates: Mapping[str, GatedCase]
    handshake_us: float
    repeats_left: float = _REPEATS_MIN
    measured_us: float = 0.0

    def measure(self, order: str, calls: Mapping[str, int]) -> dict[str, tuple[Sample, ...]]:
        """Time a block of each side; repeat calls in which the process with the clock waited."""
        samples = self._measure_once(order, calls)
        for name in order:
            self.repeats_left += _REPEATS_SHARE * calls[name]
            waited = [index for index, item in enumerate(samples[name]) if WAITED in item.flags]
            repeated = waited[: int(self.repeats_left)]
            if not repeated:
                continue
            self.repeats_left -= len(repeated)
            for index in repeated:
                sample = samples[name][index]
                samples[name][index] = replace(sample, flags=(*sample.flags, REPEATED))
            samples[name] += self._measure_once(name, {name: len(repeated)})[name]
        return {name: tuple(side_samples) for name, side_samples in samples.items()}

    def time_fma(self) -> float:
        """Time one call of the platform's own kernel."""
        return self.context.judge_context.device.time_fma()

    def is_crowded(self) -> bool:
        """Return whether more threads want to run on this machine than it has cores."""
        return self.context.quiet_wait.read().is_crowded

    def _measure_once(self, order: str, calls: Mapping[str, int]) -> dict[str, list[Sample]]:
        seeds = list(islice(self.context.seeds_of(self.case), max(calls[name] for name in order)))
        first, *others = tuple(order)
        self.gates[first].draw(seeds)
        for name in others:
            # In a duel both are judged, and a problem's check may write to the data.
            if any(side.is_yardstick for side in self.sides.values()):
                self.gates[name].share(self.gates[first])
            else:
                self.gates[name].draw(seeds)
        samples = {name: self._time_block(name, calls[name]) for name in order}
        for name in order:
            self._judge_block(name, calls[name], is_alone=len(order) == 1)
        return samples

    def _time_block(self, name: str, calls: int) -> list[Sample]:
        side = self.sides[name]
        with side.failing_on(self.case, self.stage):
            return [self._time_call(side, index, calls) for index in range(calls)]

    def _judge_block(self, name: str, calls: int, *, is_alone: bool) -> None:
        side = self.sides[name]
        judged = calls if not side.is_yardstick else 1 if is_alone else 0
        with side.failing_on(self.case, self.stage):
            for index in range(judged):
                self.gates[name].judge(index)

    def _time_call(self, side: Side, index: int, calls: int) -> Sample:
        gate, device = self.gates[side.name], self.context.judge_context.device
        is_watched = not side.is_yardstick and is_watched_call(calls)
        time_us = gate.time(index, side.budget.until(), is_watched=is_watched)
        self.measured_us += time_us
        # On a GPU the worker is frozen while its work runs, so its idle time means nothing.
        lost_us = 0.0
        if device.name == "cpu":
            lost_us = lost_time_us(gate.idle_us, gate.waited_us, self.handshake_us)
        flags = call_flags(gate, device, time_us, index, calls)
        side.budget.spend(time_us - lost_us)
        return Sample(time_us - lost_us, flags, lost_us)


def call_flags(
    gate: GatedCase, device: Device, time_us: float, index: int, calls: int
) -> tuple[str, ...]:
    """Return the flags of the last call, which has this index among the calls of its block."""
    flags = device.flags
    if index == 0 and calls >= _WARM_CALLS_MIN:
        flags = (*flags, COLD)
    # A GPU's own clock does not count what the host waits.
    limit_us = _WAIT_US_MAX + _WAIT_SHARE_MAX * time_us
    if device.name == "cpu" and gate.referee_waited_us > limit_us:
        flags = (*flags, WAITED)
    return flags
