"""Whether a cheat ended as its header promises."""

from collections.abc import Iterator, Sequence

from .corpus import Cheat
from .trials import SECRET, Ended

# What the handshake may hide of a call, as a share of the time that its work alone takes.
GAIN_MAX = 0.03
# A machine may take the core away from a call for as long, now and then.
_DROPPED_MAX = 0.3


def faults(one: Cheat, runs: Sequence[Ended], alone: float) -> list[str]:
    """What is not as it should be, a sentence each; `alone` is the time of the work alone."""
    return [
        fault for ended in runs for part in _PARTS for fault in part(one, ended, alone) if fault
    ]


def _of_verdict(one: Cheat, ended: Ended, _: float) -> Iterator[str]:
    report = ended.report
    if report.failure_code:
        yield f"failed: {report.failure_code}: {report.reason}"
    elif report.verdict not in one.verdicts:
        yield f"{report.verdict}: {report.reason}; the log ends {ended.log[-300:]!r}"
    if not ended.said.replace("\n", "").replace("\t", "").isprintable():
        yield f"the report holds control characters: {ended.said!r}"
    if len(ended.log) > 256 * 1024:
        yield f"{len(ended.log)} characters of output were kept"


def _of_words(one: Cheat, ended: Ended, _: float) -> Iterator[str]:
    for word, text in (("says", ended.said), ("prints", ended.log)):
        wanted, unwanted = one.header.get(word, ""), one.header.get(f"never_{word}", SECRET)
        if wanted not in text:
            yield f"it never {word} {wanted!r}: {text[-300:]!r}"
        for bad in (unwanted, SECRET):
            if bad in text:
                lines = [line[:160] for line in text.splitlines() if bad in line]
                yield f"it {word} {lines[:4]}"
                break


def _of_times(one: Cheat, ended: Ended, alone: float) -> Iterator[str]:
    least_us = one.number("time_us_min", 0.0)
    if ended.report.verdict != "passed":
        return
    if ended.times_us and min(ended.times_us) < least_us:
        yield f"{min(ended.times_us):.0f} us is less than {least_us:.0f}"
    if one.header.get("check") == "no_gain" and min(ended.samples_us) < (1 - GAIN_MAX) * alone:
        yield f"a call took {min(ended.samples_us):.0f} us, its work alone takes {alone:.0f}"
    # Beside seven busy processes one honest ratio in 45 is over 1.05, three in a row 1 in 90,000.
    ratio_max = one.number("probe_ratio_max", float("inf"))
    if ended.probe_ratios and min(ended.probe_ratios) > ratio_max:
        yield f"its calls make the probe {min(ended.probe_ratios):.3f} times as slow"
    if (share := dropped_share(one, ended)) > _DROPPED_MAX:
        yield f"{share:.0%} of its slow calls do not count"


def dropped_share(one: Cheat, ended: Ended) -> float:
    """Of the calls that take as long as the header says, the share that does not count."""
    slow_us = one.number("slow_us", float("inf"))
    slow = sum(time_us >= slow_us for time_us in ended.samples_us)
    return sum(time_us >= slow_us for time_us in ended.dropped_us) / slow if slow else 0.0


def _of_traces(_: Cheat, ended: Ended, __: float) -> Iterator[str]:
    if ended.left:
        yield f"processes are left: {ended.left}"


_PARTS = (_of_verdict, _of_words, _of_times, _of_traces)
