"""Looking at a problem's own code without any submission, case by case: what is wrong with it.

It is run where every author's code is run: in a fork of the supervisor that gave up what it could
do harm with. It also gives up memory beyond a limit; what hangs or dies is seen from outside.
"""

import functools
import resource
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from harness.devices.device import DeviceFault
from harness.inspection import InspectReport, InspectRequest
from harness.problem import Case, MemoryShortage, Problem, ProblemFault
from harness.sandbox.host_memory import (
    available_bytes,
    gib_text,
    limit_private_bytes,
    private_bytes,
)
from harness.supervisor import driven, inspect_answer, memory
from harness.supervisor.author import Author
from harness.supervisor.home import Home
from harness.supervisor.inputs import KEY_BYTES, probe
from harness.supervisor.inspect_case import (
    NATIVE,
    Forked,
    Subject,
    Watched,
    look_at_entropy,
    looked,
    watched,
)
from harness.supervisor.inspect_notes import ERROR, WARNING, Notes, finding, where
from harness.supervisor.outfit import fitted, opened, outfit
from harness.supervisor.run import Machine
from harness.supervisor.structure import size_of
from harness.timing.policy import BLOCK_CALLS_MIN, policy_for

# A machine may be slower than this one, and a submission slower than the reference.
_BUDGET_SHARE = 0.5
# Beside inputs and outputs a submission has its own intermediate results.
_MEMORY_SHARE = 0.5
_MIB = 1024**2


def execute(request: InspectRequest, home: Home, machine: Machine) -> InspectReport:
    """One inspection in this process. Errors: what is unforeseen."""
    began = time.monotonic()
    if main := home.problem.main:
        what = f"{main} runs its cases: no function of the problem's is looked at"
        return InspectReport([finding("not_inspected", WARNING, main, what)])
    try:
        inspection = _Inspection(request, home, machine)
        inspection.run(began + request.limit_s)
    except DeviceFault as fault:
        return InspectReport([], time.monotonic() - began, "device", str(fault))
    return InspectReport(
        inspection.notes.findings(),
        time.monotonic() - began,
        needed_bytes=inspection.needed_bytes,
        peak_bytes=inspection.peak_bytes(),
    )


@dataclass
class _Costs:
    """What one call of each case takes the platform and a plain submission. Units: seconds."""

    of_case: dict[tuple[str, str], float] = field(default_factory=dict)

    def sum(self, key: str, cases: tuple[Case, ...]) -> float:
        """Of those that could be looked at."""
        return sum(self.of_case.get((key, case.name), 0.0) for case in cases)


