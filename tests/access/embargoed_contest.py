"""A contest whose phases show and hide, with secrets that can be recognised wherever they appear.

Everything runs in one process: ingest with all its routes, ranker, and their read models in a real
Postgres, on a clock that the test sets.
"""

import hashlib
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta, tzinfo
from typing import Literal, NamedTuple

import pytest
from msgspec import structs

from harness.hidden_sizes import hidden_case_name, read_family
from ingest.identity.scopes import SCOPES_BY_ROLE
from ranker.archive.archiver import run_archiver
from ranker.archive.postgres import open_archive
from ranker.service.decisions import Metrics
from shared import clock, events, subjects
from shared.contests.definition import (
    Contest,
    ContestProblem,
    Division,
    Phase,
    PhaseKind,
    Ranks,
    Scoring,
    Sources,
    TeamRules,
)
from shared.events import CaseResult, Fact
from tests.ingest.ways import Person, Ways, open_ways
from tests.support.door import FILES, report_of
from tests.support.holders import bearer, made
from tests.support.lives import RUN_KEY, Life, live, say
from tests.support.memory import MemoryLog

HOUR, SECOND = timedelta(hours=1), timedelta(seconds=1)
SLUG, OTHER_SLUG, SPRINT, DASH, SPARE = "spring", "autumn", "sprint", "dash", "spare"
TEAM, OTHER_TEAM = "11111111-team", "22222222-team"
HIDDEN_TESTS = {"count": 2, "args": {"size": {"from": 10**9, "to": 10**10}}}
WARPBOARD_YML = """\
source_visible: always
publish: always
ranking_by: last
hidden:
  tests: {count: 2, args: {size: {from: 1000000000, to: 10000000000}}}
"""
# So many are faster than whoever has a secret rank, and so many slower.
FASTER, SLOWER = 136, 30
# The hour of the phase in which they are received.
FILLED_HOUR = 1
RANKS = range(FASTER, FASTER + 8)


class Stage(NamedTuple):
    """A phase, and what it promises to show to everybody."""

    kind: PhaseKind
    hour: float
    ranks: Ranks = "live"
    sources: Sources = "hidden"
    # What is shown, whatever the phase itself says: a freeze keeps hidden what was hidden.
    shown: Ranks = "live"


STAGES = (
    Stage("registration", -1),
    Stage("practice", 0, "hidden", shown="hidden"),
    Stage("qualifier", 1),
    Stage("freeze", 2, "frozen", shown="frozen"),
    Stage("main", 3, sources="registered"),
    Stage("freeze", 4, "hidden", shown="hidden"),
    Stage("finals", 5, "hidden", shown="hidden"),
    Stage("freeze", 6, "frozen", shown="hidden"),
    Stage("review", 7, "frozen", "public", shown="hidden"),
    Stage("archive", 9, sources="public"),
)


@dataclass(frozen=True)
class Entry:
    """A ranked run with its secrets: whose, on which problem, when it was received, how fast."""

    id: str
    name: str
    problem: str
    hour: float
    time_us: float
    team: str = ""
    is_contestant: bool = True
    mode: str = "ranked"

    @property
    def mark(self) -> str:
        """A word that occurs in its source and nowhere else."""
        return "zq" + hashlib.sha256(self.id.encode()).hexdigest()[:14]

    @property
    def private_mark(self) -> str:
        """A word of the log and the files of its run, which are private."""
        return self.mark.replace("zq", "zp")

    @property
    def source(self) -> bytes:
        """Its source, which no other source resembles."""
        words = [f"{self.mark}_{index}" for index in range(20)]
        lines = [f"    {word} = data + {index}" for index, word in enumerate(words)]
        return "\n".join(["def custom_kernel(data):", *lines, "    return data", ""]).encode()


ENTRIES = (
    Entry("early", "participant", SPRINT, 0.5, 9214.75, is_contestant=False),
    Entry("flash", "member", SPRINT, 1.5, 913.5, is_contestant=False),
    Entry("owner", "owner", SPRINT, 1.5, 7341.625, TEAM),
    Entry("mate", "mate", SPRINT, 1.5, 7513.25, TEAM),
    Entry("solo", "solo", SPRINT, 1.5, 7862.5),
    Entry("rival", "rival", SPRINT, 1.5, 8127.875, OTHER_TEAM),
    Entry("owner-test", "owner", SPRINT, 1.5, 7999.0, TEAM, mode="test"),
    Entry("owner-late", "owner", SPRINT, 2.5, 6937.375, TEAM),
    Entry("rival-late", "rival", SPRINT, 2.5, 6829.5, OTHER_TEAM),
    Entry("owner-dash", "owner", DASH, 5.5, 5231.5, TEAM),
    Entry("rival-dash", "rival", DASH, 5.5, 4873.25, OTHER_TEAM),
)
REGISTERED = ("owner", "mate", "rival", "solo")
PEOPLE = ("mate", "rival", "solo", "olga", "oscar")
STAFF = ("moderator", "admin", "operator's token")
# These tokens do not act for their account: one is limited to another problem, one to a scope.
LIMITED = {"elsewhere": "owner", "narrow": "participant", "olga elsewhere": "olga"}

