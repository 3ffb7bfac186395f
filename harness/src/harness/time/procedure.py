"""The measurement of one case in one fresh process: warm-ups, pairs of blocks, and looks."""

from collections.abc import Callable, Mapping
from math import inf
from statistics import fmean

from harness.time.estimators import block_order, half_width_within, is_settled, quantile
from harness.time.policy import Policy
from harness.time.process import (
    Block,
    BlockPair,
    InterimLook,
    MeasurementPlan,
    PairSource,
    Process,
    Sample,
    find_grade,
)
from harness.vocabulary import SIDES

A, B = SIDES
_WARM_UPS_B = 2
# What a call costs is this quantile of calls.
_FAST_SHARE = 0.25
_WINDOW_S = 0.02
_WINDOW_CALLS_MAX = 2000
# By so much the platform's kernel may be slower before the clock is warmed up again.
_SLOWER_MAX = 1.01


class ClockWarmUp:
    """Warms up a device's clock: once in a run, and again only if the device became slower.

    Between the processes of a run the device is idle for a moment.
    """

    def __init__(self, policy: Policy) -> None:
        self._limits_s = policy.clock_s
        self._settled_us = inf

    def warm_up(self, source: PairSource, now_s: Callable[[], float]) -> None:
        """Run our kernel until the device's clock is stable, or until the time limit."""
        min_s, max_s = self._limits_s
        if not max_s:
            return
        began_s = now_s()
        windows = [_measure_window(source, now_s)]
        if self._settled_us < inf and windows[0] <= _SLOWER_MAX * self._settled_us:
            return
        self._settled_us = inf
        while len(windows) * _WINDOW_S < max_s and now_s() - began_s < max_s:
            windows.append(_measure_window(source, now_s))
            if now_s() - began_s >= min_s and is_settled(windows):
                self._settled_us = windows[-1]
                return


def _measure_window(source: PairSource, now_s: Callable[[], float]) -> float:
    until_s = now_s() + _WINDOW_S
    times = []
    for _ in range(_WINDOW_CALLS_MAX):
        times.append(source.time_fma())
        if now_s() >= until_s:
            break
    return fmean(times)


def measure_process(
    source: PairSource,
    plan: MeasurementPlan,
    now_s: Callable[[], float],
    below: Callable[[int], int],
) -> Process:
    """Measure one case in one fresh process; `below` draws unpredictable numbers.

    The device's clock must be warm (`ClockWarmUp`).
    The last block of B is measured later, when A has ended. Raises whatever the source raises,
    such as a wrong answer; it ends the measurement.
    """
    return _Measurement(source, plan, now_s).run(below)


def measure_edge(source: PairSource, plan: MeasurementPlan) -> Block:
    """Measure B alone: before the first call of A, or after its last one."""
    warm_ups = source.measure(B, {B: _WARM_UPS_B})[B]
    calls = _count_calls(plan, warm_ups)
    return Block(source.measure(B, {B: calls})[B])


def _count_calls(plan: MeasurementPlan, samples: tuple[Sample, ...]) -> int:
    """Return how many calls make a block, from the fast ones of some calls."""
    call_us = quantile([sample.time_us for sample in samples], _FAST_SHARE)
    return max(1, min(plan.policy.calls(call_us), plan.inputs_max))


class _Measurement:
    """The state of a measurement in progress."""

    def __init__(
        self, source: PairSource, plan: MeasurementPlan, now_s: Callable[[], float]
    ) -> None:
        self._source = source
        self._plan = plan
        self._policy = plan.policy
        self._now_s = now_s
        self._pairs: list[BlockPair] = []
        self._looks: list[InterimLook] = []
        self._calls: Mapping[str, int] = {}

    def run(self, below: Callable[[int], int]) -> Process:
        """Take all steps in order."""
        first = measure_edge(self._source, self._plan)
        count_min, count_max = self._policy.warm_ups
        warm_ups_count = count_min + below(count_max - count_min + 1)
        warm_ups = self._source.measure(A, {A: warm_ups_count})[A]
        self._calls = {
            A: _count_calls(self._plan, warm_ups),
            B: _count_calls(self._plan, first.samples),
        }
        self._began_s = self._now_s()
        self._measure_pairs(block_order(self._policy.looks[-1], below))
        return Process(
            warm_ups=warm_ups,
            pairs=tuple(self._pairs),
            looks=tuple(self._looks),
            grade=find_grade(self._pairs, self._plan),
            first=first,
        )

    def _measure_pairs(self, order: str) -> None:
        looks = self._policy.looks
        for pairs in looks:
            while len(self._pairs) < pairs and not self._is_budget_spent():
                place = 2 * len(self._pairs)
                self._pairs.append(self._measure_pair(order[place : place + 2]))
            self._looks.append(self._take_look(is_last=pairs == looks[-1]))
            if self._looks[-1].action != "more":
                return

    def _measure_pair(self, order: str) -> BlockPair:
        samples = self._source.measure(order, self._calls)
        # Slow first calls must not leave a submission with fewer timed calls than others.
        self._calls = {
            side: max(calls, _count_calls(self._plan, samples[side]))
            for side, calls in self._calls.items()
        }
        is_crowded = self._source.is_crowded()
        return BlockPair(order, Block(samples[A]), Block(samples[B]), is_crowded)

    def _is_budget_spent(self) -> bool:
        """Return whether the time is used up; the pairs before the first look always run."""
        is_required = len(self._pairs) < self._policy.looks[0]
        return not is_required and self._now_s() - self._began_s >= self._policy.wall_s

    def _take_look(self, *, is_last: bool) -> InterimLook:
        differences = [pair.difference(self._plan) for pair in self._pairs]
        half_width = half_width_within(differences)
        if half_width <= self._policy.target:
            action = "stop"
        elif is_last or self._is_budget_spent():
            action = "give up"
        else:
            action = "more"
        return InterimLook(len(self._pairs), half_width, action)
