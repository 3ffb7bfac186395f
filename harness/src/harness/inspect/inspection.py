"""Inspects a problem's own code without a submission, case by case.

It runs where every author's code runs: in a confined fork of the supervisor, here also with a
limit on memory. Code that hangs or dies is noticed from outside.
"""

import functools
import resource
import time
from collections.abc import Callable
from dataclasses import replace

from harness.build.plan import adapt_tools
from harness.build.teams import Machine
from harness.check import forms, inputs
from harness.check.author import AuthorCode
from harness.check.inputs import KEY_BYTES, probe_shape
from harness.check.structure import layout_bytes
from harness.devices.access import find_device_access, open_device
from harness.devices.device import DeviceFault
from harness.devices.lock import DeviceTurn
from harness.inspect.answers import collect_answers, inspect_check, measure_lazy_shares
from harness.inspect.case import (
    ERROR,
    NATIVE,
    WARNING,
    InspectedCase,
    Notes,
    ProcessLeftBehind,
    WatchedAuthor,
    call_watched,
    describe_case,
    inspect_entropy,
    inspect_inputs,
    make_finding,
)
from harness.inspect.lazy import LAZY_ANSWERS
from harness.inspections import Finding, InspectReport, InspectRequest
from harness.messages import Progress
from harness.problem import Case, MemoryShortage, ProblemFault, RunDirectory
from harness.sandbox import host
from harness.time.policy import policy_for
from harness.vocabulary import CPU_DEVICE, NOISY

# Another machine may be slower than this one, and a submission slower than the reference.
_BUDGET_SHARE = 0.5
# Besides inputs and outputs, a submission needs memory for intermediate results.
_MEMORY_SHARE = 0.5
_MIB = 1024**2
_LAZY_CODES = frozenset(lazy.code for lazy in LAZY_ANSWERS)


def execute_inspection(
    request: InspectRequest,
    directory: RunDirectory,
    machine: Machine,
    tell: Callable[[Progress], None],
) -> InspectReport:
    """Run one inspection in this process, and tell its progress. Raises only unexpected errors."""
    began = time.monotonic()
    problem = directory.problem
    if problem.main and (problem.lang != "py" or "reference.py" not in problem.files):
        return InspectReport([_own_program_finding(problem.main)])
    if not inputs.fits_in_share(problem, machine.slots):
        machine = replace(machine, slots=1)
    is_alone = request.device != CPU_DEVICE or machine.slots == 1
    try:
        DeviceTurn(machine.device_lock).take(is_alone=is_alone)
    except TimeoutError as busy:
        return InspectReport([], time.monotonic() - began, NOISY, str(busy))
    began = time.monotonic()
    try:
        inspection = _Inspection(request, directory, machine)
        inspection.run(began + request.limit_s, tell)
    except DeviceFault as fault:
        return InspectReport([], time.monotonic() - began, "device", str(fault))
    findings = inspection.notes.findings()
    if problem.main:
        # The program may call the other functions in another way.
        findings = [finding for finding in findings if finding.code in _LAZY_CODES]
        findings.append(_own_program_finding(problem.main))
    return InspectReport(
        findings,
        time.monotonic() - began,
        needed_bytes=inspection.needed_bytes,
        peak_bytes=inspection.peak_bytes(),
        untried=inspection.notes.untried,
        shares=inspection.notes.shares,
    )


def _own_program_finding(main: str) -> Finding:
    text = f"{main} runs the cases itself: of the problem's functions only a check is inspected"
    return make_finding("not_inspected", WARNING, main, text)


