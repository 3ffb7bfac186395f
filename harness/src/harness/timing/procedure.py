"""The measurement of one case in one fresh process: warm-ups, null calls, blocks and looks."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import count
from math import ceil, inf
from statistics import fmean, stdev

from harness.timing.estimators import half_width, is_settled, quantile, trend_p
from harness.timing.gates import beyond, deviation
from harness.timing.policy import probe_slots, reference_slots
from harness.timing.process import (
    Block,
    Look,
    Plan,
    Process,
    Reference,
    block_of,
    is_bimodal,
    is_late,
    reference_values,
)
from harness.timing.source import Sample, Source

_TREND_P = 0.01
_NULLS_MIN = 5
_QUIET_PROBES = 10
# Null calls, before and after, may each take this share of the wall budget.
_NULL_SHARE = 0.05
_WINDOW_S = 0.02
_WINDOW_CALLS_MAX = 2000
_RESIZE_FACTOR = 2
# A call costs what the fast part of the calls of a block took, in the block where that is least.
_FAST_SHARE = 0.25
_FUTILE_BLOCKS = 8
_FUTILE_CHANGE = 0.05
_REFERENCES = ("fma", "copy")


def measure(
    source: Source, plan: Plan, now_s: Callable[[], float], below: Callable[[int], int]
) -> Process:
    """One case in one fresh process; `below` draws a number that nobody can foretell.

    Errors: whatever the source raises, such as a wrong answer: it ends the measurement.
    """
    return _Pass(source, plan, now_s).run(below)


class _Pass:
    """What a measurement under way has seen."""

    def __init__(self, source: Source, plan: Plan, now_s: Callable[[], float]) -> None:
        self._source = source
        self._plan = plan
        self._policy = plan.policy
        self._now_s = now_s
        self._blocks: list[Block] = []
        self._looks: list[Look] = []
        self._nulls: list[Sample] = []
        self._turn = count()
        self._repeats = 0
        self._probes: list[float] = []
        self._samples_count = 0
        self._call_us = self._call_s = inf
        self._block_calls = self._planned_calls = 0

    def run(self, below: Callable[[int], int]) -> Process:
        """All of it, in order."""
        first_probes = self._null_calls()
        warm_ups = self._warm_up(below)
        self._warm_clock()
        self._began_s = self._now_s()
        self._measure_blocks()
        last_probes = self._null_calls()
        blocks = self._counted()
        return Process(
            warm_ups=warm_ups,
            nulls=tuple(self._nulls),
            blocks=tuple(self._blocks),
            looks=tuple(self._looks),
            deviation=deviation(reference_values(blocks), self._plan.history),
            grade=self._grade(blocks),
            calibration=self._plan.calibration,
            probes=tuple(self._probes),
            first_probes=first_probes,
            last_probes=last_probes,
            blocks_share=self._policy.blocks_share,
        )

    def _null_calls(self) -> tuple[float, ...]:
        """Half of them; where they are slow, so many as fit their share of the budget.

        Returns the times of the probes after them.
        """
        probes: list[float] = []
        until = self._now_s() + _NULL_SHARE * self._policy.wall_s
        for done in range(self._policy.nulls // 2):
            if done >= _NULLS_MIN and self._now_s() >= until:
                break
            self._nulls.append(self._source.null())
        # Not between them: a null call after a probe finds its caches full of other things.
        for _ in range(_QUIET_PROBES):
            self._probe(probes)
        return tuple(probes)

    def _warm_clock(self) -> None:
        """Keeps the device busy with a kernel of ours until its clock stands still, or for long."""
        least_s, most_s = self._policy.clock_s
        began_s = self._now_s()
        windows: list[float] = []
        while len(windows) * _WINDOW_S < most_s and self._now_s() - began_s < most_s:
            windows.append(self._window())
            if self._now_s() - began_s >= least_s and is_settled(windows):
                return

    def _window(self) -> float:
        until_s = self._now_s() + _WINDOW_S
        times = []
        for _ in range(_WINDOW_CALLS_MAX):
            times.append(self._source.reference("fma"))
            if self._now_s() >= until_s:
                break
        return fmean(times)

    def _warm_up(self, below: Callable[[int], int]) -> tuple[Sample, ...]:
        """An unannounced number of calls like all others; the fastest decides the block's size."""
        least, most = self._policy.warm_ups
        samples: list[Sample] = []
        walls_s = []
        for _ in range(least + below(most - least + 1)):
            began_s = self._now_s()
            samples.append(self._source.call())
            walls_s.append(self._now_s() - began_s)
        self._update_cost(min(one.time_us for one in samples), min(walls_s))
        self._block_calls = self._planned_calls
        return tuple(samples)

    def _update_cost(self, call_us: float, call_s: float) -> None:
        """Plan with the least cost of a call seen so far; so the planned calls only ever grow."""
        self._call_us = min(self._call_us, call_us)
        self._call_s = min(self._call_s, call_s)
        self._planned_calls = self._policy.calls(self._call_us, self._call_s)

    def _measure_blocks(self) -> None:
        for blocks in self._policy.looks:
            while not self._has_planned_calls(blocks) and not self._is_spent():
                self._add_block()
            self._looks.append(self._look())
            if self._looks[-1].action != "more":
                return

    def _has_planned_calls(self, blocks: int) -> bool:
        """Whether as many calls count as so many blocks of the planned size would hold.

        Where slow first calls made the blocks too short, more of them make up for it.
        """
        return len(self._counted()) >= ceil(blocks * self._planned_calls / self._block_calls)

    def _add_block(self) -> None:
        block = self._block()
        if block.is_spoilt and self._may_repeat():
            self._repeats += 1
            block = replace(block, is_counted=False)
        self._blocks.append(block)
        self._samples_count += len(block.samples)
        self._restart_if_short()

    def _may_repeat(self) -> bool:
        """Whether there is time for another block, and for those that are owed in any case."""
        spent_s = self._elapsed_s()
        owed = max(1, self._policy.looks[0] - len(self._counted()))
        ends_s = spent_s + owed * spent_s / (len(self._blocks) + 1)
        return self._repeats < self._policy.repeats_max and ends_s <= self._policy.repeats_s

    def _block(self) -> Block:
        samples: list[Sample] = []
        walls_s: list[float] = []
        references: list[Reference] = []
        slots, probed = reference_slots(self._block_calls), probe_slots(self._block_calls)
        began_s = self._now_s()
        for slot in range(1, self._block_calls + 1):
            call_began_s = self._now_s()
            samples.append(self._source.call())
            walls_s.append(self._now_s() - call_began_s)
            if slot in probed:
                self._probe(self._probes)
            if slot in slots:
                name = _REFERENCES[next(self._turn) % len(_REFERENCES)]
                references.append(Reference(name, slot, self._source.reference(name)))
        wall_s = self._now_s() - began_s
        times_us = [sample.time_us for sample in samples]
        self._update_cost(quantile(times_us, _FAST_SHARE), quantile(walls_s, _FAST_SHARE))
        return block_of(tuple(samples), tuple(references), wall_s, self._policy)

    def _probe(self, probes: list[float]) -> None:
        if (probe_us := self._source.probe()) is not None:
            probes.append(probe_us)

    def _restart_if_short(self) -> None:
        """Start again with larger blocks, if slow first calls made them small and the wall allows.

        Otherwise a submission that is slow at first would be checked less often than others.
        """
        if self._planned_calls < _RESIZE_FACTOR * self._block_calls:
            return
        owed_s = self._policy.looks[0] * self._planned_calls * self._call_s
        if self._elapsed_s() + owed_s > self._policy.wall_s_max:
            return
        # As each doubles the size at least, there are few.
        self._block_calls = self._planned_calls
        self._blocks = [replace(block, is_counted=False) for block in self._blocks]

    def _counted(self) -> list[Block]:
        return [block for block in self._blocks if block.is_counted]

    def _is_spent(self) -> bool:
        """Whether a budget is used up; the blocks before the first look are owed in any case."""
        if len(self._counted()) < self._policy.looks[0] or not self._is_long():
            return False
        return self._spent() >= 1.0 or self._elapsed_s() >= self._policy.wall_s_max

    def _is_long(self) -> bool:
        return self._elapsed_s() >= self._policy.wall_s_min

    def _elapsed_s(self) -> float:
        """How long the blocks have taken by the wall."""
        return self._now_s() - self._began_s

    def _spent(self) -> float:
        """Which share of the scarcer budget is used up, if every call cost what a fast one does.

        So slow first calls leave the later ones their budget; `wall_s_max` bounds all of them.
        """
        device_s = self._samples_count * self._call_us / 1e6
        wall_s = self._samples_count * self._call_s
        return max(device_s / self._policy.device_s, wall_s / self._policy.wall_s)

    def _look(self) -> Look:
        blocks = self._counted()
        values = [block.value_us for block in blocks]
        half, p = half_width(values), trend_p(values)
        is_fit = self._is_within(self._policy.refuse_at, blocks)
        is_good = half <= self._policy.target and p > _TREND_P and is_fit
        if is_good and self._is_long():
            action = "stop"
        elif self._is_spent() or self._is_last_look() or self._is_futile(values):
            action = "stop" if is_good else "give up"
        else:
            action = "more"
        return Look(len(blocks), half, p, action)

    def _is_last_look(self) -> bool:
        return len(self._looks) == len(self._policy.looks) - 1

    def _is_within(self, limits: Mapping[str, float], blocks: list[Block]) -> bool:
        off = deviation(reference_values(blocks), self._plan.history)
        return not beyond(off, limits)

    def _is_futile(self, values: list[float]) -> bool:
        """Whether half the budget is gone and the last blocks told nothing new of the noise."""
        if len(values) < 2 * _FUTILE_BLOCKS or self._spent() < 0.5:
            return False
        before = stdev(values[:-_FUTILE_BLOCKS])
        return abs(stdev(values) - before) < _FUTILE_CHANGE * before

    def _grade(self, blocks: list[Block]) -> str:
        """The gravest of what can be said; on a noisy machine slow calls accuse nobody."""
        is_near = self._is_within(self._policy.flag_at, blocks)
        is_quiet = is_near and not any(block.is_contaminated for block in blocks)
        found = {
            "in_process": not self._plan.is_gated,
            "host_sync": any(block.is_dry for block in blocks),
            "launch_bound": is_late(blocks),
            "bimodal": is_quiet and is_bimodal(blocks, tuple(self._nulls)),
            "trend": is_quiet and self._has_own_trend(blocks),
            "noisy": not is_quiet or self._looks[-1].action == "give up",
        }
        return next((grade for grade, is_so in found.items() if is_so), "ok")

    def _has_own_trend(self, blocks: list[Block]) -> bool:
        """Whether the submission drifted, and not the machine under it."""
        if self._looks[-1].trend_p > _TREND_P:
            return False
        usual = reference_values(blocks)
        machine = [
            fmean(one.time_us / usual[one.name] for one in block.references) for block in blocks
        ]
        apart = [block.value_us / speed for block, speed in zip(blocks, machine, strict=True)]
        return trend_p(apart) <= _TREND_P
