"""Words for contests: phases, rules of points, and the state of a standing."""

from collections.abc import Iterable, Mapping

from shared.api.contest_standings import (
    ContestResult,
    DivisionStanding,
    RepetitionState,
    StandingRound,
    StandingState,
)
from shared.contests.definition import Contest, ContestPlace, ContestProblem, Phase, PhaseKind
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
ROUND_TITLES: Mapping[StandingRound, str] = {
    "qualifier": PHASE_TITLES["qualifier"],
    "main": PHASE_TITLES["main"],
    "finals": PHASE_TITLES["finals"],
    "practice": "Practice after the close",
}
STATE_TEXTS: Mapping[StandingState, str] = {
    "live": "as of now",
    "frozen": "frozen",
    "provisional": "provisional: it can still change",
    "final": "final",
}
_INSTANTS: Mapping[str, str] = {
    "register_until": "The registration closes",
    "teams.changes_until": "Teams stop changing",
}
# How the runs of a winner did on other agents.
REPETITION_TEXTS: Mapping[RepetitionState, str] = {
    "waiting": "being run again",
    "confirmed": "confirmed",
    "differs": "slower when run again",
    "failed": "failed when run again",
    "incomplete": "run again on too few agents",
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


def describe_instant(name: str) -> str:
    """Describe an instant of a contest that moved, by its name in the file.

    >>> describe_instant("phases.freeze-main.starts"), describe_instant("problems.sort.ends")
    ('Freeze starts', 'sort ends')
    """
    if name in _INSTANTS:
        return _INSTANTS[name]
    group, _, subject_and_edge = name.partition(".")
    subject, _, edge = subject_and_edge.rpartition(".")
    if group == "phases":
        kind = subject.partition("-")[0]
        subject = next((title for key, title in PHASE_TITLES.items() if key == kind), subject)
    return f"{subject} {edge}"


def describe_teams(contest: Contest) -> str:
    """Describe who competes."""
    size_max = contest.teams.size_max
    return "People compete alone." if size_max == 1 else f"Teams of up to {size_max} people."


def find_outdated(
    places: Iterable[ContestPlace | ContestResult],
    divisions: Iterable[DivisionStanding],
    names: Mapping[str, str | None],
) -> str | None:
    """Say where announced results are not those of the standing any more, None if they are.

    `names` are those of contestants; without one, the id is shown.

    >>> place = ContestPlace(contestant="c1", division="open", place=1, points=9.0)
    >>> find_outdated([place], [DivisionStanding(division="open", title="Open", rows=[])], {})
    'c1 had place 1 and is not in the standing any more: announce the results again'
    """
    announced = {(it.division, it.contestant): it.place for it in places}
    rows = {(part.division, row.contestant): row for part in divisions for row in part.rows}
    changed = [key for key in announced if key not in rows or rows[key].rank != announced[key]]
    changed += [key for key in rows if key not in announced]
    if not changed:
        return None
    # Somebody who left is the reason why others advance.
    key = min(changed, key=lambda key: (key in rows, announced.get(key, 0)))
    division, contestant = key
    name = names.get(contestant) or contestant
    if key not in rows:
        text = f"{name} had place {announced[key]} and is not in the standing any more"
        advancing = next(
            (row for (of, _), row in rows.items() if (of, row.rank) == (division, announced[key])),
            None,
        )
        if advancing is not None:
            advancing_name = names.get(advancing.contestant) or advancing.contestant
            text += f", so {advancing_name} advances to it"
    elif key in announced:
        text = f"{name} had place {announced[key]} and has place {rows[key].rank} now"
    else:
        text = f"{name} has place {rows[key].rank} now and had none"
    return f"{text}: announce the results again"
