"""The shapes of all cases of a run, found out once before anything of it is judged."""

import functools
from collections.abc import Iterable
from dataclasses import replace

from harness.problem import Case
from harness.supervisor.author import at
from harness.supervisor.inputs import Shape, probe
from harness.supervisor.judging import Court


def of_cases(
    court: Court, cases: Iterable[Case], key: bytes, *, is_checked: bool
) -> dict[str, list[Shape]]:
    """For each case by its name that of every rank. Errors: ProblemFault."""
    found: dict[str, list[Shape]] = {}
    for case in cases:
        if case.name not in found:
            probed = functools.partial(_of, court, case, key)
            shapes = court.author.each(case, case.ranks, probed)
            found[case.name] = [replace(one, is_checked=is_checked) for one in shapes]
    return found


def _of(court: Court, case: Case, key: bytes, rank: int) -> Shape:
    place = court.device.of_rank(rank).place
    with at(place):
        return probe(court.author, case, key, rank, place)
