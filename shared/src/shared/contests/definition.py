"""The definition of a contest, as its events record it, and what follows from it at an instant.

Instants are UTC. An interval includes its start and excludes its end.
"""

import hashlib
from datetime import datetime
from typing import Final, Literal, TypeAlias, get_args

import msgspec

PhaseKind: TypeAlias = Literal[
    "registration",
    "practice",
    "qualifier",
    "main",
    "freeze",
    "finals",
    "review",
    "archive",
]
PHASE_KINDS: tuple[str, ...] = get_args(PhaseKind)
# The phases in which submissions score; a freeze extends the one before it.
Round: TypeAlias = Literal["qualifier", "main", "finals"]
ROUNDS: tuple[str, ...] = get_args(Round)
FREEZE: Final = "freeze"
ARCHIVE: Final = "archive"
# `live`: the standing as it is. `frozen`: as of the start of the phase. `hidden`: no ranks at all.
# Organisers and operators always see the ranks as they are.
Ranks: TypeAlias = Literal["live", "frozen", "hidden"]
# Who can read the sources of others: nobody but organisers and operators; who is registered; all.
Sources: TypeAlias = Literal["hidden", "registered", "public"]
ContestMode: TypeAlias = Literal["test", "benchmark", "ranked", "profile"]
QuotaCategory: TypeAlias = Literal["test", "ranked"]
ScoringBy: TypeAlias = Literal["places", "time", "expression"]
# The items of the check list of a winner.
ReviewItem: TypeAlias = Literal["rerun", "code", "duplicates", "declaration", "appeals"]
REVIEW_ITEMS: tuple[ReviewItem, ...] = get_args(ReviewItem)
# Each compares two contestants with equal points; `shared` ends the list, since they share a place.
# `most_wins`: more first places on problems. `best_place`: the best single place, then the next.
# `earliest`: whose last improvement was received first. `fewest`: fewer ranked submissions.
TieRule: TypeAlias = Literal["most_wins", "best_place", "earliest", "fewest", "shared"]
TIES: tuple[TieRule, ...] = ("most_wins", "earliest", "shared")
# What an expression can use: the place on the problem, how many contestants have one, the
# contestant's and the best time, and the time of the yardstick, all in microseconds.
EXPRESSION_NAMES: tuple[str, ...] = ("place", "count", "time_us", "best_us", "yardstick_us")


class Scoring(msgspec.Struct, frozen=True, kw_only=True):
    """How a problem gives points.

    `places`: `points` for the first places, 0 after them; tied places share the points of the best.
    `time`: `points_max` times the best time divided by the contestant's own. `expression`:
    arithmetic over EXPRESSION_NAMES (`shared.problems.roofline.evaluate_formula`).
    """

    by: ScoringBy = "places"
    points: list[float] = []
    points_max: float = 100.0
    expression: str = ""


class ContestProblem(msgspec.Struct, frozen=True, kw_only=True):
    """A problem of a contest: when it takes submissions that score, and what they are worth.

    It is ranked on the GPU type `gpu`, "" for the only one that the problem has. With
    `is_confirmed_fresh` the podium is confirmed with fresh hidden sizes.
    """

    slug: str
    round: Round
    starts_at: datetime
    ends_at: datetime
    gpu: str = ""
    weight: float = 1.0
    scoring: Scoring = Scoring()
    is_confirmed_fresh: bool = False


class Division(msgspec.Struct, frozen=True, kw_only=True):
    """A division of a contest with a standing of its own, and the declarations it demands."""

    slug: str
    title: str
    declare: list[str] = []


class TeamRules(msgspec.Struct, frozen=True, kw_only=True):
    """How large teams are, 1 for contests of individuals, and until when members may change."""

    size_max: int = 1
    changes_until_at: datetime | None = None


class Phase(msgspec.Struct, frozen=True, kw_only=True):
    """A phase; without an end it lasts for ever.

    `modes` are those that problems of the contest accept, none by default. `quotas` limit the
    submissions of a contestant to each problem over the whole phase, by category.
    """

    kind: PhaseKind
    starts_at: datetime
    ends_at: datetime | None = None
    modes: list[ContestMode] = []
    quotas: dict[QuotaCategory, int] = {}
    ranks: Ranks = "live"
    sources: Sources = "hidden"


