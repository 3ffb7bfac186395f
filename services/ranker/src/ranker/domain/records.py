"""Decides when a leaderboard has a new record or podium to announce."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from ranker.domain.ties import Place
from shared.events import Fact, PodiumChanged, RecordSet

PODIUM_SIZE = 3


@dataclass(frozen=True)
class Leader:
    """The entry at the top; `seq` is the event that gave it its score."""

    submission: str
    run: str
    account: str
    score_us: float
    seq: int


@dataclass(frozen=True)
class AnnouncedRecord:
    """A record that was announced; `disqualified_seq` is the event that disqualified it, if any."""

    submission: str
    score_us: float
    is_standing: bool = True
    disqualified_seq: int | None = None


@dataclass(frozen=True)
class AnnouncedState:
    """What was announced of a leaderboard, and the best score that others ever had there."""

    podium: Sequence[str] = ()
    records: Sequence[AnnouncedRecord] = ()
    best_of_others_us: float | None = None


def find_record(
    problem_number: int, first: Place, leader: Leader, known: AnnouncedState
) -> RecordSet | None:
    """The record that a leader sets, None if it sets none.

    Only an untied rank 1 sets a record. It must be faster than everything that ever held rank 1,
    announced or not, even if that was withdrawn, held or banned since. Only what was disqualified
    before the score was made does not count.
    """
    if first.rank != 1 or first.is_tied:
        return None
    if any(past.submission == leader.submission for past in known.records):
        return None
    best_us = [
        past.score_us
        for past in known.records
        if past.disqualified_seq is None or past.disqualified_seq > leader.seq
    ]
    best_us += [] if known.best_of_others_us is None else [known.best_of_others_us]
    if best_us and leader.score_us >= min(best_us):
        return None
    standing = [past.score_us for past in known.records if past.is_standing]
    return RecordSet(
        problem_number=problem_number,
        submission=leader.submission,
        run=leader.run,
        account=leader.account,
        score_us=leader.score_us,
        previous_us=min(standing, default=None),
    )


def find_podium_change(
    problem_number: int,
    accounts: Sequence[str],
    known: AnnouncedState,
    movers: Collection[str] = (),
) -> PodiumChanged | None:
    """The podium change to announce, None if the podium is the announced one.

    `is_by_run` is true if one of the `movers`, whose own run may have caused it, is placed better.

    >>> find_podium_change(1, ["a", "b", "c", "d"], AnnouncedState(podium=["a", "b", "c"])) is None
    True
    >>> find_podium_change(1, ["b", "c"], AnnouncedState(podium=["a", "b", "c"]),
    ...     movers=["d"]).is_by_run
    False
    """
    before, after = list(known.podium), list(accounts[:PODIUM_SIZE])
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


def find_announcements(
    problem_number: int,
    top: Sequence[tuple[Place, str]],
    leader: Leader | None,
    known: AnnouncedState,
    movers: Collection[str] = (),
) -> list[Fact]:
    """Everything to announce of a leaderboard; `top` are its first places with their accounts."""
    facts: list[Fact] = []
    if leader is not None and top:
        record = find_record(problem_number, top[0][0], leader, known)
        facts += [record] if record is not None else []
    podium_change = find_podium_change(
        problem_number, [account for _, account in top], known, movers
    )
    return [*facts, podium_change] if podium_change is not None else facts
