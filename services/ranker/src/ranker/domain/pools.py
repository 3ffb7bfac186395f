"""What a participant's runs of one source say together."""

from collections.abc import Iterable
from math import exp, fsum, log, sqrt
from statistics import stdev
from typing import NamedTuple

from ranker.domain.score import DELTA_MIN
from shared.events import SubmissionFinished

PROCESSES_MAX = 300


class Pool(NamedTuple):
    """The score of a participant's source on one leaderboard, made of its first `runs` runs.

    `error` is that of the score's logarithm.
    """

    score_us: float
    error: float | None
    freedom: int
    delta: float
    runs: int


def pooled(results: Iterable[SubmissionFinished]) -> Pool:
    """The pool of eligible results in the order of their decision; one keeps its own score.

    Source: ADR 0021; past 300 processes nothing is added.
    """
    first, *others = results
    assert first.score_us is not None, "an eligible result has a score"
    processes = list(first.process_us) or [first.score_us]
    spare = max(first.freedom - len(first.process_us) + 1, 0)
    sigma, delta, runs = first.sigma_run, _delta(first), 1
    for one in others:
        if len(processes) >= PROCESSES_MAX:
            break
        assert one.score_us is not None, "an eligible result has a score"
        processes += list(one.process_us) or [one.score_us]
        spare = max(spare, one.freedom - len(one.process_us) + 1)
        sigma, delta, runs = max(sigma, one.sigma_run), max(delta, _delta(one)), runs + 1
    if runs == 1:
        return Pool(first.score_us, first.error, first.freedom, delta, 1)
    logs = [log(value) for value in processes]
    error = max(stdev(logs), sigma) / sqrt(len(logs))
    return Pool(exp(fsum(logs) / len(logs)), error, spare + len(logs) - 1, delta, runs)


def _delta(result: SubmissionFinished) -> float:
    return DELTA_MIN if result.delta is None else result.delta