Kind = Literal["source", "score", "rank", "private", "size"]


class Secret(NamedTuple):
    """Something that only some callers may read, and the pattern that recognises it."""

    kind: Kind
    pattern: re.Pattern[str]
    entry: Entry | None = None

    @property
    def text(self) -> str:
        """How a failed test names it."""
        return f"{self.kind} of {self.entry.id}" if self.entry else self.kind


def _number_pattern(value: float) -> str:
    """What tells a time: in microseconds, rounded to milliseconds as pages show it, or in seconds
    or nanoseconds as the public client shows it.
    """
    seconds = f"{value / 1e6:.9f}".rstrip("0")
    texts = {rf"{int(value)}\.\d", rf"{int(value):,}", re.escape(seconds), rf"{value * 1e3:.0f}\b"}
    if value >= 1000:
        rounded = {f"{value / 1000:.2f}", f"{int(value / 10) / 100:.2f}"}
        texts |= {rf"{re.escape(text)}\d* ?ms" for text in rounded}
    else:
        texts = {
            re.escape(f"{value:.1f}"),
            rf"{int(value)}(?:\.\d+)? ?[µu]s",
            rf"{value:.0f} ?[µu]s",
        }
    return rf"(?<![\d.])(?:{'|'.join(sorted(texts))})"


def list_secrets(*others: Entry) -> list[Secret]:
    """Return all secrets of the contest, with those of other entries."""
    secrets = []
    for entry in (*ENTRIES, *others):
        secrets.append(Secret("source", re.compile(entry.mark), entry))
        secrets.append(Secret("private", re.compile(entry.private_mark), entry))
        if entry.mode == "ranked":
            times = (entry.time_us, entry.time_us * 0.9, entry.time_us * 1.1)
            pattern = "|".join(_number_pattern(time_us) for time_us in times)
            secrets.append(Secret("score", re.compile(pattern), entry))
    ranks = "|".join(str(rank) for rank in RANKS)
    secrets.append(
        Secret("rank", re.compile(rf"(?<![\w.,-])(?<!\d:)(?:{ranks})(?![\w%]|[.,:-]\w)"))
    )
    family = read_family("tests", HIDDEN_TESTS)
    sizes = [str(args["size"]) for args in family.draw(bytes.fromhex(RUN_KEY))]
    secrets.append(Secret("size", re.compile("|".join([*sizes, RUN_KEY]))))
    return secrets


def may_read(secret: Secret, name: str, stage: Stage) -> bool:
    """Return whether a caller may read a secret in a phase, as docs/contests.md promises it."""
    entry = secret.entry
    is_own = entry is not None and entry.name == name
    if name in STAFF or (is_own and secret.kind != "rank"):
        return True
    if secret.kind in ("size", "private"):
        return secret.kind == "size" and name == "author"
    if entry is not None and entry.mode != "ranked":
        return False
    return name == "olga" or _shows(stage, secret.kind, name)


def _shows(stage: Stage, kind: Kind, name: str) -> bool:
    """Whether a phase shows something of ranked entries to a caller without rights of their own."""
    if stage.shown != "live":
        return False
    is_shown = kind != "source" or stage.sources == "public"
    return is_shown or (stage.sources == "registered" and name in REGISTERED)


@dataclass(frozen=True)
class EntryLife(Life):
    """The run of an entry, with a hidden case, and words of its own in its log and its files."""

    entry: Entry | None = None
    problem: str = SPRINT
    problem_digest: str = ""
    contestant: str = ""
    source_bytes: int = 1

    def facts(self) -> list[tuple[str, Fact]]:
        """Everything up to the verdict, on the problem of the entry."""
        return [(aggregate, self._change(fact)) for aggregate, fact in super().facts()]

    def _change(self, fact: Fact) -> Fact:
        if not isinstance(fact, events.SubmissionReceived | events.JobAssigned):
            return fact
        fact = structs.replace(fact, problem=self.problem, problem_digest=self.problem_digest)
        if isinstance(fact, events.SubmissionReceived):
            source = structs.replace(fact.source, bytes=self.source_bytes)
            fact = structs.replace(fact, contestant=self.contestant, source=source)
        return fact

    def completed(self) -> events.RunCompleted:
        """The verdict, with the verdict of a hidden case."""
        fact = super().completed()
        hidden = CaseResult(
            name=hidden_case_name("tests", 1),
            stage="hidden_check",
            verdict="passed",
            is_hidden=True,
        )
        if self.entry is None:
            return structs.replace(fact, cases=[hidden, *fact.cases])
        (case,) = fact.cases
        case = structs.replace(case, message=self.entry.private_mark)
        return structs.replace(fact, cases=[hidden, case], log_head=self.entry.private_mark)