class _Inspection:
    """One problem under inspection."""

    def __init__(self, request: InspectRequest, home: Home, machine: Machine) -> None:
        self.notes = Notes()
        self.needed_bytes = 0
        self._home = home
        self._problem = home.problem
        self._costs = _Costs()
        self._given = outfit(request.device, home.problem.ranks)
        self._device = opened(request.device, self._given, machine.walls, machine.defences)
        self._workshop = fitted(machine.workshop, self._device.architecture)
        self._cache = machine.cache
        if home.problem.lang == "py":
            # The author's code comes next, and others' runs believe what they find in there.
            machine.cache.close()
        self._offered = available_bytes()
        self._begun_bytes = _peak_bytes()
        if request.device == "cpu":
            asked = max(request.memory_bytes, self._problem.required_bytes)
            limit_private_bytes(private_bytes() + min(asked, self._offered))

    def run(self, until: float) -> None:
        """Every case, as far as there is time; no more of them after a fork."""
        reference = "reference.py" if self._problem.lang == "py" else "reference.cuh"
        try:
            author = self._author()
            memory.require_sandbox(
                self._problem, memory.sandbox_bytes(self._problem, self._given.limits)
            )
            for key, case in _cases(self._problem):
                self._guarded(author, key, case, until)
        except Forked:
            text = "a process that it started is still there afterwards"
            self.notes.add("author_forks", ERROR, reference, text)
        except MemoryShortage as shortage:
            self.notes.add("author_memory", ERROR, reference, str(shortage))
        except ProblemFault as fault:
            self.notes.add("author_fails", ERROR, reference, str(fault))
        self._look_at_budgets()
        self._device.close()

    def peak_bytes(self) -> int:
        """How much more memory this process had at its peak than before the author's code came."""
        return _peak_bytes() - self._begun_bytes

    def _author(self) -> Watched:
        native = functools.partial(driven.functions, self._home, self._workshop, self._cache)
        name, mark = self._device.name, self._home.mark
        return Watched(watched(lambda: Author(self._problem, mark, name, native)))

    def _guarded(self, author: Watched, key: str, case: Case, until: float) -> None:
        """One case; what is wrong with it does not keep the next from being looked at."""
        place = where(key, case)
        self.notes.begin(place)
        if time.monotonic() > until:
            self.notes.add("not_inspected", WARNING, place, "there was no time left for it")
            return
        try:
            self._look(author, key, case, until)
        except MemoryShortage as shortage:
            sizes = watched(lambda: memory.estimate(author, case))
            text = str(shortage)
            if sizes is not None:
                text = self._need(sizes, is_timed=key == "benchmarks") or text
            self.notes.add("author_memory", ERROR, place, text)
        except ProblemFault as fault:
            self.notes.add("author_fails", ERROR, place, str(fault))

    def _look(self, author: Watched, key: str, case: Case, until: float) -> None:
        shape = probe(author, case, bytes(KEY_BYTES))
        shape = replace(shape, is_checked=self._problem.is_checked)
        place, is_timed = where(key, case), key == "benchmarks"
        form = NATIVE if self._problem.lang == "cu" else self._problem.form
        clock = time.process_time if self._device.name == "cpu" else time.monotonic
        subject = Subject(author, case, form, shape, self.notes, place, is_timed, until, clock)
        self._look_at_memory(subject)
        found = looked(subject)
        if found is None:
            return
        answers = inspect_answer.answers(subject, found)
        look_at_entropy(subject, found, answers.outputs, is_same_answer=answers.is_same_again)
        check_s = inspect_answer.check(subject, found, answers)
        # The reference stands for a plain submission.
        cost_s = found.generate_s + 2 * answers.reference_s + check_s
        self._costs.of_case[key, case.name] = cost_s

    def _look_at_memory(self, subject: Subject) -> None:
        shape = subject.shape
        if text := self._need(memory.sizes_of(shape), is_timed=subject.is_timed):
            subject.add("author_memory", ERROR, text)
        size = size_of(shape.inputs) + size_of(shape.outputs)
        box = max(self._given.limits.memory_bytes, self._problem.memory_bytes)
        if size > _MEMORY_SHARE * box:
            mib, limit = size // _MIB, box // _MIB
            text = f"inputs and outputs take {mib} MiB, a submission has {limit} for all it does"
            subject.add("author_memory", ERROR, text)

    def _need(self, sizes: memory.Sizes, *, is_timed: bool) -> str:
        """Note what a case needs; a sentence if this machine has less."""
        needed = memory.needed_bytes([sizes], is_timed=is_timed)
        self.needed_bytes = max(self.needed_bytes, needed)
        if needed <= self._offered:
            return ""
        needs, offered = gib_text(needed, is_need=True), gib_text(self._offered, is_need=False)
        return f"a run of it needs {needs} of memory, this machine offers {offered}"

    def _look_at_budgets(self) -> None:
        """The stages of a ranked run, by what each case has taken."""
        problem = self._problem
        policy = policy_for(self._device.name, "ranked")
        calls = policy.processes * (policy.warm_ups[0] + policy.looks[0] * BLOCK_CALLS_MIN)
        checked = "tests" if problem.tests else "benchmarks"
        took_s = {
            "check": problem.calls * self._costs.sum(checked, problem.cases("check", "ranked")),
            "time": calls * self._costs.sum("benchmarks", problem.cases("time", "ranked")),
        }
        for stage, seconds in took_s.items():
            budget_s = problem.budget_s(stage, "ranked")
            if seconds > _BUDGET_SHARE * budget_s:
                text = f"the stage would take about {seconds:.0f} s of a budget of {budget_s:.0f} s"
                self.notes.add("budget", ERROR, f"stage {stage}", text)


def _cases(problem: Problem) -> Iterator[tuple[str, Case]]:
    for key, cases in (("tests", problem.tests), ("benchmarks", problem.benchmarks)):
        for case in cases:
            yield key, case


def _peak_bytes() -> int:
    """The most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
