"""Words for contests: phases, rules of points, and the state of a standing."""

from collections.abc import Mapping

from shared.api.contest_standings import StandingState
from shared.contests.definition import Contest, ContestProblem, Phase, PhaseKind
from shared.presentation.units import count_text

PHASE_TITLES: Mapping[PhaseKind, str] = {
    "registration": "Registration",
    "practice": "Practice",
    "qualifier": "Qualifier",
    "main": "Main round",
    "freeze": "Freeze",
    "finals": "Finals",
    "review": "Review",
    "archive": "Archive",
}
STATE_TEXTS: Mapping[StandingState, str] = {
    "live": "as of now",
    "frozen": "frozen",
    "provisional": "provisional: it can still change",
    "final": "final",
}
_RANKS = {
    "live": "",
    "frozen": "Ranks are those of its start.",
    "hidden": "Ranks are hidden.",
}
_SOURCES = {
    "hidden": "",
    "registered": "Registered participants can read the ranked sources.",
    "public": "Everybody can read the ranked sources.",
}


def describe_phase(phase: Phase) -> str:
    """Describe what a phase allows and shows, in short sentences.

    >>> from datetime import UTC, datetime
    >>> start = datetime(2026, 1, 1, tzinfo=UTC)
    >>> describe_phase(Phase(kind="main", starts_at=start, modes=["test", "ranked"]))
    'Submissions: test, ranked.'
    """
    quotas = ", ".join(
        f"{count_text(limit, f'{category} submission')}" for category, limit in phase.quotas.items()
    )
    sentences = (
        f"Submissions: {', '.join(phase.modes)}." if phase.modes else "No submissions.",
        f"At most {quotas} per problem." if quotas else "",
        _RANKS[phase.ranks],
        _SOURCES[phase.sources],
    )
    return " ".join(sentence for sentence in sentences if sentence)


def describe_scoring(problem: ContestProblem) -> str:
    """Describe how a problem gives points.

    >>> from datetime import UTC, datetime
    >>> at = datetime(2026, 1, 1, tzinfo=UTC)
    >>> problem = ContestProblem(slug="p", round="main", starts_at=at, ends_at=at, weight=2)
    >>> describe_scoring(problem)
    'points by place, times 2'
    """
    scoring = problem.scoring
    if scoring.by == "places":
        table = ", ".join(f"{points:g}" for points in scoring.points)
        text = f"points by place: {table}" if table else "points by place"
    elif scoring.by == "time":
        text = f"{scoring.points_max:g} points times the best time divided by one's own"
    else:
        text = f"points by the expression {scoring.expression}"
    return text if problem.weight == 1 else f"{text}, times {problem.weight:g}"


def describe_teams(contest: Contest) -> str:
    """Describe who competes."""
    size_max = contest.teams.size_max
    return "People compete alone." if size_max == 1 else f"Teams of up to {size_max} people."
