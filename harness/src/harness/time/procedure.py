"""The measurement of one case in one fresh process: warm-ups, null calls, blocks and looks."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import count
from math import ceil, inf
from statistics import fmean, stdev

from harness.time.estimators import is_settled, quantile, relative_half_width, trend_p
from harness.time.policy import probe_slots, reference_slots
from harness.time.process import (
    Block,
    InterimLook,
    MeasurementPlan,
    Process,
    ReferenceSample,
    Sample,
    SampleSource,
    is_bimodal,
    is_late,
    kernels_beyond,
    make_block,
    reference_deviations,
    reference_values,
)

_TREND_P = 0.01
_NULLS_MIN = 5
_QUIET_PROBES = 10
# Null calls, before and after, may each take this share of the wall budget.
_NULL_SHARE = 0.05
_WINDOW_S = 0.02
_WINDOW_CALLS_MAX = 2000
_RESIZE_FACTOR = 2
# The cost of a call is the least, over all blocks, of this quantile of the block's calls.
_FAST_SHARE = 0.25
_FUTILE_BLOCKS = 8
_FUTILE_CHANGE = 0.05
_REFERENCES = ("fma", "copy")


def measure_process(
    source: SampleSource,
    plan: MeasurementPlan,
    now_s: Callable[[], float],
    below: Callable[[int], int],
) -> Process:
    """Measure one case in one fresh process; `below` draws unpredictable numbers.

    Raises whatever the source raises, such as a wrong answer; it ends the measurement.
    """
    return _Measurement(source, plan, now_s).run(below)


class _Measurement:
    """The state of a measurement in progress."""

    def __init__(
        self, source: SampleSource, plan: MeasurementPlan, now_s: Callable[[], float]
    ) -> None:
        self._source = source
        self._plan = plan
        self._policy = plan.policy
        self._now_s = now_s
        self._blocks: list[Block] = []
        self._looks: list[InterimLook] = []
        self._nulls: list[Sample] = []
        self._reference_counter = count()
        self._repeats = 0
        self._probes: list[float] = []
        self._samples_count = 0
        self._call_us = self._call_s = inf
        self._block_calls = self._planned_calls = 0

    def run(self, below: Callable[[int], int]) -> Process:
        """Take all steps in order."""
        first_probes = self._measure_nulls()
        warm_ups = self._warm_up(below)
        self._warm_up_clock()
        self._began_s = self._now_s()
        self._measure_blocks()
        last_probes = self._measure_nulls()
        blocks = self._counted_blocks()
        return Process(
            warm_ups=warm_ups,
            nulls=tuple(self._nulls),
            blocks=tuple(self._blocks),
            looks=tuple(self._looks),
            deviation=reference_deviations(reference_values(blocks), self._plan.history),
            grade=self._grade(blocks),
            calibration=self._plan.calibration,
            probes=tuple(self._probes),
            first_probes=first_probes,
            last_probes=last_probes,
            blocks_share=self._policy.blocks_share,
        )

    def _measure_nulls(self) -> tuple[float, ...]:
        """Make half of the null calls, fewer if they are slow; return the probes after them."""
        probes: list[float] = []
        ends_at = self._now_s() + _NULL_SHARE * self._policy.wall_s
        for done_count in range(self._policy.nulls // 2):
            if done_count >= _NULLS_MIN and self._now_s() >= ends_at:
                break
            self._nulls.append(self._source.null())
        # Not between the null calls, because a probe displaces the caches.
        for _ in range(_QUIET_PROBES):
            self._probe(probes)
        return tuple(probes)

    def _warm_up_clock(self) -> None:
        """Run our kernel until the device's clock is stable, or until the time limit."""
        min_s, max_s = self._policy.clock_s
        began_s = self._now_s()
        windows: list[float] = []
        while len(windows) * _WINDOW_S < max_s and self._now_s() - began_s < max_s:
            windows.append(self._measure_window())
            if self._now_s() - began_s >= min_s and is_settled(windows):
                return

    def _measure_window(self) -> float:
        until_s = self._now_s() + _WINDOW_S
        times = []
        for _ in range(_WINDOW_CALLS_MAX):
            times.append(self._source.reference("fma"))
            if self._now_s() >= until_s:
                break
        return fmean(times)

    def _warm_up(self, below: Callable[[int], int]) -> tuple[Sample, ...]:
        """Make an unpredictable number of ordinary calls; the fastest sets the block size."""
        count_min, count_max = self._policy.warm_ups
        samples: list[Sample] = []
        walls_s = []
        for _ in range(count_min + below(count_max - count_min + 1)):
            began_s = self._now_s()
            samples.append(self._source.call())
            walls_s.append(self._now_s() - began_s)
        self._update_cost(min(sample.time_us for sample in samples), min(walls_s))
        self._block_calls = self._planned_calls
        return tuple(samples)

    def _update_cost(self, call_us: float, call_s: float) -> None:
        """Use the lowest cost of a call so far, so the planned calls only ever grow."""
        self._call_us = min(self._call_us, call_us)
        self._call_s = min(self._call_s, call_s)
        self._planned_calls = self._policy.calls(self._call_us, self._call_s)

    def _measure_blocks(self) -> None:
        for blocks in self._policy.looks:
            # If slow first calls made blocks too short, more blocks make up for it.
            while (
                len(self._counted_blocks()) < ceil(blocks * self._planned_calls / self._block_calls)
                and not self._is_budget_spent()
            ):
                self._add_block()
            self._looks.append(self._take_look())
            if self._looks[-1].action != "more":
                return

    def _add_block(self) -> None:
        block = self._measure_block()
        if block.is_spoilt and self._may_repeat():
            self._repeats += 1
            block = replace(block, is_counted=False)
        self._blocks.append(block)
        self._samples_count += len(block.samples)
        self._restart_if_short()

    def _may_repeat(self) -> bool:
        """Return whether there is time for another block besides the required ones."""
        spent_s = self._elapsed_s()
        required = max(1, self._policy.looks[0] - len(self._counted_blocks()))
        ends_s = spent_s + required * spent_s / (len(self._blocks) + 1)
        return self._repeats < self._policy.repeats_max and ends_s <= self._policy.repeats_s

    def _measure_block(self) -> Block:
        samples: list[Sample] = []
        walls_s: list[float] = []
        references: list[ReferenceSample] = []
        probes_us: list[float] = []
        slots, probed = reference_slots(self._block_calls), probe_slots(self._block_calls)
        began_s = self._now_s()
        before_us = self._probes[-1] if self._probes else inf
        for slot in range(1, self._block_calls + 1):
            call_began_s = self._now_s()
            samples.append(self._source.call())
            walls_s.append(self._now_s() - call_began_s)
            if slot in probed and self._probe(self._probes):
                after_us = self._probes[-1]
                pending = len(samples) - len(probes_us)
                probes_us += [max(before_us, after_us)] * pending
                before_us = after_us
            if slot in slots:
                name = _REFERENCES[next(self._reference_counter) % len(_REFERENCES)]
                references.append(ReferenceSample(name, slot, self._source.reference(name)))
        wall_s = self._now_s() - began_s
        times_us = [sample.time_us for sample in samples]
        self._update_cost(quantile(times_us, _FAST_SHARE), quantile(walls_s, _FAST_SHARE))
        block = make_block(tuple(samples), tuple(references), wall_s, self._policy)
        return replace(block, probes_us=tuple(probes_us))

    def _probe(self, probes: list[float]) -> bool:
        """Append the time of a probe; return False if there is none."""
        if (probe_us := self._source.probe()) is not None:
            probes.append(probe_us)
        return probe_us is not None

    def _restart_if_short(self) -> None:
        """Start again with larger blocks if slow first calls made them small, given time.

        Otherwise a submission that is slow at first would be checked less often than others.
        """
        if self._planned_calls < _RESIZE_FACTOR * self._block_calls:
            return
        required_s = self._policy.looks[0] * self._planned_calls * self._call_s
        if self._elapsed_s() + required_s > self._policy.wall_s_max:
            return
        # Each restart at least doubles the size, so there are few.
        self._block_calls = self._planned_calls
        self._blocks = [replace(block, is_counted=False) for block in self._blocks]

    def _counted_blocks(self) -> list[Block]:
        return [block for block in self._blocks if block.is_counted]

    def _is_budget_spent(self) -> bool:
        """Return whether a budget is used up; the blocks before the first look always run."""
        if len(self._counted_blocks()) < self._policy.looks[0] or not self._has_min_time():
            return False
        return self._spent_share() >= 1.0 or self._elapsed_s() >= self._policy.wall_s_max

    def _has_min_time(self) -> bool:
        return self._elapsed_s() >= self._policy.wall_s_min

    def _elapsed_s(self) -> float:
        """Return the wall time of the blocks."""
        return self._now_s() - self._began_s

    def _spent_share(self) -> float:
        """Return the used share of the scarcer budget, if every call cost what a fast one does.

        So slow first calls do not take the later ones' budget; `wall_s_max` bounds all of them.
        """
        device_s = self._samples_count * self._call_us / 1e6
        wall_s = self._samples_count * self._call_s
        return max(device_s / self._policy.device_s, wall_s / self._policy.wall_s)

    def _take_look(self) -> InterimLook:
        blocks = self._counted_blocks()
        values = [block.value_us for block in blocks]
        half_width, p = relative_half_width(values), trend_p(values)
        is_fit = self._is_within(self._policy.refuse_at, blocks)
        is_last = len(self._looks) == len(self._policy.looks) - 1
        is_good = half_width <= self._policy.target and p > _TREND_P and is_fit
        if is_good and self._has_min_time():
            action = "stop"
        elif self._is_budget_spent() or is_last or self._is_futile(values):
            action = "stop" if is_good else "give up"
        else:
            action = "more"
        return InterimLook(len(blocks), half_width, p, action)

    def _is_within(self, limits: Mapping[str, float], blocks: list[Block]) -> bool:
        deviations = reference_deviations(reference_values(blocks), self._plan.history)
        return not kernels_beyond(deviations, limits)

    def _is_futile(self, values: list[float]) -> bool:
        """Return whether half the budget is used and the last blocks did not change the noise."""
        if len(values) < 2 * _FUTILE_BLOCKS or self._spent_share() < 0.5:
            return False
        before = stdev(values[:-_FUTILE_BLOCKS])
        return abs(stdev(values) - before) < _FUTILE_CHANGE * before

    def _grade(self, blocks: list[Block]) -> str:
        """Return the most serious grade; on a noisy machine slow calls prove nothing."""
        is_near = self._is_within(self._policy.flag_at, blocks)
        is_quiet = is_near and not any(block.is_contaminated for block in blocks)
        grades = {
            "in_process": not self._plan.is_gated,
            "host_sync": any(block.is_dry for block in blocks),
            "launch_bound": is_late(blocks),
            "bimodal": is_quiet and is_bimodal(blocks, tuple(self._nulls)),
            "trend": is_quiet and self._has_own_trend(blocks),
            "noisy": not is_quiet or self._looks[-1].action == "give up",
        }
        return next((grade for grade, applies in grades.items() if applies), "ok")

    def _has_own_trend(self, blocks: list[Block]) -> bool:
        """Return whether the submission drifted, and not the machine."""
        if self._looks[-1].trend_p > _TREND_P:
            return False
        reference_us = reference_values(blocks)
        machine_speeds = [
            fmean(
                reference.time_us / reference_us[reference.name] for reference in block.references
            )
            for block in blocks
        ]
        corrected = [
            block.value_us / speed for block, speed in zip(blocks, machine_speeds, strict=True)
        ]
        return trend_p(corrected) <= _TREND_P
