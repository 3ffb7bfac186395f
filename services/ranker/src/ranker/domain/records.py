"""When a leaderboard has a new record, and when its podium is another: said once, never undone."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from ranker.domain.ties import Place
from shared.events import Fact, PodiumChanged, RecordSet

PODIUM = 3


@dataclass(frozen=True)
class Leader:
    """The entry at the top: `seq` is the event that made its score what it is."""

    submission: str
    run: str
    account: str
    score_us: float
    seq: int


@dataclass(frozen=True)
class Past:
    """A record that was announced; `disqualified_seq` is the event that disqualified it, if any."""

    submission: str
    score_us: float
    is_standing: bool = True
    disqualified_seq: int | None = None


@dataclass(frozen=True)
class Known:
    """What was announced of a leaderboard, and the best score that others ever had there."""

    podium: Sequence[str] = ()
    records: Sequence[Past] = ()
    best_of_others_us: float | None = None


def record(problem_number: int, first: Place, leader: Leader, known: Known) -> RecordSet | None:
    """The record that a leader sets, None if it sets none.

    Rank 1 alone sets one: what is tied is not faster. It must be faster than all that ever stood,
    announced or not, whether or not that was withdrawn, held or banned since. Only what was
    disqualified before the score was made never stood.
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


def podium(
    problem_number: int, accounts: Sequence[str], known: Known, movers: Collection[str] = ()
) -> PodiumChanged | None:
    """What the first three places are now, if that was not said yet.

    It is by a run if one of the `movers`, whose own run may have done it, is placed better.

    >>> podium(1, ["a", "b", "c", "d"], Known(podium=["a", "b", "c"])) is None
    True
    >>> podium(1, ["b", "c"], Known(podium=["a", "b", "c"]), movers=["d"]).is_by_run
    False
    """
    before, after = list(known.podium), list(accounts[:PODIUM])
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


def news(
    problem_number: int,
    top: Sequence[tuple[Place, str]],
    leader: Leader | None,
    known: Known,
    movers: Collection[str] = (),
) -> list[Fact]:
    """All that is to be announced of a leaderboard, of which `top` are places and accounts."""
    found: list[Fact] = []
    if leader is not None and top:
        made = record(problem_number, top[0][0], leader, known)
        found += [made] if made is not None else []
    changed = podium(problem_number, [account for _, account in top], known, movers)
    return [*found, changed] if changed is not None else found