class Contest(msgspec.Struct, frozen=True, kw_only=True):
    """The definition of a contest.

    `organisers` are accounts. `phases` are in order and do not overlap, the first is the
    registration. One may register until `register_until_at`. `best_of` counts the best problems of
    each contestant, 0 for all. `finalists` of each division are admitted to the finals.
    `podium` places are run again on `confirm_agents` agents, and may be appealed for
    `appeal_hours` after the provisional results. `zone` is the zone in which times were written.
    """

    slug: str
    title: str
    terms: str
    organisers: list[str]
    problems: list[ContestProblem]
    divisions: list[Division]
    phases: list[Phase]
    register_until_at: datetime
    teams: TeamRules = TeamRules()
    description: str = ""
    prizes: str = ""
    zone: str = "UTC"
    is_invite_only: bool = False
    ties: list[TieRule] = msgspec.field(default_factory=lambda: list(TIES))
    best_of: int = 0
    finalists: int = 0
    podium: int = 3
    confirm_agents: int = 1
    appeal_hours: int = 48

    @property
    def terms_digest(self) -> str:
        """The SHA-256 of the terms, in hexadecimal, which participants accept."""
        return hashlib.sha256(self.terms.encode()).hexdigest()

    @property
    def starts_at(self) -> datetime:
        """When its first phase starts."""
        return self.phases[0].starts_at

    def problem(self, slug: str) -> ContestProblem | None:
        """Return one of its problems by slug."""
        return next((problem for problem in self.problems if problem.slug == slug), None)

    def division(self, slug: str) -> Division | None:
        """Return one of its divisions by slug."""
        return next((division for division in self.divisions if division.slug == slug), None)


class ContestPlace(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The place of a contestant in the results of a division."""

    contestant: str
    division: str
    place: int
    points: float


class MovedTime(msgspec.Struct, frozen=True, kw_only=True):
    """An instant of a contest that an update moved; None is no instant.

    `name` is as in the file, such as `phases.main.ends` or `problems.matmul.starts`.
    """

    name: str
    from_at: datetime | None
    to_at: datetime | None


def phase_at(contest: Contest, at: datetime) -> Phase | None:
    """Return the phase at an instant; None before the first, between two, and after the last."""
    started = (phase for phase in reversed(contest.phases) if phase.starts_at <= at)
    phase = next(started, None)
    is_over = phase is not None and phase.ends_at is not None and phase.ends_at <= at
    return None if is_over else phase


def next_phase(contest: Contest, at: datetime) -> Phase | None:
    """Return the first phase that starts after an instant."""
    return next((phase for phase in contest.phases if phase.starts_at > at), None)


def has_closed(contest: Contest, at: datetime) -> bool:
    """Return whether the windows of all problems of a contest are over."""
    return all(problem.ends_at <= at for problem in contest.problems)


def is_over(contest: Contest, at: datetime) -> bool:
    """Return whether nothing in a contest can change its results any more."""
    phase = phase_at(contest, at)
    if phase is None:
        return next_phase(contest, at) is None
    return phase.kind == ARCHIVE


def round_at(contest: Contest, at: datetime) -> Round | None:
    """Return the round whose submissions score at an instant; a freeze belongs to that before it.

    None outside of rounds.
    """
    phase = phase_at(contest, at)
    if phase is None:
        return None
    if phase.kind != FREEZE:
        return as_round(phase.kind)
    before = contest.phases[: contest.phases.index(phase)]
    kinds = (as_round(earlier.kind) for earlier in reversed(before))
    return next((kind for kind in kinds if kind is not None), None)


def is_in_window(problem: ContestProblem, at: datetime) -> bool:
    """Return whether a submission that is received at an instant scores on a problem."""
    return problem.starts_at <= at < problem.ends_at


def is_registration_open(contest: Contest, at: datetime) -> bool:
    """Return whether one may register at an instant."""
    return contest.starts_at <= at < contest.register_until_at


def may_change_team(contest: Contest, at: datetime) -> bool:
    """Return whether people may join and leave teams at an instant."""
    until_at = contest.teams.changes_until_at or contest.register_until_at
    return contest.teams.size_max > 1 and contest.starts_at <= at < until_at


def find_moved_times(before: Contest, after: Contest) -> list[MovedTime]:
    """Return the instants that differ between two definitions, in the order of the newer one."""
    old, new = _instants(before), _instants(after)
    return [
        MovedTime(name=name, from_at=old.get(name), to_at=new.get(name))
        for name in dict.fromkeys((*new, *old))
        if old.get(name) != new.get(name)
    ]


def _instants(contest: Contest) -> dict[str, datetime | None]:
    instants: dict[str, datetime | None] = {}
    for prefix, phase in zip(phase_names(contest), contest.phases, strict=True):
        instants[f"phases.{prefix}.starts"] = phase.starts_at
        instants[f"phases.{prefix}.ends"] = phase.ends_at
    for problem in contest.problems:
        instants[f"problems.{problem.slug}.starts"] = problem.starts_at
        instants[f"problems.{problem.slug}.ends"] = problem.ends_at
    instants["register_until"] = contest.register_until_at
    instants["teams.changes_until"] = contest.teams.changes_until_at
    return instants


def phase_names(contest: Contest) -> list[str]:
    """Return a name for each phase: its kind, and for a freeze the round that it belongs to.

    A contest has several freezes at most, one after each round: `freeze-main`.
    """
    names, round_ = list[str](), ""
    for phase in contest.phases:
        round_ = as_round(phase.kind) or round_
        names.append(f"{FREEZE}-{round_}" if phase.kind == FREEZE else phase.kind)
    return names


def as_round(kind: PhaseKind) -> Round | None:
    """Return the round that a phase of this kind is, None for other phases."""
    return kind if kind in {"qualifier", "main", "finals"} else None
