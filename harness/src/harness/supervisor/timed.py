"""The timed stage: fresh processes, cases in turn, and a null worker beside them."""

import gzip
import json
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from harness.messages import CaseReport, Progress
from harness.problem import Case
from harness.supervisor import verdict
from harness.supervisor.calls import Court, Gate
from harness.supervisor.estimate import SAMPLES_MAX, SAMPLES_MIN, estimate
from harness.supervisor.guests import Guests
from harness.supervisor.inputs import Shape
from harness.supervisor.team import Team
from harness.supervisor.verdict import CaseFailed

_SHARE = 0.5


@dataclass
class Clock:
    """What makes samples: the court, the shapes of the cases, and the seeds of their calls."""

    court: Court
    shapes: dict[str, list[Shape]]
    seeds: Callable[[Case], Iterator[int]]
    going: dict[str, Iterator[int]] = field(default_factory=dict)

    def seeds_of(self, case: Case) -> Iterator[int]:
        """The seeds of a case, which go on from process to process: no call sees one twice."""
        if case.name not in self.going:
            self.going[case.name] = self.seeds(case)
        return self.going[case.name]


class Timer:
    def __init__(self, guests, clock, mode, tell):
        self.guests, self.clock, self.mode, self.tell = guests, clock, mode, tell
        self.samples = {}

    def run(self, team: Team, cases: Sequence[Case], deadline: float) -> list[CaseReport]:
        out = []
        for done, case in enumerate(cases):
            self.tell(Progress("time", case.name, done, len(cases)))
            seeds = self.clock.seeds_of(case)
            samples = self.samples[case.name] = []
            until = time.monotonic() + 1
            try:
                with Gate(self.clock.court, team, case, self.clock.shapes[case.name]) as gate:
                    for _ in range(3 + secrets.randbelow(3)):
                        gate.call(next(seeds), deadline)
                    while len(samples) < SAMPLES_MAX:
                        if len(samples) >= SAMPLES_MIN and time.monotonic() >= until:
                            break
                        samples.append(gate.call(next(seeds), deadline))
            except CaseFailed as failure:
                out.append(verdict.report(case.name, "time", failure))
                return out
            found = estimate(samples)
            out.append(CaseReport(case.name, "time", "passed", time_us=found.time_us, interval_us=(found.low_us, found.high_us), samples=len(samples)))
        return out

    def record(self) -> bytes:
        return gzip.compress(json.dumps({"unit": "us", "samples": self.samples}).encode(), mtime=0)
