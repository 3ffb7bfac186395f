"""Runs the audit of the rating: derive it again from the log, compare it with the shown one."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from ranker.audit.log_audit import LogAudit, LogCopy, is_equal
from ranker.domain.rating_fold import RatingFold
from ranker.domain.stored_log import PublishedSeal, Verify
from shared.api.audits import RatingAuditReport, RatingAuditRequest
from shared.api.rating import RatedParticipant
from shared.errors import Refused

RATING_FIELDS = ("rating", "rank", "is_tied")
PROBLEM_FIELDS = ("problem_version", "gpu", "rank", "entries_count", "number", "points")


class LiveRating(NamedTuple):
    """What readers see: the rating, folded up to a sequence."""

    seq: int
    at: datetime
    ratings: Sequence[RatedParticipant]


async def audit_rating(
    request: RatingAuditRequest,
    copy: LogCopy,
    verify: Verify,
    live: LiveRating | None = None,
    published: Sequence[PublishedSeal] = (),
) -> RatingAuditReport:
    """Audit the rating; the log must still have the published seals.

    What a contest hid at the instant of the audit, or what was closed then, does not count. Raises
    Refused if the log is empty.
    """
    state = RatingFold()
    log = LogAudit(request, verify, (state.fold,))
    await log.read(copy, published)
    at = request.as_of or (live.at if live else log.at)
    if at is None:
        raise Refused("not_found", "the log is empty", "file")
    ratings = state.rate(at)
    differences = find_rating_differences(ratings, live.ratings) if live else []
    return RatingAuditReport(
        **log.fields(log.findings(), live.seq if live else None, differences),
        ignored=log.ignored.findings,
        at=at,
        ratings=ratings,
    )


def find_rating_differences(
    expected: Iterable[RatedParticipant], shown: Iterable[RatedParticipant]
) -> list[str]:
    """Where a shown rating differs from the log, one sentence per account and value."""
    ratings = {rating.participant_id: rating for rating in expected}
    shown_ratings = {rating.participant_id: rating for rating in shown}
    sentences = []
    for account in sorted(ratings.keys() | shown_ratings.keys()):
        if account not in shown_ratings:
            sentences.append(f"{account} is missing: the log gives rank {ratings[account].rank}")
        elif account not in ratings:
            rank = shown_ratings[account].rank
            sentences.append(f"{account} is shown at rank {rank}: the log gives no rating")
        else:
            sentences += _compare_ratings(ratings[account], shown_ratings[account])
    return sentences


def _compare_ratings(expected: RatedParticipant, shown: RatedParticipant) -> Iterator[str]:
    account = expected.participant_id
    yield from _compare_fields(account, RATING_FIELDS, expected, shown)
    problems = {it.problem: it for it in expected.problems}
    shown_problems = {it.problem: it for it in shown.problems}
    if problems.keys() != shown_problems.keys():
        names, shown_names = ", ".join(sorted(problems)), ", ".join(sorted(shown_problems))
        yield f"{account}: problems are shown as {shown_names}, the log gives {names}"
    for problem in sorted(problems.keys() & shown_problems.keys()):
        where = f"{account} on {problem}"
        yield from _compare_fields(
            where, PROBLEM_FIELDS, problems[problem], shown_problems[problem]
        )


def _compare_fields(
    where: str, names: Iterable[str], expected: object, shown: object
) -> Iterator[str]:
    for name in names:
        value, shown_value = getattr(expected, name), getattr(shown, name)
        if not is_equal(value, shown_value):
            yield f"{where}: {name} is shown as {shown_value}, the log gives {value}"
