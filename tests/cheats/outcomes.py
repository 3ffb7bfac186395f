"""Whether a cheat ended as its header promises."""

from collections.abc import Iterator, Sequence
from statistics import median
from typing import NamedTuple

from harness.messages import CaseReport
from tests.support.rounds import holds_in_a_round

from .corpus import Cheat, named
from .trials import SECRET, Ended, Trials, alone_us

# What the handshake may hide of a call, as a share of the time that its work alone takes.
GAIN_MAX = 0.03
# The honest control prints what its work takes when it is imported, in two fresh processes here.
UNTIMED = named("honest").like(mode="test", runs="2")
# A machine may take the core away from a call for as long, now and then.
_DROPPED_MAX = 0.3


class Judgement(NamedTuple):
    """The runs of a cheat, and what is not as its header says: a sentence each."""

    runs: Sequence[Ended]
    faults: list[str]


def judge(one: Cheat, trials: Trials) -> Judgement:
    """Run a cheat and compare its end with its header.

    Only compared times get further rounds, as `holds_in_a_round` says; all else counts at once.
    """
    judgement = Judgement([], [])

    def compare() -> bool:
        nonlocal judgement
        honest_us = alone_us(trials.run(UNTIMED)) if one.is_compared else 0.0
        runs = trials.run(one)
        certain = faults(one, runs)
        judgement = Judgement(runs, certain or time_faults(one, runs, honest_us))
        return bool(certain) or not judgement.faults

    holds_in_a_round(compare)
    return judgement


def faults(one: Cheat, runs: Sequence[Ended]) -> list[str]:
    """Return what is not as the header says, whatever else the machine does: a sentence each."""
    return [fault for ended in runs for part in _PARTS for fault in part(one, ended)]


def time_faults(one: Cheat, runs: Sequence[Ended], honest_us: float) -> list[str]:
    """Return what is wrong with measured times; the work alone takes `honest_us`."""
    return [fault for ended in runs for fault in _compare(one, ended, honest_us)]


def _of_verdict(one: Cheat, ended: Ended) -> Iterator[str]:
    report = ended.report
    if report.failure_code:
        yield f"failed: {report.failure_code}: {report.reason}"
    elif report.verdict not in one.verdicts:
        yield f"{report.verdict}: {report.reason}; the log ends {ended.log[-300:]!r}"
    if not ended.said.replace("\n", "").replace("\t", "").isprintable():
        yield f"the report holds control characters: {ended.said!r}"
    if len(ended.log) > 256 * 1024:
        yield f"{len(ended.log)} characters of output were kept"


def _of_words(one: Cheat, ended: Ended) -> Iterator[str]:
    for word, text in (("says", ended.said), ("prints", ended.log)):
        wanted, unwanted = one.header.get(word, ""), one.header.get(f"never_{word}", SECRET)
        if wanted not in text:
            yield f"it never {word} {wanted!r}: {text[-300:]!r}"
        for bad in (unwanted, SECRET):
            if bad in text:
                lines = [line[:160] for line in text.splitlines() if bad in line]
                yield f"it {word} {lines[:4]}"
                break


def _of_times(one: Cheat, ended: Ended) -> Iterator[str]:
    """A call that sleeps for that long cannot be shorter, whatever else runs."""
    least_us = one.number("time_us_min", 0.0)
    if ended.report.verdict == "passed" and median(ended.samples_us or [least_us]) < least_us:
        yield f"most calls took less than {least_us:.0f} us: {median(ended.samples_us):.0f}"


def _compare(one: Cheat, ended: Ended, honest_us: float) -> Iterator[str]:
    if ended.report.verdict != "passed":
        return
    if one.is_compared and min(ended.samples_us) < (1 - GAIN_MAX) * honest_us:
        yield f"a call took {min(ended.samples_us):.0f} us, its work alone takes {honest_us:.0f}"
    least_us = one.number("time_us_min", 0.0)
    if ended.times_us and min(ended.times_us) < least_us:
        yield f"{min(ended.times_us):.0f} us is less than {least_us:.0f}"
    if one.check == "no_residue":
        yield from _of_residue(ended)
    if one.check == "counts_all":
        yield from _of_mean(ended)
    is_noisy = any(case.grade == "noisy" for case in _timed(ended))
    if not is_noisy and (share := dropped_share(one, ended)) > _DROPPED_MAX:
        yield f"{share:.0%} of its slow calls do not count"


def yardstick_ratios(ended: Ended) -> list[float]:
    """Return the time of each timed case as a multiple of the yardstick's."""
    return [
        case.time_us / case.yardstick_us
        for case in ended.report.cases
        if case.time_us and case.yardstick_us
    ]


def _of_residue(ended: Ended) -> Iterator[str]:
    """The yardstick does the same work, so a lower score than its time is a gain."""
    for case, ratio in zip(_timed(ended), yardstick_ratios(ended), strict=True):
        if ratio < 1 - _tie_share(case, ended):
            yield f"it counts as {ratio:.3f} of the yardstick, which does the same work"


def _of_mean(ended: Ended) -> Iterator[str]:
    """A noisy time claims no order, and slow calls on a crowded machine may be the machine's."""
    for case, mean_us in zip(_timed(ended), ended.means_us, strict=True):
        assert case.time_us
        if case.grade != "noisy" and case.time_us < (1 - _tie_share(case, ended)) * mean_us:
            yield f"it counts as {case.time_us:.0f} us, the mean of its calls is {mean_us:.0f}"


def _timed(ended: Ended) -> list[CaseReport]:
    return [case for case in ended.report.cases if case.time_us]


def _tie_share(case: CaseReport, ended: Ended) -> float:
    """Return which share of a time ties another with it: by the interval, or what can be hidden."""
    assert case.time_us
    assert case.interval_us
    return max(1 - case.interval_us[0] / case.time_us, ended.report.tie_us / case.time_us)


def dropped_share(one: Cheat, ended: Ended) -> float:
    """Of the calls that take as long as the header says, the share that does not count."""
    slow_us = one.number("slow_us", float("inf"))
    slow = sum(time_us >= slow_us for time_us in ended.samples_us)
    return sum(time_us >= slow_us for time_us in ended.dropped_us) / slow if slow else 0.0


def _of_traces(_: Cheat, ended: Ended) -> Iterator[str]:
    if ended.left:
        yield f"processes are left: {ended.left}"


_PARTS = (_of_verdict, _of_words, _of_times, _of_traces)
