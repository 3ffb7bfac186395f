"""Unclocked first calls, in which a submission may compile for shapes that are new to it."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator

from harness.problem import Case
from harness.supervisor.calls import Gate
from harness.supervisor.purse import Purse
from harness.supervisor.team import Team

# What the seeds of warm-up calls are derived from, in place of a stage: no other call has them.
WARM_UP = "warm_up"


class WarmUps:
    """Makes a team's first call for every new shape, so that no judged call has to compile.

    `seeds` are those of warm-up calls alone: a submission learns nothing of a judged input.
    `budget_s` bounds each call; `Problem.warm_ups_max` says how many a team can get.
    """

    def __init__(self, seeds: Callable[[Case], Iterator[int]], budget_s: float) -> None:
        self._seeds_of_case = seeds
        self._budget_s = budget_s
        self._seeds: dict[str, Iterator[int]] = {}
        self._shapes_of_team: defaultdict[Team, set[tuple[bytes, ...]]] = defaultdict(set)

    def warm_up(self, gate: Gate, purse: Purse) -> None:
        """Make the call if the gate's team has not been called with these shapes yet.

        What it takes costs the purse nothing. Errors: CaseFailed, ProblemFault, DeviceFault.
        """
        shapes = tuple(shape.specialisation() for shape in gate.shapes)
        known_shapes = self._shapes_of_team[gate.team]
        if shapes in known_shapes:
            return
        known_shapes.add(shapes)
        began = time.monotonic()
        gate.warm_up(self._next_seed(gate.case), self._budget_s)
        purse.pardon(time.monotonic() - began)

    def _next_seed(self, case: Case) -> int:
        """The next seed of a case, which go on from team to team."""
        if case.name not in self._seeds:
            self._seeds[case.name] = self._seeds_of_case(case)
        return next(self._seeds[case.name])
