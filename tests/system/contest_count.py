"""A second count of a standing, from what people sent and what agents answer; without ranker."""

from collections.abc import Mapping
from math import isclose
from typing import Any

from shared.contests.definition import ContestProblem, is_in_window
from tests.system.contest_season import Season, Sent

# Times that differ by more than this are never tied.
TIE_MAX = 1.05
DIGITS = 4


def count_standing(season: Season, slug: str, round_: str, shown: Mapping[str, Any]) -> None:
    """Check a standing: the entries, their places and points, the sums, and the order."""
    contest = season.contests[slug]
    best = find_best(season, slug, round_)
    rows = [row for part in shown["divisions"] for row in part["rows"]]
    members = [member for row in rows for member in row["members"]]
    assert len(members) == len(set(members)), "somebody is twice in the standing"
    entries = {
        (find_name(season, slug, row), it["problem"]): it for row in rows for it in row["entries"]
    }
    assert sorted(entries) == sorted(best)
    wrong = [
        (entries[key], sent) for key, sent in best.items() if entries[key]["number"] != sent.number
    ]
    assert not wrong, wrong
    for key, sent in best.items():
        assert isclose(entries[key]["score_us"], sent.score_us, rel_tol=1e-9)
    for part in shown["divisions"]:
        for problem in contest.problems:
            if problem.round == round_:
                own = [
                    it
                    for row in part["rows"]
                    for it in row["entries"]
                    if it["problem"] == problem.slug
                ]
                check_places(problem, own)
        for row in part["rows"]:
            points = sorted((it["points"] for it in row["entries"]), reverse=True)
            counted = points[: contest.best_of or len(points)]
            assert isclose(row["points"], sum(counted), abs_tol=10**-DIGITS * 5)
        sums = [row["points"] for row in part["rows"]]
        assert sums == sorted(sums, reverse=True)


def find_best(season: Season, slug: str, round_: str) -> dict[tuple[str, str], Sent]:
    """The fastest right source of each contestant on each problem of a round."""
    best: dict[tuple[str, str], Sent] = {}
    for sent in season.sent:
        problem = season.contests[slug].problem(sent.problem)
        if problem is None or problem.round != round_ or not counts(season, sent, problem):
            continue
        key = sent.contestant, sent.problem
        if key not in best or sent.score_us < best[key].score_us:
            best[key] = sent
    return best


def counts(season: Season, sent: Sent, problem: ContestProblem) -> bool:
    """Whether a submission counts: ranked, right, in time, not withdrawn, of nobody who is out."""
    at, _ = season.ledger.received[sent.number]
    return (
        sent.mode == "ranked"
        and sent.is_right
        and is_in_window(problem, at)
        and sent.number not in season.ledger.withdrawn
        and sent.person not in season.out[sent.contest]
    )


def find_name(season: Season, slug: str, row: Mapping[str, Any]) -> str:
    """The name of the person in a row, or the id of the team."""
    if season.contests[slug].teams.size_max > 1:
        return str(row["contestant"])
    (name,) = row["names"]
    return str(name)


def check_places(problem: ContestProblem, entries: list[dict[str, Any]]) -> None:
    """Check the places of the entries on a problem in one division, and their points."""
    entries.sort(key=lambda entry: entry["score_us"])
    ranks = [entry["rank"] for entry in entries]
    assert ranks == sorted(ranks)
    best_us = entries[0]["score_us"] if entries else 0.0
    for entry in entries:
        assert entry["rank"] == 1 + sum(rank < entry["rank"] for rank in ranks)
        tied = [it["score_us"] for it in entries if it["rank"] == entry["rank"]]
        assert max(tied) <= TIE_MAX * min(tied)
        assert entry["is_tied"] == (len(tied) > 1)
        points = problem.weight * find_points(problem, entry, best_us)
        assert isclose(entry["points"], points, abs_tol=10**-DIGITS)


def find_points(problem: ContestProblem, entry: Mapping[str, Any], best_us: float) -> float:
    """The points of an entry, by the rules of the four files."""
    scoring = problem.scoring
    if scoring.by == "places":
        place = entry["rank"] - 1
        return scoring.points[place] if place < len(scoring.points) else 0.0
    assert scoring.by == "time" or scoring.expression == "100 * best_us / time_us"
    return 100 * best_us / float(entry["score_us"])
