"""What an inspection of a problem's own code is asked, and what it answers: plain values."""

from dataclasses import dataclass


@dataclass(frozen=True)
class InspectRequest:
    """One problem, whose own code is looked at without any submission.

    No case is begun after `limit_s`; one call of the author's code may take `call_s`, and its
    process `memory_bytes` beyond what it begins with, or as much as the problem requires of a
    machine if that is more.
    """

    problem: str
    device: str = "cpu"
    limit_s: float = 60.0
    call_s: float = 30.0
    memory_bytes: int = 4 * 1024**3


@dataclass(frozen=True)
class Finding:
    """What is wrong with a problem, or may be: where, what, and the mend.

    `level` is `error` or `warning`; the codes are those of `shared.problems.report`.
    """

    code: str
    level: str
    where: str
    text: str


@dataclass(frozen=True)
class InspectReport:
    """What an inspection found, or why there was none (`failure_code`, of FAILURE_CODES).

    `needed_bytes` is what the tensors of the largest case take of a machine that runs it, and
    `peak_bytes` how much memory the inspection took; 0 where that is not known.
    """

    findings: list[Finding]
    took_s: float = 0.0
    failure_code: str = ""
    reason: str = ""
    needed_bytes: int = 0
    peak_bytes: int = 0
