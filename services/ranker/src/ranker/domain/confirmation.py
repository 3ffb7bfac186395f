"""Decides whether the repetition of a ranked run on another agent confirms it."""

from typing import NamedTuple

from shared.events import ConfirmationJudged, SubmissionFinished

CONFIRMED = "confirmed"
SLOWER = "slower"
# Two machines with the same GPU type differ by up to this share.
AGENTS_DIFFER_SHARE = 0.03


class RepetitionResult(NamedTuple):
    """A repetition compared with its run; `ratio` is its score over the run's, None without one."""

    code: str
    ratio: float | None


def compare_repetition(score_us: float, repetition: SubmissionFinished) -> RepetitionResult | None:
    """Compare a run's score with its repetition; None if the repetition does not count.

    A repetition confirms the run unless its whole 95 % interval is slower by more than two machines
    of the same GPU type may differ.

    >>> end = SubmissionFinished(
    ...     outcome="passed",
    ...     is_eligible=True,
    ...     code="ranked",
    ...     reason="",
    ...     score_us=106.0,
    ...     interval_us=(105.0, 107.0),
    ... )
    >>> [compare_repetition(score_us, end).code for score_us in (100.0, 103.0, 200.0)]
    ['slower', 'confirmed', 'confirmed']
    """
    if repetition.outcome in ("failed", "timed_out") and repetition.verdict:
        return RepetitionResult(repetition.verdict, None)
    if not repetition.is_eligible or repetition.score_us is None:
        return None
    low_us, _ = repetition.interval_us or (repetition.score_us, 0.0)
    is_slower = low_us > score_us * (1 + AGENTS_DIFFER_SHARE)
    return RepetitionResult(SLOWER if is_slower else CONFIRMED, repetition.score_us / score_us)


def confirmation_text(fact: ConfirmationJudged) -> str:
    """What a leaderboard shows of a confirmation; "" without a result.

    >>> end = SubmissionFinished(outcome="passed", is_eligible=True, code="ranked", reason="")
    >>> board = {"problem": "p", "problem_number": 1, "gpu": "CPU", "agent": "a2"}
    >>> confirmation_text(ConfirmationJudged(**board, code="slower", ratio=1.052, result=end))
    'not confirmed: 5.2 % slower on agent a2'
    >>> confirmation_text(ConfirmationJudged(**board, code="wrong_answer", result=end))
    'not confirmed: wrong_answer on agent a2'
    >>> confirmation_text(ConfirmationJudged(**board, code="confirmed", ratio=0.99, result=end))
    'confirmed on agent a2'
    """
    if fact.result is None:
        return ""
    if fact.code == CONFIRMED:
        return f"confirmed on agent {fact.agent}"
    if fact.ratio is None:
        return f"not confirmed: {fact.code} on agent {fact.agent}"
    return f"not confirmed: {100 * (fact.ratio - 1):.2g} % slower on agent {fact.agent}"
