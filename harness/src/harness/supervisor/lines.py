r"""What a problem's own program says of its cases by the POPCORN_FD protocol: lines `key: value`.

The program shares its process with the submission, so all of it may be the submission's word.
"""

import base64
import math
import re
from collections.abc import Mapping, Sequence

from harness.messages import CaseReport
from harness.problem import Case, ProblemFault
from harness.supervisor.verdict import CaseFailed, of_status, printable, report

LINES_BYTES_MAX = 4 * 1024 * 1024
# A sound program ends so where its problem is at fault; yet a submission in its process can, too.
EXIT_CODES_OF_THE_PROBLEM = {
    2: "it was called as it does not understand",
    111: "it found no descriptor",
    113: "it could not read the cases",
}
EXIT_WRONG = 112
EXIT_CUDA = 110

_LINE = re.compile(r"([a-z-]+(?:\.[0-9]{1,4}\.[a-z]+)?): (.*)")
_ALPHA_95 = 1.96
# What is outside of these is no time, and may be too much for a report's numbers.
_TIME_US_MIN, _TIME_US_MAX = 1e-6, 1e12


def read(data: bytes) -> dict[str, str]:
    r"""The lines by their keys; those of other shapes are passed over.

    Errors: CaseFailed `protocol`, if a key comes twice: the second could be the submission's.

    >>> read(b"test-count: 1\ntest.0.status: pass\nnonsense\n")
    {'test-count': '1', 'test.0.status': 'pass'}
    """
    if len(data) > LINES_BYTES_MAX:
        raise CaseFailed("output_limit", f"more than {LINES_BYTES_MAX} bytes were reported")
    found: dict[str, str] = {}
    for line in data.decode(errors="replace").splitlines():
        if not (match := _LINE.fullmatch(line)):
            continue
        if match[1] in found:
            raise CaseFailed("protocol", f"the key {match[1]!r} was reported twice")
        found[match[1]] = match[2]
    return found


def text_of(cases: Sequence[Case]) -> str:
    r"""Cases as such a program reads them, one a line.

    >>> text_of([Case("", {"size": 4, "kind": "flat", "on": 1})])
    'size: 4; kind: flat; on: 1\n'
    """
    lines = ["; ".join(f"{key}: {value}" for key, value in case.args.items()) for case in cases]
    return "".join(f"{line}\n" for line in lines)


def reports(
    stage: str, cases: Sequence[Case], said: Mapping[str, str], status: int
) -> list[CaseReport]:
    """How each case ended, by what was said and by the program's exit status.

    Errors: CaseFailed, if it died, or ended with a status that blames the program itself. Were
    that a fault of the problem, a submission could end so and have its quota back for ever.
    ProblemFault, if it ended in order and told of an `error`, but of no wrong case: so it says that
    the machine lacks a device. A submission may say so, too: it has its quota back, and no verdict.
    """
    if reason := EXIT_CODES_OF_THE_PROBLEM.get(status):
        what = f"the problem's own program ended with code {status}: {reason}"
        raise CaseFailed("crashed", f"{what}; if you did not end it, tell the problem's author")
    if status == EXIT_CUDA:
        raise CaseFailed("crashed", "a call of CUDA failed")
    if status not in (0, EXIT_WRONG):
        raise of_status(status)
    word = "benchmark" if stage in ("time", "profile") else "test"
    found = [_case(stage, case, word, index, said) for index, case in enumerate(cases)]
    if any(one.verdict == "wrong_answer" for one in found):
        return found
    if status == 0 and said.get("check") == "pass":
        return _whole(found)
    if "error" in said:
        told = printable(said["error"])
        raise ProblemFault(f"the problem's own program could not judge: {told}")
    if said.get("check") == "fail" or status == EXIT_WRONG:
        raise CaseFailed("wrong_answer", "the problem's own check failed")
    raise CaseFailed("protocol", "it did not say how its check ended")


def profiles(said: Mapping[str, str], count: int) -> dict[str, bytes]:
    """What was reported of each profiled case, by the name of its file.

    Errors: CaseFailed `protocol`, for a report that is no base64, in whose public alphabet a `*`
    may stand for the `/`.

    >>> profiles({"benchmark.0.report": "Pz8*"}, 1)
    {'profile-0-report.txt': b'???'}
    """
    found = {}
    for index in range(count):
        text = said.get(f"benchmark.{index}.report", "").replace("*", "/")
        try:
            found[f"profile-{index}-report.txt"] = base64.b64decode(text, validate=True)
        except ValueError:
            raise CaseFailed("protocol", f"the profile of case {index} is no base64") from None
    return found


def _whole(found: list[CaseReport]) -> list[CaseReport]:
    for one in found:
        if one.verdict != "passed":
            raise CaseFailed("protocol", f"it said nothing of {one.name}")
    return found


def _case(stage: str, case: Case, word: str, index: int, said: Mapping[str, str]) -> CaseReport:
    about = f"{word}.{index}."
    if said.get(about + "status") == "fail":
        reason = said.get(about + "error", "the problem's own check failed")
        return report(case.name, stage, CaseFailed("wrong_answer", reason))
    if stage == "profile":
        ended = "passed" if about + "report" in said else "skipped"
        return CaseReport(case.name, stage, ended)
    if word == "benchmark":
        return _timed(case, {key: said.get(about + key, "") for key in _FIGURES})
    if said.get(about + "status") == "pass":
        message = printable(said.get(about + "message", ""))
        return CaseReport(case.name, stage, "passed", message)
    return CaseReport(case.name, stage, "skipped")


_FIGURES = ("runs", "mean", "std", "err", "best", "worst")


def _timed(case: Case, said: Mapping[str, str]) -> CaseReport:
    """A time as the program tells it: in nanoseconds, from the submission's own process."""
    if not any(said.values()):
        return CaseReport(case.name, "time", "skipped")
    try:
        runs, *times = (float(said[key] or "nan") for key in _FIGURES)
    except ValueError:
        raise CaseFailed("protocol", f"a time of {case.name} is no number") from None
    mean, std, err, best, worst = (one / 1000 for one in times)
    if not (_TIME_US_MIN <= mean <= _TIME_US_MAX and 1 <= runs < 1e9):
        raise CaseFailed("protocol", f"the time of {case.name} is none: {said['mean'][:40]!r}")
    off = err if 0 <= err <= _TIME_US_MAX else 0.0
    figures = {"mean_us": mean, "std_us": std, "best_us": best, "worst_us": worst}
    return CaseReport(
        case.name,
        "time",
        "passed",
        time_us=mean,
        interval_us=(mean - _ALPHA_95 * off, mean + _ALPHA_95 * off),
        samples=int(runs),
        process_us=[mean],
        error=off / mean,
        freedom=max(0, int(runs) - 1),
        grade="in_process",
        statistics={key: value for key, value in figures.items() if math.isfinite(value)},
    )
