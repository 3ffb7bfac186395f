"""When a leaderboard has a new record, and when its podium is another: said once, never undone."""

from collections.abc import Sequence
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
    """A record that was announced; `gone_seq` is the event that took it away, None if it stands."""

    submission: str
    score_us: float
    gone_seq: int | None = None


@dataclass(frozen=True)
class Known:
    """What was announced of a leaderboard."""

    podium: Sequence[str] = ()
    records: Sequence[Past] = ()


def record(problem_number: int, first: Place, leader: Leader, known: Known) -> RecordSet | None:
    """The record that a leader sets, None if it sets none.

    Rank 1 alone sets one: what is tied is not faster. A score is compared with every record that
    stood when it was made, so that one who moves up because another was disqualified, and is
    slower than what was announced, announces nothing; who is faster than all that are left does.
    """
    if first.rank != 1 or first.is_tied:
        return None
    if any(past.submission == leader.submission for past in known.records):
        return None
    stood = [past for past in known.records if past.gone_seq is None or past.gone_seq > leader.seq]
    if any(past.score_us <= leader.score_us for past in stood):
        return None
    standing = [past.score_us for past in known.records if past.gone_seq is None]
    return RecordSet(
        problem_number=problem_number,
        submission=leader.submission,
        run=leader.run,
        account=leader.account,
        score_us=leader.score_us,
        previous_us=min(standing, default=None),
    )


def podium(problem_number: int, accounts: Sequence[str], known: Known) -> PodiumChanged | None:
    """What the first three places are now, if that was not said yet.

    >>> podium(1, ["a", "b", "c", "d"], Known(podium=["a", "b", "c"])) is None
    True
    """
    after = list(accounts[:PODIUM])
    if after == list(known.podium):
        return None
    return PodiumChanged(problem_number=problem_number, before=list(known.podium), after=after)


def news(
    problem_number: int,
    top: Sequence[tuple[Place, str]],
    leader: Leader | None,
    known: Known,
) -> list[Fact]:
    """All that is to be announced of a leaderboard, of which `top` are places and accounts."""
    found: list[Fact] = []
    if leader is not None and top:
        made = record(problem_number, top[0][0], leader, known)
        found += [made] if made is not None else []
    changed = podium(problem_number, [account for _, account in top], known)
    return [*found, changed] if changed is not None else found
