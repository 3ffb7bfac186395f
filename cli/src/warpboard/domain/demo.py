"""What the demo submits, as whom, and which verdict each file must get."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from shared.errors import Refused
from shared.problems.directives import read_directives
from warpboard.domain.answers import Submission
from warpboard.domain.tables import Table
from warpboard.domain.units import NOTHING, time_text

PARTICIPANTS = ("ada", "grace", "linus")
FIRST = "identity"
# Of many problems so many are submitted to; these go before others.
PROBLEMS_MAX = 6
KNOWN = (FIRST, "grayscale", "histogram", "matmul", "softmax", "vectoradd")
HERE = "CPU"
PASSED = "passed"
NOT_PASSED = "not passed"
SLOW_LINES = (
    b"\n\nimport time\n\n_quick = custom_kernel\n\n\n"
    b"def custom_kernel(data):\n    time.sleep(0.1)\n    return _quick(data)\n"
)
CRASHING = b"import os\n\n\ndef custom_kernel(data):\n    os.abort()\n"
LOOPING = b"def custom_kernel(data):\n    while True:\n        pass\n"
MISSPELT = b"def custom_kernel(data:\n    return data\n"


@dataclass(frozen=True)
class Sample:
    """A file that somebody could submit."""

    name: str
    source: bytes


@dataclass(frozen=True)
class Solutions:
    """A problem's own solutions: all of `correct` pass, none of `wrong`."""

    slug: str
    correct: tuple[Sample, ...]
    wrong: tuple[Sample, ...]


@dataclass(frozen=True)
class Example:
    """One submission of the demo and the verdict it must get."""

    participant: str
    problem: str
    sample: Sample
    mode: str
    expected: str


def plan(found: Sequence[Solutions]) -> list[Example]:
    """A correct file for each problem, rivals for two, and each way not to pass.

    Errors: Refused without a problem that has a correct and a wrong solution.
    """
    fitting = [replace(one, correct=tuple(filter(_fits, one.correct))) for one in found]
    full = [one for one in fitting if one.correct and one.wrong]
    if not full:
        raise Refused("bad_problem", "no problem here has solutions/correct and solutions/wrong")
    problems = sorted(full, key=lambda one: (one.slug != FIRST, one.slug not in KNOWN, one.slug))
    problems = problems[:PROBLEMS_MAX]
    examples = [
        _ranked(_participant(index), problem, problem.correct[0])
        for index, problem in enumerate(problems)
    ]
    examples += [
        _ranked(_participant(index + 1), problem, problem.correct[-1])
        for index, problem in enumerate(problems[:2])
    ]
    first = problems[0]
    slow = Sample("slow.py", first.correct[0].source + SLOW_LINES)
    return [*examples, _ranked(_participant(2), first, slow), *_failing(first)]


def code_of(sample: Sample) -> bytes:
    """What a file does, whatever leaderboard and GPU types it names.

    >>> code_of(Sample("a.py", b"#!POPCORN leaderboard a\\nx = 1\\n"))
    b'x = 1\\n'
    """
    lines = sample.source.splitlines(keepends=True)
    return b"".join(one for one in lines if not one.startswith((b"#!POPCORN", b"//!POPCORN")))


def needed_gpus(sample: Sample) -> tuple[str, ...]:
    """The GPU types of which a file wants one, none if it runs on the cpu device too.

    Errors: Refused for a directive that nobody can read, with the file.

    >>> needed_gpus(Sample("a.py", b"#!POPCORN gpus H100 H200")), needed_gpus(Sample("b.py", b""))
    (('H100', 'H200'), ())
    """
    try:
        gpus = read_directives(sample.source.decode(errors="replace")).gpus
    except Refused as refused:
        raise Refused(refused.code, f"{sample.name}: {refused.reason}", refused.field) from refused
    return () if HERE in gpus else gpus


def _fits(sample: Sample) -> bool:
    return not needed_gpus(sample)


def _participant(index: int) -> str:
    return PARTICIPANTS[index % len(PARTICIPANTS)]


def _ranked(participant: str, problem: Solutions, sample: Sample) -> Example:
    return Example(participant, problem.slug, sample, "ranked", PASSED)


def _failing(problem: Solutions) -> list[Example]:
    samples = (
        (problem.wrong[0], "ranked", NOT_PASSED),
        (Sample("misspelt.py", MISSPELT), "ranked", "compile_error"),
        (Sample("crashing.py", CRASHING), "test", "crashed"),
        (Sample("looping.py", LOOPING), "test", "timed_out"),
    )
    return [
        Example(_participant(index), problem.slug, sample, mode, expected)
        for index, (sample, mode, expected) in enumerate(samples)
    ]


def is_expected(example: Example, submission: Submission) -> bool:
    """Whether a submission ended as it must; a failure of the platform is never expected."""
    if example.expected == NOT_PASSED:
        return submission.outcome == "failed"
    is_ranked = submission.is_eligible or example.mode != "ranked" or example.expected != PASSED
    return submission.verdict == example.expected and is_ranked


def verdicts(pairs: Sequence[tuple[Example, Submission]]) -> Table:
    """Every submission of the demo with the verdict it got and the one it must get."""
    rows = [
        (
            str(submission.number),
            example.participant,
            example.problem,
            example.sample.name,
            example.mode,
            submission.verdict or submission.outcome or NOTHING,
            "as expected" if is_expected(example, submission) else f"NOT {example.expected}",
            time_text(submission.score_us),
        )
        for example, submission in pairs
    ]
    columns = ("number", "participant", "problem", "file", "mode", "verdict", "expected", "score")
    return Table("verdicts", columns, rows)


def document(pairs: Sequence[tuple[Example, Submission]]) -> list[dict[str, object]]:
    """The same for a program."""
    return [
        {
            "number": submission.number,
            "participant": example.participant,
            "problem": example.problem,
            "file": example.sample.name,
            "mode": example.mode,
            "verdict": submission.verdict or submission.outcome,
            "expected": example.expected,
            "is_expected": is_expected(example, submission),
            "score_us": submission.score_us,
        }
        for example, submission in pairs
    ]
