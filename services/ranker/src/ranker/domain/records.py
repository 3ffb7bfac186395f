"""Decides when a leaderboard has a new record or podium to announce."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from shared.events import PodiumChanged, RecordSet

PODIUM_SIZE = 3


class Leader(NamedTuple):
    """The untied entry at the top; `seq` is the event that gave it its score."""

    submission: str
    run: str
    account: str
    score_us: float
    seq: int


class AnnouncedRecord(NamedTuple):
    """A record that was announced; `disqualified_seq` is the event that disqualified it, if any."""

    submission: str
    score_us: float
    is_standing: bool
    disqualified_seq: int | None


def find_record(
    problem_number: int,
    leader: Leader,
    announced: Sequence[AnnouncedRecord],
    best_of_others_us: float | None,
) -> RecordSet | None:
    """The record that a leader sets, None if it sets none.

    It must be faster than everything that ever held rank 1, announced or not, even if that was
    withdrawn, held or banned since. Only what was disqualified before the score was made does not
    count.
    """
    if any(past.submission == leader.submission for past in announced):
        return None
    best_us = [
        past.score_us
        for past in announced
        if past.disqualified_seq is None or past.disqualified_seq > leader.seq
    ]
    best_us += [] if best_of_others_us is None else [best_of_others_us]
    if best_us and leader.score_us >= min(best_us):
        return None
    standing_us = [past.score_us for past in announced if past.is_standing]
    return RecordSet(
        problem_number=problem_number,
        submission=leader.submission,
        run=leader.run,
        account=leader.account,
        score_us=leader.score_us,
        previous_us=min(standing_us, default=None),
    )


def find_podium_change(
    problem_number: int, before: list[str], after: list[str], movers: Collection[str] = ()
) -> PodiumChanged | None:
    """The podium change to announce, None if the podium is the announced one.

    `is_by_run` is true if one of the `movers`, whose own run may have caused it, is placed better.

    >>> find_podium_change(1, ["a", "b", "c"], ["a", "b", "c"]) is None
    True
    >>> find_podium_change(1, ["a", "b", "c"], ["b", "c"], movers=["d"]).is_by_run
    False
    """
    if after == before:
        return None
    better_placed = [
        account
        for place, account in enumerate(after)
        if account not in before or place < before.index(account)
    ]
    is_by_run = any(account in movers for account in better_placed)
    return PodiumChanged(
        problem_number=problem_number, before=before, after=after, is_by_run=is_by_run
    )