class StoppedClock:
    """Takes the place of `datetime` in shared.clock, which every service asks for the time.

    It stands still: what is asked a second before a phase is answered then, however long it takes.
    """

    def __init__(self, at: datetime) -> None:
        self.at = at

    def now(self, zone: tzinfo) -> datetime:
        """Return the simulated time."""
        return self.at.astimezone(zone)


@dataclass
class EmbargoedContest:
    """The platform with the contest; hours are those since its base."""

    ways: Ways
    clock: StoppedClock
    base: datetime
    dsn: str
    version: int = 0
    digests: dict[str, str] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)

    @property
    def log(self) -> MemoryLog:
        """The log of the platform."""
        return self.ways.door.log

    def account(self, name: str) -> str:
        """Return the account of a person."""
        return self.ways.people[name].account

    def stage_at(self, hour: float) -> Stage:
        """Return the phase of an hour."""
        return [stage for stage in STAGES if stage.hour <= hour][-1]

    def set_hour(self, hour: float, delta: timedelta = timedelta()) -> None:
        """Move the clock."""
        self.clock.at = self.base + hour * HOUR + delta

    async def say(self, aggregate: str, fact: Fact) -> None:
        """Append an event at the simulated time."""
        await say(self.log, aggregate, fact, at=self.clock.at)

    def definition(self, archive_hour: float = 9) -> Contest:
        """Return the contest, with an archive that starts at an hour."""
        starts = [*(stage.hour for stage in STAGES[:-1]), archive_hour]
        ends = [*starts[1:-1], 8.0, None]
        return Contest(
            slug=SLUG,
            title="Spring",
            terms="Be fair.",
            organisers=[self.account("olga")],
            problems=[
                self._problem(SPRINT, "qualifier", 1, 3),
                self._problem(DASH, "finals", 5, 7),
            ],
            divisions=[Division(slug="open", title="Open")],
            phases=[
                Phase(
                    kind=stage.kind,
                    starts_at=self.base + start * HOUR,
                    ends_at=None if end is None else self.base + end * HOUR,
                    modes=["test", "ranked"],
                    ranks=stage.ranks,
                    sources=stage.sources,
                )
                for stage, start, end in zip(STAGES, starts, ends, strict=True)
            ],
            register_until_at=self.base + 2 * HOUR,
            teams=TeamRules(size_max=3),
            finalists=10,
        )

    def _problem(
        self, slug: str, round_: Literal["qualifier", "finals"], start: float, end: float
    ) -> ContestProblem:
        return ContestProblem(
            slug=slug,
            round=round_,
            starts_at=self.base + start * HOUR,
            ends_at=self.base + end * HOUR,
            gpu="CPU",
            scoring=Scoring(by="time"),
        )

    async def publish(self, contest: Contest) -> None:
        """Publish a version of a contest."""
        self.version += 1
        for problem in contest.problems:
            changed = events.LeaderboardChanged(
                visibility=None,
                reason="r",
                contest=contest.slug,
                has_deadline=True,
                deadline_at=problem.ends_at,
            )
            await self.say(subjects.problem(problem.slug), changed)
        published = events.ContestPublished(number=self.version, contest=contest)
        await self.say(subjects.contest(contest.slug), published)

    async def make_life(self, entry: Entry, id_: str = "") -> EntryLife:
        """Store the source of an entry, and return what happens to it, also under another id."""
        blob = await self.ways.reads.blobs.put(entry.source)
        account = self.account(entry.name)
        return EntryLife(
            id=id_ or f"id-{entry.id}",
            account=account,
            time_us=entry.time_us,
            mode=entry.mode,
            source=blob.digest,
            source_bytes=blob.bytes,
            name=f"{entry.id}.py",
            contest=SLUG if entry.is_contestant else "",
            contestant=(entry.team or account) if entry.is_contestant else "",
            entry=entry,
            problem=entry.problem,
            problem_digest=self.digests[entry.problem],
        )

    async def run(self, *entries: Entry) -> None:
        """Let entries be received and judged at the simulated time."""
        lives = [await self.make_life(entry) for entry in entries]
        await live(self.log, *lives, at=self.clock.at)
        await self.settle()
        self.numbers |= {entry.id: self.find_number(f"id-{entry.id}") for entry in entries}

    def find_number(self, id_: str) -> int:
        """Return the number of a submission."""
        aggregate = subjects.submission(id_)
        return next(
            event.seq for event in self.log.since(0) if event.envelope.aggregate == aggregate
        )

    async def receive(self, from_hour: float, until_hour: float) -> None:
        """Let the entries of an interval be received, at their hours."""
        hours = {entry.hour for entry in ENTRIES if from_hour <= entry.hour < until_hour}
        for hour in sorted(hours):
            self.set_hour(hour)
            await self.run(*(entry for entry in ENTRIES if entry.hour == hour))
            if from_hour == FILLED_HOUR:
                await self.fill()

    async def fill(self) -> None:
        """Let many others be received, faster and slower than those whose ranks are secret."""
        times_us = [1500 + index for index in range(FASTER - 1)]
        times_us += [20_000 + index for index in range(SLOWER)]
        lives = []
        for index, time_us in enumerate(times_us):
            blob = await self.ways.reads.blobs.put(b"def custom_kernel(data): return %d\n" % index)
            account = filler_account(index)
            life = EntryLife(
                id=f"id-filler-{index}",
                account=account,
                time_us=float(time_us),
                source=blob.digest,
                source_bytes=blob.bytes,
                contest=SLUG,
                contestant=account,
                problem=SPRINT,
                problem_digest=self.digests[SPRINT],
            )
            lives.append(life)
        await live(self.log, *lives, at=self.clock.at)
        await self.settle()

    async def settle(self) -> None:
        """Wait until everything is folded and decided, and archive it."""
        await self.ways.reads.settle()
        async with open_archive(self.dsn) as archive:
            await run_archiver(self.log, archive, Metrics(), until=await self.log.last())


