"""The rating of participants over all problems: how many others each one beats.

docs/rating.md explains the formula. It uses ranks alone, so the places of leaderboards decide it,
whichever implementation derived them.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from ranker.domain.rows import LeaderboardKey
from shared.api.rating import RatedParticipant, RatedProblem
from shared.contests.definition import Contest
from shared.contests.visibility import find_shown_ranks

# A problem is worth less than this, however many are beaten there.
POINTS_MAX = 100.0
# So many opponents who beat everybody are added to each leaderboard: who beats 5 others of 5 gets
# half of the points, who beats 95 of 95 gets 95 of 100.
STRONG_OPPONENTS = 5
# Entries of a leaderboard behind so many others are not rated.
PLACES_MAX = 10_000


class RatedPlace(NamedTuple):
    """The rank of a participant on a leaderboard, with the number of the submission."""

    account: str
    rank: int
    number: int


def count_points(rank: int, tied_count: int, entries_count: int) -> float:
    """The points of a rank that so many others share.

    >>> [count_points(rank, 0, 6) for rank in (1, 6)], count_points(1, 1, 2)
    ([50.0, 0.0], 8.333333333333334)
    """
    beaten = entries_count - rank - tied_count
    opponents = entries_count - 1 + STRONG_OPPONENTS
    return POINTS_MAX * (beaten + tied_count / 2) / opponents


def rate(boards: Mapping[LeaderboardKey, Sequence[RatedPlace]]) -> list[RatedParticipant]:
    """Rate the participants of all counted leaderboards, the best first, without their names."""
    best: defaultdict[str, dict[str, RatedProblem]] = defaultdict(dict)
    for board, places in sorted(boards.items()):
        sharing = Counter(place.rank for place in places)
        for place in places:
            points = count_points(place.rank, sharing[place.rank] - 1, len(places))
            known = best[place.account].get(board.problem)
            if known is None or points > known.points:
                best[place.account][board.problem] = RatedProblem(
                    problem=board.problem,
                    problem_version=board.problem_number,
                    gpu=board.gpu,
                    rank=place.rank,
                    entries_count=len(places),
                    number=place.number,
                    points=points,
                )
    sums = {
        account: sum(it.points for _, it in sorted(problems.items()))
        for account, problems in best.items()
    }
    ordered = sorted(sums, key=lambda account: (-sums[account], account))
    sharing_sums = Counter(sums.values())
    ratings: list[RatedParticipant] = []
    for position, account in enumerate(ordered, 1):
        is_same = bool(ratings) and ratings[-1].rating == sums[account]
        ratings.append(
            RatedParticipant(
                participant_id=account,
                participant=None,
                rating=sums[account],
                rank=ratings[-1].rank if is_same else position,
                is_tied=sharing_sums[sums[account]] > 1,
                problems=sorted(best[account].values(), key=lambda it: (-it.points, it.problem)),
            )
        )
    return ratings


def select_boards(
    boards: Iterable[LeaderboardKey],
    closed: Iterable[str],
    contests: Collection[Contest],
    at: datetime,
) -> list[LeaderboardKey]:
    """The leaderboards that count at an instant, of those with entries.

    Of a problem and a GPU type, the newest version counts. What is `closed`, or not over in a
    contest, does not, so that the rating shows nothing that leaderboards do not show everybody.
    """
    left_out = {
        *closed,
        *_find_open_problems(contests, at),
        *find_hidden_problems(contests, at),
    }
    newest: dict[tuple[str, str], LeaderboardKey] = {}
    for board in sorted(boards):
        if board.problem not in left_out:
            key = board.problem, board.gpu
            newest[key] = max(board, newest.get(key, board), key=lambda it: it.problem_number)
    return sorted(newest.values())


def find_hidden_problems(contests: Iterable[Contest], at: datetime) -> set[str]:
    """The problems whose ranks a contest hides or freezes at an instant."""
    return {
        problem.slug
        for contest in contests
        if not find_shown_ranks(contest, at).is_live
        for problem in contest.problems
    }


def _find_open_problems(contests: Iterable[Contest], at: datetime) -> set[str]:
    """The problems whose window in a contest is open at an instant."""
    return {
        problem.slug
        for contest in contests
        for problem in contest.problems
        if problem.starts_at <= at < problem.ends_at
    }
