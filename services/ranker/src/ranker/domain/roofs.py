"""A run's times against the least that its cases have to do: floors, and shares of the roofline."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from math import exp, fsum, isfinite, log
from typing import Any

from shared.events import CaseResult, Roof
from shared.problems.roofline import Work, reached, roofline_us
from shared.problems.score import score_us

BELOW_FLOOR = "below_physical_floor"
# The floor of a GPU type that is not named.
ANY = ""


def floors(roofs: Sequence[Roof], gpu: str) -> dict[str, float]:
    """The time that no call of a case can be under on a GPU type, as its version was published.

    >>> floors([Roof(case="n=1", floors_us={"H200": 2.0}), Roof(case="n=2")], "H200")
    {'n=1': 2.0}
    """
    found = {one.case: one.floors_us.get(gpu, one.floors_us.get(ANY, 0.0)) for one in roofs}
    return {case: least_us for case, least_us in found.items() if least_us > 0}


def below(
    timed: Sequence[CaseResult], floors_us: Mapping[str, float]
) -> tuple[CaseResult, float] | None:
    """The first case that took less than it can, and its floor; None if there is none."""
    for case in timed:
        least_us = floors_us.get(case.name, 0.0)
        if case.time_us is not None and _least_us(case, case.time_us) < least_us:
            return case, least_us
    return None


def share(roofs: Sequence[Roof], gpu: str, ranking_by: str, scored_us: float) -> float | None:
    """Which share of the roofline a score is; None if that of a case is not known.

    >>> roofs = [Roof(case="n=1", bytes=4.8e6), Roof(case="n=2", bytes=19.2e6)]
    >>> round(share(roofs, "H200", "geom", 4.0), 6), share(roofs, "CPU", "geom", 4.0)
    (0.5, None)
    """
    counting = roofs[-1:] if ranking_by == "last" else roofs
    least = [roofline_us(_work(one), gpu) for one in counting]
    known = [one for one in least if one is not None]
    whole = score_us(ranking_by, known) if known and len(known) == len(least) else None
    return None if whole is None or not scored_us > 0 else whole / scored_us


def shown(roofs: Sequence[Roof], gpu: str, case: Mapping[str, Any]) -> dict[str, Any] | None:
    """What the time of a case amounts to, as plain data; None if it has none, or no roof."""
    roof = next((one for one in roofs if one.case == case["name"]), None)
    time_us = case.get("time_us")
    if roof is None or not time_us or case["stage"] != "time" or not (roof.bytes or roof.flops):
        return None
    found = reached(_work(roof), gpu, time_us)
    return None if found is None else asdict(found)


def _work(roof: Roof) -> Work:
    return Work(roof.case, bytes=roof.bytes, flops=roof.flops, dtype=roof.dtype)


def _least_us(case: CaseResult, time_us: float) -> float:
    """The case's time, or that of its processes, which the score is made of, if it is less."""
    processes = [one for one in case.process_us if one > 0 and isfinite(one)]
    if not processes:
        return time_us
    return min(time_us, exp(fsum(log(one) for one in processes) / len(processes)))