def filler_account(index: int) -> str:
    """Return the account of one of many contestants."""
    return f"account-of-filler-{index}"


@asynccontextmanager
async def open_embargoed_contest(
    dsn: str, monkeypatch: pytest.MonkeyPatch, *, is_connected: bool = False
) -> AsyncIterator[EmbargoedContest]:
    """Open the platform an hour before the contest, with all callers and no entry yet."""
    at = clock.now().replace(minute=0, second=0, microsecond=0)
    async with open_ways(dsn, has_archive=True, is_connected=is_connected) as ways:
        simulated = StoppedClock(clock.now())
        monkeypatch.setattr(clock, "datetime", simulated)
        contest = EmbargoedContest(ways, simulated, at + 2 * HOUR, dsn)
        await _create_people(contest)
        await _publish_problems(contest)
        contest.set_hour(-1.5)
        await contest.publish(contest.definition())
        await _register(contest)
        await contest.settle()
        yield contest


async def _create_people(contest: EmbargoedContest) -> None:
    ways, scopes = contest.ways, sorted(SCOPES_BY_ROLE["participant"])
    for name in PEOPLE:
        issued = await made(ways.door, name, *scopes)
        account = await ways.door.commands.people.find(name)
        assert account is not None
        cookie = await ways.logins.sessions.open(account)
        ways.people[name] = Person(bearer(issued["token"]), cookie, account)
    limited = (await made(ways.door, "olga", *scopes, problems=[SPARE]))["token"]
    ways.people["olga elsewhere"] = Person(bearer(limited), limited)


async def _publish_problems(contest: EmbargoedContest) -> None:
    files = {**FILES, "warpboard.yml": WARPBOARD_YML.encode()}
    parts = [("files", (name, text)) for name, text in files.items()]
    headers = contest.ways.people["author"].headers
    for slug in (SPRINT, DASH):
        data = {"slug": slug, "report": report_of(files, slug)}
        answer = await contest.ways.door.http.post(
            "/v1/problems", data=data, files=parts, headers=headers
        )
        assert answer.status_code == 201, answer.text
    for event in contest.ways.door.log.since(0):
        if isinstance(event.fact, events.ProblemPublished):
            slug = subjects.last_token(event.envelope.aggregate)
            contest.digests[slug] = event.fact.digest
    other = structs.replace(
        contest.definition(),
        slug=OTHER_SLUG,
        organisers=[contest.account("oscar")],
        problems=[contest._problem(SPARE, "qualifier", 1, 3)],
    )
    await contest.publish(other)
    contest.version = 0


async def _register(contest: EmbargoedContest) -> None:
    aggregate = subjects.contest(SLUG)
    accounts = [contest.account(name) for name in REGISTERED]
    for account in [*accounts, *(filler_account(index) for index in range(FASTER + SLOWER - 1))]:
        registered = events.ContestRegistered(account=account, division="open", terms_digest="d")
        await contest.say(aggregate, registered)
    for team, captain in ((TEAM, "owner"), (OTHER_TEAM, "rival")):
        created = events.ContestTeamCreated(
            team=team, name=f"Team {captain}", captain=contest.account(captain), code_hash="h"
        )
        await contest.say(aggregate, created)
    joined = events.ContestTeamJoined(team=TEAM, account=contest.account("mate"))
    await contest.say(aggregate, joined)
