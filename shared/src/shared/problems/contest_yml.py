"""The file that declares a contest, `contest.yml`, and its translation into a definition.

A file of people: names in place of accounts, and times as they stand on a wall clock in a zone.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import Annotated, Final, NoReturn, TypeAlias
from zoneinfo import ZoneInfo

from pydantic import Field

from shared.contests.definition import (
    EXPRESSION_NAMES,
    FREEZE,
    PHASE_KINDS,
    ROUNDS,
    TIES,
    Contest,
    ContestMode,
    ContestProblem,
    Division,
    Phase,
    PhaseKind,
    QuotaCategory,
    Ranks,
    Round,
    Scoring,
    ScoringBy,
    Sources,
    TeamRules,
    TieRule,
    as_round,
)
from shared.errors import Refused
from shared.problems.document import (
    Document,
    Path,
    StrictModel,
    quote_value,
    read_document,
    validate_document,
)
from shared.problems.goals import Line
from shared.problems.roofline import FORMULA_CHARS_MAX, FormulaError, evaluate_formula
from shared.problems.warpboard_yml import FileName

NAME: Final = "contest.yml"
PROBLEMS_MAX = 64
DIVISIONS_MAX = 16
ORGANISERS_MAX = 32
PHASES_MAX = 10
TEAM_MAX = 16
TERMS_CHARS_MAX = 40_000
TEXT_CHARS_MAX = 10_000
YEAR_MIN, YEAR_MAX = 2000, 3000
OPEN_DIVISION = Division(slug="open", title="Open")

Slug = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")]
Word = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,39}$")]
Time = Annotated[str, Field(min_length=1, max_length=60)]
Text = Annotated[str, Field(max_length=TEXT_CHARS_MAX)]
Points = Annotated[float, Field(ge=0, le=1_000_000)]
Limit = Annotated[int, Field(ge=0, le=1_000_000)]

_LOCAL = re.compile(r"(\d{4})-(\d{2})-(\d{2})[ T](\d{2}):(\d{2})\Z")
_SAMPLE = dict.fromkeys(EXPRESSION_NAMES, 1.0)


class TeamsYml(StrictModel):
    """How large teams are, and until when people may join and leave them."""

    size_max: Annotated[int, Field(ge=1, le=TEAM_MAX)] = Field(
        default=1, description="The most members; 1 for individuals."
    )
    changes_until: Time | None = Field(
        default=None, description="Default: until the registration closes."
    )


class DivisionYml(StrictModel):
    """A division with a standing of its own."""

    slug: Slug
    title: Line
    declare: list[Word] = Field(
        default_factory=list,
        max_length=16,
        description="What its contestants must declare, such as `model` and `tools`.",
    )


class PhaseYml(StrictModel):
    """A phase of the contest."""

    kind: PhaseKind
    starts: Time
    ends: Time | None = Field(
        default=None, description="Default: the start of the next phase; the last has no end."
    )
    modes: list[ContestMode] = Field(
        default_factory=list,
        max_length=8,
        description="What may be submitted to its problems; default: nothing.",
    )
    quotas: dict[QuotaCategory, Limit] = Field(
        default_factory=dict,
        description="The most submissions of a contestant to each problem in this phase: `test` "
        "(also benchmark and profile) and `ranked`.",
    )
    ranks: Ranks = Field(
        default="live", description="`frozen` shows the standing of the start of the phase."
    )
    sources: Sources = Field(default="hidden", description="Who can read the sources of others.")


class ScoringYml(StrictModel):
    """How a problem gives points."""

    by: ScoringBy
    points: list[Points] = Field(
        default_factory=list, max_length=1000, description="With `places`: for the first places."
    )
    points_max: Annotated[float, Field(gt=0, le=1_000_000)] = Field(
        default=100.0, description="With `time`: for the best time; others get its share of theirs."
    )
    expression: Annotated[str, Field(max_length=FORMULA_CHARS_MAX)] = Field(
        default="",
        description="With `expression`: arithmetic over " + ", ".join(EXPRESSION_NAMES) + ".",
    )


class ProblemYml(StrictModel):
    """A problem of the contest."""

    slug: Slug
    round: Round | None = Field(
        default=None, description="The round in which it scores; default: the first of them."
    )
    starts: Time | None = Field(default=None, description="Default: the start of its round.")
    ends: Time | None = Field(default=None, description="Default: the end of its round.")
    gpu: Annotated[str, Field(max_length=40)] = Field(
        default="", description="The GPU type that counts; default: the only one of the problem."
    )
    weight: Annotated[float, Field(gt=0, le=1000)] = 1.0
    scoring: ScoringYml | None = Field(default=None, description="Default: that of the contest.")
    confirm_fresh: bool = Field(
        default=False, description="Confirm the podium with fresh hidden sizes, too."
    )


class ContestYml(StrictModel):
    """The contents of a `contest.yml`."""

    slug: Slug
    title: Line
    description: Text = ""
    terms: FileName = Field(description="The file with the text that participants accept.")
    organisers: list[Line] = Field(
        min_length=1, max_length=ORGANISERS_MAX, description="Names of participants."
    )
    zone: Line = Field(
        default="UTC", description="The zone of times without an offset, such as `Europe/Berlin`."
    )
    invite_only: bool = Field(default=False, description="One registers with a code.")
    register_until: Time | None = Field(
        default=None, description="Default: the end of the registration."
    )
    teams: TeamsYml = TeamsYml()
    divisions: list[DivisionYml] = Field(
        default_factory=list,
        max_length=DIVISIONS_MAX,
        description="Default: one that is open to all.",
    )
    phases: list[PhaseYml] = Field(min_length=2, max_length=PHASES_MAX)
    problems: list[ProblemYml] = Field(min_length=1, max_length=PROBLEMS_MAX)
    scoring: ScoringYml = ScoringYml(by="places", points=[25, 18, 15, 12, 10, 8, 6, 4, 2, 1])
    ties: list[TieRule] = Field(
        default=list(TIES),
        min_length=1,
        max_length=8,
        description="What decides between contestants with equal points, in this order.",
    )
    best_of: Annotated[int, Field(ge=0, le=PROBLEMS_MAX)] = Field(
        default=0, description="How many of the best problems count; 0 for all."
    )
    finalists: Annotated[int, Field(ge=0, le=10_000)] = Field(
        default=0, description="How many of each division are admitted to the finals."
    )
    podium: Annotated[int, Field(ge=1, le=100)] = Field(
        default=3, description="How many places are verified in the review."
    )
    confirm_agents: Annotated[int, Field(ge=1, le=16)] = Field(
        default=1, description="On how many agents the podium is run again."
    )
    appeal_hours: Annotated[int, Field(ge=0, le=24 * 60)] = Field(
        default=48, description="For how long provisional results may be appealed."
    )
    prizes: Text = ""


@dataclass(frozen=True)
class ContestFile:
    """A valid `contest.yml`: the definition without organisers, and their names."""

    contest: Contest
    organisers: Sequence[str]


def is_contest_yml(value: object) -> bool:
    """Return whether a document declares a contest: competition files have no phases."""
    return isinstance(value, dict) and "phases" in value


def terms_name(data: bytes) -> str:
    """Return the name of the file with the terms. Errors: Refused `bad_contest`."""
    return _validate(data)[1].terms


def read_contest_yml(data: bytes, files: Mapping[str, bytes]) -> ContestFile:
    """Read a `contest.yml`; `files` has the files beside it by name, of which the terms are one.

    Errors: Refused `bad_contest`, naming the line, the field and the fix.
    """
    document, file = _validate(data)
    try:
        return _Reader(document, file).contest_file(files)
    except Refused as refused:
        raise _as_bad_contest(refused) from refused


def _validate(data: bytes) -> tuple[Document, ContestYml]:
    try:
        document = read_document(NAME, data)
        return document, validate_document(document, ContestYml)
    except Refused as refused:
        raise _as_bad_contest(refused) from refused


def _as_bad_contest(refused: Refused) -> Refused:
    return Refused("bad_contest", refused.reason, refused.field)


# When each round starts and ends; a freeze extends the one before it.
Rounds: TypeAlias = dict[Round, tuple[datetime, datetime | None]]


class _Reader:
    """Translates a file whose values are valid one by one, and checks how they fit together."""

    def __init__(self, document: Document, file: ContestYml) -> None:
        self._document, self._file = document, file
        try:
            self._zone = ZoneInfo(file.zone)
        except (OSError, ValueError, KeyError):
            reason = f"{quote_value(file.zone)} is not a time zone: write one such as Europe/Berlin"
            self._refuse(("zone",), reason)

    def contest_file(self, files: Mapping[str, bytes]) -> ContestFile:
        file = self._file
        phases = self._phases()
        contest = Contest(
            slug=file.slug,
            title=file.title,
            description=file.description,
            terms=self._terms(files),
            organisers=[],
            problems=self._problems(phases),
            divisions=self._divisions(),
            phases=phases,
            register_until_at=self._register_until(phases),
            teams=self._teams(phases),
            prizes=file.prizes,
            zone=file.zone,
            is_invite_only=file.invite_only,
            ties=list(file.ties),
            best_of=file.best_of,
            finalists=file.finalists,
            podium=file.podium,
            confirm_agents=file.confirm_agents,
            appeal_hours=file.appeal_hours,
        )
        self._check_finals(phases)
        self._refuse_repeats(("organisers",), [name.lower() for name in file.organisers])
        self._refuse_repeats(("ties",), file.ties)
        return ContestFile(contest, file.organisers)

    def _refuse(self, path: Path, reason: str) -> NoReturn:
        self._document.refuse(path, reason)

    def _instant(self, path: Path, text: str) -> datetime:
        """Return an instant in UTC, of a local time in the file's zone, or of one with an offset.

        Where clocks change, a local time may not exist, or exist twice: neither is guessed.
        """
        if match := _LOCAL.match(text):
            return self._local_instant(path, text, [int(digits) for digits in match.groups()])
        try:
            at = datetime.fromisoformat(text)
        except ValueError:
            at = None
        if at is None or at.tzinfo is None or not YEAR_MIN < at.year < YEAR_MAX:
            reason = f"{quote_value(text)} is not a time: write YYYY-MM-DD HH:MM, in quotes"
            self._refuse(path, f"{reason}, or with an offset such as 2027-03-01T18:00+01:00")
        if at.microsecond:
            # Responses are cached for parts of a second; none may outlive the phase that allows it.
            self._refuse(path, f"{quote_value(text)} has a fraction of a second: leave it out")
        return at.astimezone(UTC)

    def _local_instant(self, path: Path, text: str, parts: Sequence[int]) -> datetime:
        year, month, day, hour, minute = parts
        try:
            local = datetime(year, month, day, hour, minute, tzinfo=self._zone)
        except ValueError as error:
            self._refuse(path, f"{quote_value(text)} is not a time: {error}")
        if not YEAR_MIN < year < YEAR_MAX:
            reason = f"{quote_value(text)} is not a year of a contest: write one after {YEAR_MIN}"
            self._refuse(path, reason)
        later = local.replace(fold=1)
        if local.utcoffset() != later.utcoffset():
            is_gap = local.astimezone(UTC).astimezone(self._zone).hour != hour
            fault = "does not exist" if is_gap else "occurs twice"
            reason = f"{quote_value(text)} {fault} in {self._file.zone}, where clocks change then"
            self._refuse(path, f"{reason}: write it with an offset, such as 2027-03-01T18:00+01:00")
        return local.astimezone(UTC)

    def _terms(self, files: Mapping[str, bytes]) -> str:
        name = self._file.terms
        if name not in files:
            reason = f"the file {quote_value(name)} is missing: write the terms beside {NAME}"
            self._refuse(("terms",), reason)
        try:
            text = files[name].decode()
        except UnicodeDecodeError as error:
            reason = f"{name} is not UTF-8 at byte {error.start}: save it as UTF-8"
            self._refuse(("terms",), reason)
        if not 0 < len(text.strip()) <= TERMS_CHARS_MAX or "\0" in text:
            reason = f"{name} must have 1 to {TERMS_CHARS_MAX:,} characters and no NUL"
            self._refuse(("terms",), f"{reason}, not {len(text):,} characters: edit it")
        return text

    def _phases(self) -> list[Phase]:
        entries = self._file.phases
        starts = [
            self._instant(("phases", index, "starts"), entry.starts)
            for index, entry in enumerate(entries)
        ]
        phases = list[Phase]()
        for index, entry in enumerate(entries):
            following = starts[index + 1] if index + 1 < len(starts) else None
            path: Path = ("phases", index)
            ends_at = following
            if entry.ends is not None:
                ends_at = self._instant((*path, "ends"), entry.ends)
            self._check_bounds(path, starts[index], ends_at)
            if following is not None and ends_at is not None and following < ends_at:
                reason = f"the phase {entries[index + 1].kind} starts before {entry.kind} ends"
                self._refuse(("phases", index + 1, "starts"), f"{reason}: move one of them")
            phases.append(
                Phase(
                    kind=entry.kind,
                    starts_at=starts[index],
                    ends_at=ends_at,
                    modes=list(entry.modes),
                    quotas=dict(entry.quotas),
                    ranks=entry.ranks,
                    sources=entry.sources,
                )
            )
        self._check_order(phases)
        return phases

    def _check_bounds(self, path: Path, starts_at: datetime, ends_at: datetime | None) -> None:
        if ends_at is not None and ends_at <= starts_at:
            reason = f"it ends at {ends_at:%Y-%m-%d %H:%M} UTC, not after its start"
            self._refuse((*path, "ends"), f"{reason} at {starts_at:%Y-%m-%d %H:%M} UTC: move it")

    def _check_order(self, phases: Sequence[Phase]) -> None:
        if phases[0].kind != "registration":
            reason = f"the first phase must be the registration, not {phases[0].kind}: add one"
            self._refuse(("phases", 0, "kind"), reason)
        ranked = [kind for kind in PHASE_KINDS if kind != FREEZE]
        for index, (before, after) in enumerate(pairwise(phases), start=1):
            path: Path = ("phases", index, "kind")
            if after.kind == FREEZE:
                if before.kind not in ROUNDS:
                    rounds = ", ".join(ROUNDS)
                    self._refuse(path, f"a freeze follows one of {rounds}: move it")
                continue
            earlier = [phase.kind for phase in phases[:index] if phase.kind != FREEZE]
            if any(ranked.index(kind) >= ranked.index(after.kind) for kind in earlier):
                order = ", ".join(ranked)
                reason = f"the phase {after.kind} cannot follow {earlier[-1]}: the order is {order}"
                self._refuse(path, f"{reason}, each once; a freeze follows a round")
        if not any(phase.kind in ROUNDS for phase in phases):
            self._refuse(("phases",), f"no phase scores: add one of {', '.join(ROUNDS)}")

    def _problems(self, phases: Sequence[Phase]) -> list[ContestProblem]:
        rounds, entries = _round_bounds(phases), self._file.problems
        self._refuse_repeats(("problems",), [entry.slug for entry in entries], "slug")
        problems = [self._problem(index, entry, rounds) for index, entry in enumerate(entries)]
        for round_ in rounds:
            if all(problem.round != round_ for problem in problems):
                self._refuse(("problems",), f"the phase {round_} has no problem: add one to it")
        return problems

    def _problem(self, index: int, entry: ProblemYml, rounds: Rounds) -> ContestProblem:
        path: Path = ("problems", index)
        round_ = entry.round or next(iter(rounds))
        if round_ not in rounds:
            reason = f"there is no phase {round_}: add it, or choose {', '.join(rounds)}"
            self._refuse((*path, "round"), reason)
        starts_at, ends_at = self._window(path, entry, round_, rounds)
        return ContestProblem(
            slug=entry.slug,
            round=round_,
            starts_at=starts_at,
            ends_at=ends_at,
            gpu=entry.gpu,
            weight=entry.weight,
            scoring=self._scoring(path, entry.scoring),
            is_confirmed_fresh=entry.confirm_fresh,
        )

    def _window(
        self, path: Path, entry: ProblemYml, round_: Round, rounds: Rounds
    ) -> tuple[datetime, datetime]:
        """Return the window of a problem, which lies in its round."""
        starts_at, ends_at = rounds[round_]
        if entry.starts is not None:
            starts_at = self._instant((*path, "starts"), entry.starts)
        if entry.ends is not None:
            ends_at = self._instant((*path, "ends"), entry.ends)
        if ends_at is None:
            reason = f"{entry.slug} has no end: write it, or the end of the phase {round_}"
            self._refuse((*path, "ends"), reason)
        self._check_bounds(path, starts_at, ends_at)
        round_starts_at, round_ends_at = rounds[round_]
        is_early = starts_at < round_starts_at
        if is_early or (round_ends_at is not None and round_ends_at < ends_at):
            key = "starts" if is_early else "ends"
            reason = f"{entry.slug} {key} outside of the phase {round_}: move one of them"
            self._refuse((*path, key), reason)
        return starts_at, ends_at

    def _scoring(self, path: Path, own: ScoringYml | None) -> Scoring:
        entry = own or self._file.scoring
        path = (*path, "scoring") if own else ("scoring",)
        if entry.by == "places" and not entry.points:
            self._refuse((*path, "points"), "there are no points: write them, best place first")
        if any(after > before for before, after in pairwise(entry.points)):
            self._refuse((*path, "points"), "a lower place gets more points: sort them downwards")
        if entry.by == "expression":
            try:
                evaluate_formula(entry.expression, _SAMPLE)
            except FormulaError as error:
                reason = f"the expression {quote_value(entry.expression)} {error}"
                self._refuse((*path, "expression"), reason)
        return Scoring(
            by=entry.by,
            points=list(entry.points) if entry.by == "places" else [],
            points_max=entry.points_max,
            expression=entry.expression if entry.by == "expression" else "",
        )

    def _divisions(self) -> list[Division]:
        entries = self._file.divisions
        self._refuse_repeats(("divisions",), [entry.slug for entry in entries], "slug")
        for index, entry in enumerate(entries):
            self._refuse_repeats(("divisions", index, "declare"), entry.declare)
        own = [Division(slug=it.slug, title=it.title, declare=list(it.declare)) for it in entries]
        return own or [OPEN_DIVISION]

    def _register_until(self, phases: Sequence[Phase]) -> datetime:
        registration, text = phases[0], self._file.register_until
        if text is None:
            if registration.ends_at is None:
                self._refuse(("phases", 0, "ends"), "the registration has no end: write it")
            return registration.ends_at
        until_at = self._instant(("register_until",), text)
        if until_at <= registration.starts_at:
            self._refuse(("register_until",), "it is before the registration starts: move it")
        return until_at

    def _teams(self, phases: Sequence[Phase]) -> TeamRules:
        teams = self._file.teams
        path: Path = ("teams", "changes_until")
        if teams.changes_until is None:
            return TeamRules(size_max=teams.size_max)
        if teams.size_max == 1:
            self._refuse(path, "there are no teams: remove it, or write a larger size_max")
        until_at = self._instant(path, teams.changes_until)
        if until_at <= phases[0].starts_at:
            self._refuse(path, "it is before the registration starts: move it")
        return TeamRules(size_max=teams.size_max, changes_until_at=until_at)

    def _check_finals(self, phases: Sequence[Phase]) -> None:
        kinds = [phase.kind for phase in phases]
        if "finals" in kinds and not self._file.finalists:
            self._refuse(("finalists",), "there are finals: write how many are admitted to them")
        if "finals" in kinds and "qualifier" not in kinds:
            self._refuse(("phases",), "finals need a qualifier, which admits to them: add it")
        if "finals" not in kinds and self._file.finalists:
            self._refuse(("finalists",), "there is no phase finals: add it, or remove finalists")
        if self._file.best_of > len(self._file.problems):
            count = len(self._file.problems)
            self._refuse(("best_of",), f"there are only {count} problems: write at most {count}")

    def _refuse_repeats(self, path: Path, names: Sequence[str], key: str = "") -> None:
        for index, name in enumerate(names):
            if name in names[:index]:
                place = (*path, index, key) if key else (*path, index)
                self._refuse(place, f"a second {quote_value(name)}: remove or rename it")


def _round_bounds(phases: Sequence[Phase]) -> Rounds:
    bounds: Rounds = {}
    round_: Round | None = None
    for phase in phases:
        own = as_round(phase.kind)
        if own is not None:
            bounds[own], round_ = (phase.starts_at, phase.ends_at), own
        elif phase.kind == FREEZE and round_ is not None:
            bounds[round_] = bounds[round_][0], phase.ends_at
    return bounds