class _Inspection:
    def __init__(self, request: InspectRequest, directory: RunDirectory, machine: Machine) -> None:
        self.notes = Notes()
        self.needed_bytes = 0
        self._directory = directory
        self._problem = directory.problem
        self._is_scaled = request.is_scaled
        # How long one call of each inspected case takes the platform and a plain submission.
        self._costs_s: dict[str, float] = {}
        self._given = find_device_access(request.device, directory.problem.ranks, request.gpus)
        self._device = open_device(request.device, self._given, machine.walls, machine.defences)
        self._build_tools = adapt_tools(machine.build_tools, self._device.architecture)
        self._cache = machine.cache
        if directory.problem.lang == "py":
            # The author's code runs next, and other runs trust the content of the cache.
            machine.cache.close()
        self._slots = machine.slots
        self._offered = host.available_bytes(machine.slots)
        self._initial_bytes = _peak_bytes()
        if request.device == "cpu":
            memory_limit = max(request.memory_bytes, self._problem.required_bytes)
            host.limit_private_bytes(host.private_bytes() + min(memory_limit, self._offered))

    def run(self, until: float, tell: Callable[[Progress], None]) -> None:
        """Inspect every case for which there is time; stop after a process was left behind."""
        reference = "reference.py" if self._problem.lang == "py" else "reference.cuh"
        try:
            native = functools.partial(
                forms.load_native_functions, self._directory, self._build_tools, self._cache
            )
            name, mark = self._device.name, self._directory.mark
            code = call_watched(lambda: AuthorCode(self._problem, mark, name, native))
            author = WatchedAuthor(code)
            limits = self._given.limits
            sandbox = host.sandbox_bytes(self._problem.memory_bytes, limits, self._slots)
            inputs.require_sandbox(self._problem, sandbox)
            cases = self._cases()
            for index, (key, case) in enumerate(cases):
                tell(Progress("inspect", describe_case(key, case), index, len(cases)))
                self._inspect_case(author, key, case, until)
        except ProcessLeftBehind:
            text = "it leaves a process behind"
            self.notes.add("author_forks", ERROR, reference, text)
        except MemoryShortage as shortage:
            self.notes.add("author_memory", ERROR, reference, str(shortage))
        except ProblemFault as fault:
            self.notes.add("author_fails", ERROR, reference, str(fault))
        if not self._is_scaled:
            self._inspect_budgets()
        self._device.close()

    def _cases(self) -> list[tuple[str, Case]]:
        """Return the cases to inspect; a model has one, which is both a test and timed."""
        is_timed_only = self._is_scaled or self._problem.form == "kernelbench"
        keys = ("benchmarks",) if is_timed_only else ("tests", "benchmarks")
        cases = [(key, case) for key in keys for case in getattr(self._problem, key)]
        corners = [] if self._is_scaled else self._problem.corner_cases
        return cases + [("tests", case) for case in corners]

    def peak_bytes(self) -> int:
        """Return how much the peak memory grew since before the author's code was loaded."""
        return _peak_bytes() - self._initial_bytes

    def _inspect_case(self, author: WatchedAuthor, key: str, case: Case, until: float) -> None:
        """Inspect one case; what is wrong with it does not stop the next."""
        place = describe_case(key, case)
        self.notes.begin(place)
        is_timed = key == "benchmarks"
        if time.monotonic() > until:
            self.notes.add("not_inspected", WARNING, place, "there was no time left for it")
            self.notes.untried += [case.name] * is_timed
            return
        try:
            self._inspect(author, key, case, until)
        except MemoryShortage as shortage:
            self.notes.untried += [case.name] * is_timed
            sizes = call_watched(lambda: inputs.estimate_sizes(author, case))
            text = str(shortage)
            if sizes is not None:
                text = self._note_memory(sizes, is_timed=is_timed) or text
            self.notes.add("author_memory", ERROR, place, text)
        except ProblemFault as fault:
            self.notes.add("author_fails", ERROR, place, str(fault))

    def _inspect(self, author: WatchedAuthor, key: str, case: Case, until: float) -> None:
        shape = probe_shape(author, case, bytes(KEY_BYTES))
        shape = replace(shape, is_checked=self._problem.is_checked)
        place, is_timed = describe_case(key, case), key == "benchmarks"
        form = NATIVE if self._problem.lang == "cu" else self._problem.form
        clock = time.process_time if self._device.name == "cpu" else time.monotonic
        notes = self.notes
        subject = InspectedCase(author, case, form, shape, notes, place, is_timed, until, clock)
        self._inspect_memory(subject)
        inputs = inspect_inputs(subject)
        if inputs is None:
            return
        answers = collect_answers(subject, inputs)
        if self._is_scaled:
            notes.shares[case.name] = measure_lazy_shares(subject, inputs, answers)
            return
        inspect_entropy(subject, inputs, answers.outputs, is_same_answer=answers.is_same_again)
        check_s = inspect_check(subject, inputs, answers)
        # The reference stands for a plain submission.
        cost_s = inputs.generate_s + 2 * answers.reference_s + check_s
        self._costs_s[case.name] = cost_s

    def _inspect_memory(self, subject: InspectedCase) -> None:
        shape = subject.shape
        if text := self._note_memory(inputs.measure_sizes(shape), is_timed=subject.is_timed):
            subject.add("author_memory", ERROR, text)
        size = layout_bytes(shape.inputs) + layout_bytes(shape.outputs)
        box = max(self._given.limits.memory_bytes, self._problem.memory_bytes)
        if size > _MEMORY_SHARE * box:
            mib, limit = size // _MIB, box // _MIB
            text = f"inputs and outputs take {mib} MiB; a submission has {limit} MiB in all"
            subject.add("author_memory", ERROR, text)

    def _note_memory(self, sizes: inputs.TensorSizes, *, is_timed: bool) -> str:
        """Record what a case needs; return a sentence if this machine has less."""
        needed = inputs.needed_bytes([sizes], is_timed=is_timed)
        self.needed_bytes = max(self.needed_bytes, needed)
        if needed <= self._offered:
            return ""
        needs = host.format_gib(needed, is_need=True)
        offered = host.format_gib(self._offered, is_need=False)
        return f"a run of it needs {needs} of memory, this machine offers {offered}"

    def _inspect_budgets(self) -> None:
        """Compare the stages of a ranked run with their budgets, from the measured costs."""
        problem = self._problem
        policy = policy_for(self._device.name, "ranked")

        def calls(stage: str, cost_s: float) -> int:
            if stage == "check":
                return problem.calls
            # Both sides may be as slow as the reference.
            pairs_calls = 2 * policy.looks[0] * policy.calls(1e6 * cost_s)
            return policy.processes * (policy.warm_ups[0] + pairs_calls)

        for stage in ("check", "time"):
            costs_s = [self._costs_s.get(case.name, 0.0) for case in problem.cases(stage, "ranked")]
            seconds = sum(calls(stage, cost_s) * cost_s for cost_s in costs_s)
            budget_s = problem.budget_s(stage, "ranked")
            if seconds > _BUDGET_SHARE * budget_s:
                text = f"the stage would take about {seconds:.0f} s of a budget of {budget_s:.0f} s"
                self.notes.add("budget", ERROR, f"stage {stage}", text)


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
