"""Problems: which versions there are, who sees them, and what they take in, until when."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import reduce

from msgspec import structs

from shared.decider import Decider
from shared.errors import Refused
from shared.events import (
    Fact,
    LeaderboardArchived,
    LeaderboardChanged,
    ProblemPublished,
)

PUBLIC = "public"
# What the routes of the public API begin with: a leaderboard of that name could not be reached.
RESERVED = frozenset(
    (
        *("admin", "api", "auth", "docs", "gpus", "health", "healthz", "jobs", "leaderboards"),
        *("metrics", "profile", "readyz", "runner_queue", "static", "submission"),
        *("submission_count", "submissions", "user", "v1"),
    )
)


@dataclass(frozen=True)
class Problem:
    """A problem as its history tells it; `published` is the newest version, None before any.

    `digests` has that of every version, by number. `gpus` were said of its leaderboards; until they
    are, those of the newest version take submissions in. `gpus_ever` did so at some time.
    """

    published: ProblemPublished | None = None
    digests: Mapping[int, str] = field(default_factory=dict)
    visibility: str = PUBLIC
    deadline_at: datetime | None = None
    is_archived: bool = False
    gpus: tuple[str, ...] | None = None
    gpus_ever: frozenset[str] = frozenset()

    @property
    def open_gpus(self) -> tuple[str, ...]:
        """The GPU types on which submissions are taken in."""
        own = () if self.published is None else tuple(self.published.gpus)
        return own if self.gpus is None else self.gpus


@dataclass(frozen=True)
class Change:
    """Let others see a leaderboard, until another time, on other GPU types; None leaves any of it.

    `has_deadline` false means none, true means `deadline_at`. With `is_no_sooner` the deadline may
    be put off alone. By force alone a deadline is set that is over `at` the time, and one of the
    GPU types that have entries, `used`, is dropped.
    """

    reason: str
    visibility: str | None = None
    has_deadline: bool | None = None
    deadline_at: datetime | None = None
    is_no_sooner: bool = False
    gpus: tuple[str, ...] | None = None
    used: frozenset[str] = frozenset()
    is_forced: bool = False
    at: datetime | None = None


SO = Change("published so")


@dataclass(frozen=True)
class Publish:
    """The files of a problem, compiled; its number is given by the decision.

    `change` is what is to be so of its leaderboards from then on. What is to be its author's by
    being published is to be the first version. An `objection` keeps a new version out.
    """

    version: ProblemPublished
    change: Change = SO
    is_first: bool = False
    objection: Refused | None = None


@dataclass(frozen=True)
class Archive:
    """Take nothing in any more."""

    reason: str


ProblemCommand = Publish | Change | Archive


def decide(command: ProblemCommand, state: Problem) -> Sequence[Fact]:
    """What is decided; nothing if it is so already. Errors: Refused for what is not there."""
    match command:
        case Publish():
            if command.is_first and state.published is not None:
                what = "somebody published a problem of this name just now: take another"
                raise Refused("wrong_state", what, "slug")
            versions = _version(command, state)
            after = reduce(evolve, versions, state)
            changes = _change(command.change, after, state.open_gpus)
            # At first it is set, and then there: nobody hears of it sooner than they may.
            is_there = state.published is not None
            return (*versions, *changes) if is_there else (*changes, *versions)
        case Change():
            return _change(command, state, state.open_gpus)
    return () if state.is_archived else (LeaderboardArchived(reason=command.reason),)


def _version(command: Publish, state: Problem) -> Sequence[Fact]:
    """A new version if the digest differs from the newest one, else nothing."""
    newest = state.published
    if newest is not None and newest.digest == command.version.digest:
        return ()
    if command.objection is not None:
        raise command.objection
    return (structs.replace(command.version, number=newest.number + 1 if newest else 1),)


def _change(command: Change, state: Problem, open_before: Sequence[str]) -> Sequence[Fact]:
    """The change, unless it is so already; `open_before` took submissions in until now."""
    gpus = None if command.gpus is None else spelled(command.gpus, sorted(state.gpus_ever))
    if state.gpus is None and gpus == state.open_gpus:
        gpus = None
    command = replace(command, gpus=gpus)
    after = _changed(state, command)
    _check_dropped(command, open_before, after.open_gpus)
    if after == state:
        return ()
    if command.is_no_sooner and _is_sooner(after.deadline_at, state.deadline_at):
        what = "a deadline that comes sooner opens what others sent in: an operator moves it so"
        raise Refused("scope_missing", f"{what} (scope admin:problems)", "deadline_at")
    _check_ahead(command, state.deadline_at)
    return (
        LeaderboardChanged(
            visibility=command.visibility,
            has_deadline=command.has_deadline,
            deadline_at=command.deadline_at,
            gpus=None if gpus is None else list(gpus),
            reason=command.reason,
        ),
    )


def spelled(gpus: Sequence[str], known: Sequence[str]) -> tuple[str, ...]:
    """GPU types each once, as they were first written. Errors: Refused `unknown_gpu` for none."""
    if not gpus:
        raise Refused("unknown_gpu", "name a GPU type: a leaderboard has at least one", "gpus")
    spelling = {gpu.lower(): gpu for gpu in (*reversed(gpus), *reversed(known))}
    return tuple(dict.fromkeys(spelling[gpu.lower()] for gpu in gpus))


def _check_dropped(command: Change, before: Sequence[str], after: Sequence[str]) -> None:
    """Refuse to close what has entries without being told twice."""
    dropped = [gpu for gpu in before if gpu not in after and gpu in command.used]
    if dropped and not command.is_forced:
        what = f"{', '.join(dropped)} would take no more submissions in, and has entries"
        raise Refused("gpu_has_entries", f"{what}, which stay to be read: say force", "gpus")


def _check_ahead(command: Change, before: datetime | None) -> None:
    """Refuse to close what is open, as by a slip of the pen, without being told twice."""
    until, at = command.deadline_at, command.at
    if until is None or at is None or until > at or until == before or command.is_forced:
        return
    what = f"the deadline {until:%Y-%m-%d %H:%M} UTC is over, and nothing would be taken in"
    raise Refused("invalid_request", f"{what}: name one ahead, or say force", "deadline_at")


def _is_sooner(after: datetime | None, before: datetime | None) -> bool:
    return after is not None and (before is None or after < before)


def _changed(state: Problem, change: Change | LeaderboardChanged) -> Problem:
    if change.visibility is not None:
        state = replace(state, visibility=change.visibility)
    if change.gpus is not None:
        state = replace(state, gpus=tuple(change.gpus))
    if change.has_deadline is not None:
        state = replace(state, deadline_at=change.deadline_at if change.has_deadline else None)
    return state


def evolve(state: Problem, fact: Fact) -> Problem:
    """What a problem is after one more event."""
    match fact:
        case ProblemPublished():
            digests = {**state.digests, fact.number: fact.digest}
            return _met(replace(state, published=fact, digests=digests))
        case LeaderboardChanged():
            return _met(_changed(state, fact))
        case LeaderboardArchived():
            return replace(state, is_archived=True)
    return state


def _met(state: Problem) -> Problem:
    return replace(state, gpus_ever=state.gpus_ever | frozenset(state.open_gpus))


problems = Decider[ProblemCommand, Problem, Fact](Problem(), decide, evolve)


def check_slug(slug: str) -> None:
    """Refuse a name that is a route's. Errors: Refused `bad_problem`."""
    if slug in RESERVED:
        what = f"the slug {slug!r} is reserved: the API has routes of that name; take another"
        raise Refused("bad_problem", what, "slug")


def known(slug: str, state: Problem) -> ProblemPublished:
    """The newest version of a problem, on the GPU types that it takes submissions in on.

    Errors: Refused `unknown_leaderboard`.
    """
    if state.published is None:
        raise unknown(slug)
    return structs.replace(state.published, gpus=list(state.open_gpus))


def unknown(slug: str) -> Refused:
    """What is said of a leaderboard that is not there, or not for who asks."""
    what = f"there is no leaderboard {slug!r}; GET /v1/problems lists them"
    return Refused("unknown_leaderboard", what, "problem")


def lateness(slug: str, state: Problem, at: datetime) -> Refused | None:
    """What is said of a submission that comes too late, with the instant; None if it does not."""
    if state.is_archived:
        return Refused("deadline_passed", f"{slug} is archived: it takes nothing in", "problem")
    if state.deadline_at is not None and at >= state.deadline_at:
        what = f"the deadline of {slug} was {state.deadline_at.isoformat()}"
        return Refused("deadline_passed", what, "problem")
    return None
