"""The parts of a report on a submission, each in lines: stages, cases, times, the system."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from shared.telling.answers import Case, Run, Submission
from shared.telling.outcome import isolation, mismatch_lines
from shared.telling.rates import share_text, speedups_text
from shared.telling.units import harmless, one_line, spread_text, time_text

PASSED, SKIPPED, TIME = "passed", "skipped", "time"
# As the harness runs them; what failed in one keeps the next from being begun.
STAGES: Mapping[str, tuple[str, ...]] = {
    "test": ("build", "check"),
    "benchmark": ("build", "check", "time"),
    "profile": ("build", "check", "profile"),
    "ranked": ("build", "check", "hidden_check", "time"),
}
MARKS = {PASSED: "✅", SKIPPED: "⏭"}
WORDS: Mapping[str, str] = {
    "late_write": "wrote after it had answered",
    "protocol": "broke the protocol",
    "timed_out": "took too long",
    "output_limit": "printed too much",
    "compile_error": "does not compile",
    "import_error": "cannot be imported",
    "suspicious": "suspicious, held until somebody looks",
    "infra_failed": "the platform failed, not the submission",
}
TITLES = {"hidden_check": "hidden run"}
NAME_MAX, MESSAGE_MAX = 18, 300
# What a machine says of itself that makes times comparable, in this order.
CODE_SHOWN = 12
FACTS = ("gpu", "cuda_driver", "clock", "cpu", "cores", "python", "torch", "platform")


class Stage(NamedTuple):
    """How a stage ended, and how many of its cases passed."""

    name: str
    verdict: str
    passed: int = 0
    total: int = 0


def verdict_text(verdict: str) -> str:
    """A verdict in words.

    >>> verdict_text("wrong_answer"), verdict_text("compile_error")
    ('wrong answer', 'does not compile')
    """
    return WORDS.get(verdict, one_line(verdict.replace("_", " "), 60))


def mark_of(verdict: str) -> str:
    """The sign beside a verdict.

    >>> mark_of("passed"), mark_of("crashed")
    ('✅', '❌')
    """
    return MARKS.get(verdict, "❌")


def stages(found: Submission) -> list[Stage]:
    """How each stage ended; none where it is not told in which one a run failed, as of others'.

    >>> said = dict(number=1, problem="p", problem_number=1, gpu="CPU", name="k.py", version=1)
    >>> over = dict(state="finished", is_over=True, verdict="compile_error", stage="build")
    >>> [one.verdict for one in stages(Submission(**said, **over, mode="test"))]
    ['compile_error', 'skipped']
    >>> stages(Submission(**said, **over | {"stage": None}, mode="test"))
    []
    """
    if found.verdict is None:
        return []
    made: list[Stage] = []
    failed = False
    for name in STAGES.get(found.mode, ()):
        cases = [one for one in found.cases if one.stage == name]
        verdict = SKIPPED if failed else _ended(found, name, cases)
        passed = sum(one.verdict == PASSED for one in cases)
        made.append(Stage(name, verdict, passed, len(cases)))
        failed = failed or verdict != PASSED
    return made if failed or found.verdict == PASSED else []


def _ended(found: Submission, name: str, cases: Sequence[Case]) -> str:
    """The first verdict in a stage that is not `passed`; without cases, what the run says."""
    if found.verdict != PASSED and found.stage == name:
        return str(found.verdict)
    return next((one.verdict for one in cases if one.verdict not in (PASSED, SKIPPED)), PASSED)


def stage_lines(found: Submission) -> list[str]:
    """A line for each stage; of the hidden run no more than its verdict."""
    return [
        f"{mark_of(one.verdict)} {TITLES.get(one.name, one.name)}: {verdict_text(one.verdict)}"
        + (f" {one.passed}/{one.total}" if one.total and one.name not in TITLES else "")
        for one in stages(found)
    ]


def failing_lines(cases: Iterable[Case]) -> Iterator[str]:
    """Every case that failed: its verdict, its message, the values that differ."""
    for case in cases:
        if case.verdict in (PASSED, SKIPPED):
            continue
        name = "a hidden case" if case.is_hidden else _named(case)
        yield f"{mark_of(case.verdict)} {name}: {verdict_text(case.verdict)}"
        yield from (f"  {line[:MESSAGE_MAX]}" for line in harmless(case.message).splitlines())
        yield from mismatch_lines(case)


def case_lines(cases: Iterable[Case]) -> Iterator[str]:
    """All that failed, then a line for each other public case that has no time."""
    known = list(cases)
    yield from failing_lines(known)
    for case in known:
        is_told = not case.is_hidden and case.time_us is None
        if is_told and case.verdict in (PASSED, SKIPPED):
            yield f"{mark_of(case.verdict)} {_named(case)}: {verdict_text(case.verdict)}"


def _named(case: Case) -> str:
    return f"{one_line(case.stage, 20)} {one_line(case.name, 60)}"


def time_lines(cases: Iterable[Case]) -> list[str]:
    """The timed cases as a table: the time, the best and worst of it, what that amounts to."""
    timed = [one for one in cases if one.stage == TIME and one.time_us is not None]
    if not timed:
        return []
    rows = [("case", "time", "best", "worst"), *map(_times, timed)]
    widths = [max(len(row[n]) for row in rows) for n in range(4)]
    lines = [
        "  ".join([row[0].ljust(widths[0]), *(row[n].rjust(widths[n]) for n in (1, 2, 3))])
        for row in rows
    ]
    said = [lines[0]]
    for case, line in zip(timed, lines[1:], strict=True):
        said += [line, *_amounts(case)]
    return said


def _times(case: Case) -> tuple[str, str, str, str]:
    name = one_line(case.name, NAME_MAX)
    spread = spread_text(case.time_us, case.interval_us)
    each = case.process_us if len(case.process_us) > 1 else []
    best = _net(case, "best_us", min(each, default=None))
    worst = _net(case, "worst_us", max(each, default=None))
    return (name, spread, time_text(best), time_text(worst))


def _net(case: Case, name: str, process_us: float | None) -> float | None:
    """A figure of the samples without the handshake, as the time is, or else that of a process.

    >>> known = {"best_us": 5.0, "handshake_us": 3.0}
    >>> case = Case(name="c", stage="time", verdict="passed", statistics=known)
    >>> _net(case, "best_us", 4.0), _net(case, "worst_us", 4.0)
    (2.0, 4.0)
    """
    net_us = case.statistics.get(name, 0.0) - case.statistics.get("handshake_us", 0.0)
    return net_us if net_us > 0 else process_us


def _amounts(case: Case) -> Iterator[str]:
    """What a time is beside the roofline and the baselines, and whether it can be trusted."""
    said, roof = [], case.roofline
    if roof and roof.share is not None:
        said.append(f"{share_text(roof.share)} of {roof.bound or 'the roofline'}")
    if case.vs_baseline:
        said.append(speedups_text(case.vs_baseline))
    said += [case.grade] if case.grade not in ("", "ok") else []
    if said:
        yield f"  {one_line(', '.join(said), MESSAGE_MAX)}"


def system_lines(found: Submission) -> list[str]:
    """On what it ran: the GPU type, the agent, how it was confined, the machine, the versions."""
    where = f"{found.problem} version {found.problem_number} on {found.gpu}"
    said = [f"{where}, agent {one_line(found.agent, 40)}" if found.agent else where]
    said += [isolation(found)] if found.level else []
    machine = _machine(found.environment, found.fingerprint or "")
    return [*said, ", ".join(machine)] if machine else said


def _machine(told: Mapping[str, str], fingerprint: str) -> list[str]:
    """What a machine says of itself, and of the code that judged there.

    >>> _machine({"cpu": "EPYC", "harness_code": "7de7c33fe0f55c48"}, "f1")
    ['cpu EPYC', 'harness code 7de7c33fe0f5', 'fingerprint f1']
    """
    said = [f"{name} {one_line(told[name], 80)}" for name in FACTS if told.get(name)]
    code = one_line(told.get("harness_code", ""))[:CODE_SHOWN]
    named = {"harness code": code, "fingerprint": one_line(fingerprint, 40)}
    return [*said, *(f"{name} {text}" for name, text in named.items() if text)]


def whole_log(run: Run) -> list[str]:
    """The head and the tail of what it printed, as far as they are kept."""
    head, tail = (harmless(text).splitlines() for text in (run.log_head, run.log_tail))
    if head and tail and head != tail:
        return ["it printed, at first:", *head, "", "and at the end:", *tail]
    return ["it printed:", *(head or tail)] if head or tail else []
