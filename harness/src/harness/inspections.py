"""The request and the report of an inspection: plain values, which messages carry as JSON."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class InspectRequest:
    """One problem, whose own code is inspected without any submission.

    No case is begun after `limit_s`; one call of the author's code may take `call_s`, and its
    process `memory_bytes` more than at its start, or as much as the problem requires of a machine
    if that is more. With `is_scaled`, only the shares of the timed cases are measured. `gpus` are
    the numbers of the GPUs to use, from 0; if empty, the first ones.
    """

    problem: str
    device: str = "cpu"
    limit_s: float = 60.0
    call_s: float = 30.0
    memory_bytes: int = 4 * 1024**3
    is_scaled: bool = False
    gpus: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Finding:
    """What is wrong with a problem, or may be: where, what, and the fix.

    `level` is `error` or `warning`; the codes are those of `shared.problems.report`.
    """

    code: str
    level: str
    where: str
    text: str


@dataclass(frozen=True)
class LazyShare:
    """How far a check lets a right answer move to a lazy one: all the way at 1.

    `code` is that of a check that accepts the lazy answer.
    """

    code: str
    share: float


@dataclass(frozen=True)
class InspectReport:
    """What an inspection found, or why it failed (`failure_code`, one of FAILURE_CODES).

    `needed_bytes` is the memory that the tensors of the largest case need on a machine that runs
    it, and `peak_bytes` how much memory the inspection used; 0 if unknown. `untried` are the timed
    cases that this machine cannot hold, or of which the check was not shown every lazy answer.
    `shares` are those of each timed case, by the names of the lazy answers.
    """

    findings: list[Finding]
    took_s: float = 0.0
    failure_code: str = ""
    reason: str = ""
    needed_bytes: int = 0
    peak_bytes: int = 0
    untried: list[str] = field(default_factory=list)
    shares: dict[str, dict[str, LazyShare]] = field(default_factory=dict)
