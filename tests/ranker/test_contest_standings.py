"""SQL and the in-memory fold give a contest the same standing, whatever happens."""

import random
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from ranker.audit.contests import LiveContest, audit_contest, find_contest_differences
from ranker.domain.contest_fold import ContestFold
from ranker.domain.stored_log import StoredEvent, to_stored_event
from ranker.postgres import SCHEMA, ReadModels
from ranker.service.contests import ContestStandings, StandingKey, decode_definition
from ranker.service.decisions import Metrics
from ranker.service.progress import ProjectionProgress
from ranker.service.projection import project
from shared import events, subjects
from shared.api.audits import ContestAuditReport, ContestAuditRequest, Finding
from shared.api.contest_standings import DivisionStanding, StandingRound
from shared.contests.definition import (
    REVIEW_ITEMS,
    Contest,
    ContestPlace,
    ContestProblem,
    Division,
    Phase,
    Scoring,
    TeamRules,
)
from shared.errors import Refused
from shared.events import Fact
from shared.postgres import connect
from shared.verdicts import verify_verdict
from tests.ranker.audit_platform import AuditPlatform, chain_events
from tests.ranker.test_standings_sql import ACCOUNTS, STAGES, STEPS, Chaos
from tests.support.chance import seeds
from tests.support.lives import T0, Life, problem, say
from tests.support.memory import MemoryLog

HOUR = timedelta(hours=1)
SLUG = "spring"
PEOPLE = (*ACCOUNTS, "barbara", "donald")
ROUNDS: tuple[StandingRound, ...] = ("qualifier", "finals", "practice")


def definition(**changes: Any) -> Contest:
    """A contest with a qualifier and finals of two, on two problems."""
    contest = Contest(
        slug=SLUG,
        title="Spring",
        terms="Be fair.",
        organisers=["olga"],
        problems=[
            ContestProblem(
                slug="identity",
                round="qualifier",
                starts_at=T0,
                ends_at=T0 + 14 * HOUR,
                gpu="CPU",
                scoring=Scoring(points=[25, 18, 15]),
            ),
            ContestProblem(
                slug="other",
                round="qualifier",
                starts_at=T0 + HOUR,
                ends_at=T0 + 12 * HOUR,
                gpu="CPU",
                weight=2.0,
                scoring=Scoring(by="time"),
            ),
            ContestProblem(
                slug="third",
                round="finals",
                starts_at=T0 + 4 * HOUR,
                ends_at=T0 + 14 * HOUR,
                scoring=Scoring(by="expression", expression="100 * best_us / time_us + count"),
            ),
        ],
        divisions=[Division(slug="open", title="Open"), Division(slug="agents", title="Agents")],
        phases=[
            Phase(kind="registration", starts_at=T0 - HOUR, ends_at=T0),
            Phase(kind="qualifier", starts_at=T0, ends_at=T0 + 4 * HOUR, modes=["ranked"]),
            Phase(
                kind="freeze",
                starts_at=T0 + 4 * HOUR,
                ends_at=T0 + 6 * HOUR,
                modes=["ranked"],
                ranks="frozen",
            ),
            Phase(
                kind="finals",
                starts_at=T0 + 6 * HOUR,
                ends_at=T0 + 9 * HOUR,
                modes=["ranked"],
                ranks="hidden",
            ),
            Phase(kind="archive", starts_at=T0 + 9 * HOUR, modes=["ranked"], sources="public"),
        ],
        register_until_at=T0 + 6 * HOUR,
        teams=TeamRules(size_max=3),
        ties=["most_wins", "best_place", "fewest", "earliest", "shared"],
        finalists=2,
    )
    return structs.replace(contest, **changes)


async def publish_contest(log: MemoryLog, contest: Contest) -> None:
    """Publish the problems of a contest and the contest itself."""
    for entry in contest.problems:
        await say(log, subjects.problem(entry.slug), problem())
        changed = events.LeaderboardChanged(visibility=None, reason="r", contest=contest.slug)
        await say(log, subjects.problem(entry.slug), changed)
    await say(
        log, subjects.contest(contest.slug), events.ContestPublished(number=1, contest=contest)
    )


class ContestChaos(Chaos):
    """A random history of a contest: of its people, its teams, and their submissions."""

    gpus = ("CPU", "CPU", "CPU", "H200")
    numbers = (1, 1, 1, 1, 2)
    # Whoever takes part in a contest is not merged.
    has_merges = False
    # When the window of the first problem may end, in hours.
    close_hours = (10, 16)

    def __init__(self, seed: int) -> None:
        super().__init__(seed, accounts=PEOPLE)
        self.contest = definition()
        self.teams: dict[str, str] = {}
        self.version = 1
        self.resent = random.Random(seed)

    async def say(self, aggregate: str, fact: Fact) -> None:
        """Append an event; submissions are to a problem of the contest, mostly as a contestant."""
        if isinstance(fact, events.SubmissionReceived):
            contestant = self.teams.get(fact.account) or fact.account
            is_sent = self.chance.random() < 0.9
            fact = structs.replace(
                fact,
                problem=self.chance.choice(["identity", "other", "third"]),
                contest=SLUG if is_sent else "",
                contestant=contestant if is_sent else "",
            )
            # An operator submits some again that were sent hours before.
            if self.resent.random() < 0.2:
                sent_at = self.clock - self.resent.randrange(1, 8) * HOUR
                fact = structs.replace(fact, sent_at=sent_at)
        await super().say(aggregate, fact)

    async def step(self) -> None:
        """Append an event about people, or about submissions."""
        draw = self.chance.random()
        if draw < 0.15:
            await super().say(subjects.contest(SLUG), self.people_fact())
        elif draw < 0.6:
            await (self.finish() if len(self.open) > 3 else self.receive())
        else:
            await super().step()

    def people_fact(self) -> Fact:
        """An event about a person or a team."""
        draw = self.chance
        account, team = draw.choice(PEOPLE), draw.choice(["t1", "t2"])
        division = draw.choice(["open", "open", "agents"])
        subject = draw.choice([account, team])
        chosen = draw.randrange(10)
        if chosen < 4:
            return events.ContestRegistered(account=account, division=division, terms_digest="d")
        if chosen == 4:
            self.teams[account] = team
            name = f"Team {team}"
            return events.ContestTeamCreated(team=team, name=name, captain=account, code_hash="h")
        if chosen == 5:
            self.teams[account] = team
            return events.ContestTeamJoined(team=team, account=account)
        if chosen == 6:
            self.teams.pop(account, None)
            return events.ContestTeamLeft(team=team, account=account)
        others: list[Fact] = [
            events.ContestCaptainChanged(team=team, captain=account),
            events.ContestDeclared(contestant=subject, division=division, declaration={}),
            events.ContestDisqualified(subject=subject, reason="r"),
            events.ContestRestored(subject=subject, reason="r"),
            events.ContestRestored(subject=team, reason="r"),
            events.ContestRegistrationWithdrawn(account=account),
            events.ContestFinalistsAdmitted(
                contestants=draw.sample([*PEOPLE, "t1", "t2"], 4), as_of_seq=1
            ),
        ]
        return draw.choice([*others, self.moved_close()])

    def moved_close(self) -> Fact:
        """A new version of the definition with another end of its first problem."""
        self.version += 1
        first, *rest = self.contest.problems
        ends_at = T0 + self.chance.randrange(*self.close_hours) * HOUR
        self.contest = structs.replace(
            self.contest, problems=[structs.replace(first, ends_at=ends_at), *rest]
        )
        return events.ContestPublished(number=self.version, contest=self.contest)


async def derive(
    models: ReadModels, round_: StandingRound, until_at: datetime | None
) -> list[DivisionStanding]:
    (row,) = await models.rows("contests", contest=SLUG)
    contest = decode_definition(row)
    standings = ContestStandings(models, ProjectionProgress())
    return await standings.derive(contest, StandingKey(SLUG, row["number"], round_, until_at))


@pytest.mark.feature("C3", "A5")
@pytest.mark.server
@seeds(6)
async def test_any_history_makes_the_same_standing(
    postgres_dsn: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chaos, fold = ContestChaos(seed), ContestFold(SLUG)
    await publish_contest(chaos.log, chaos.contest)
    for account in PEOPLE:
        registered = events.ContestRegistered(account=account, division="open", terms_digest="d")
        await say(chaos.log, subjects.contest(SLUG), registered)
    rows_count = 0
    async with await connect(postgres_dsn, SCHEMA) as connection:
        models = ReadModels(connection)
        for _ in range(STAGES):
            folded_seq = await models.checkpoint()
            for _ in range(2 * STEPS):
                await chaos.step()
            last = await chaos.log.last()
            async for _ in project(chaos.log, models, ProjectionProgress(), Metrics(), until=last):
                pass
            for event in chaos.log.since(folded_seq):
                fold.fold(event)
            # Bans are judged at the present.
            monkeypatch.setattr("ranker.service.contests.now", lambda: chaos.clock)
            for round_ in ROUNDS:
                for until_at in (None, T0 + 8 * HOUR):
                    shown = await derive(models, round_, until_at)
                    expected = fold.derive(round_, until_at, chaos.clock)
                    assert find_contest_differences(expected, shown) == []
                    assert [part.division for part in shown] == [part.division for part in expected]
                    rows_count += sum(len(part.rows) for part in shown)
    assert rows_count >= 5


class LogCopy:
    """The events of a log in memory, with the chain over them."""

    def __init__(self, log: MemoryLog) -> None:
        self._rows = chain_events(to_stored_event(event) for event in log.since(0))

    async def events(self) -> AsyncIterator[StoredEvent]:
        """Every event."""
        for row in self._rows:
            yield row

    def findings(self) -> list[Finding]:
        """Nothing."""
        return []


async def test_an_audit_derives_the_standing_of_now_and_of_any_instant() -> None:
    chaos = ContestChaos(7)
    await publish_contest(chaos.log, chaos.contest)
    for account in PEOPLE:
        registered = events.ContestRegistered(account=account, division="open", terms_digest="d")
        await say(chaos.log, subjects.contest(SLUG), registered)
    past: list[tuple[datetime, int, list[DivisionStanding]]] = []
    fold, folded_seq = ContestFold(SLUG), 0
    for _ in range(10):
        for _ in range(20):
            await chaos.step()
        for event in chaos.log.since(folded_seq):
            fold.fold(event)
        folded_seq = await chaos.log.last()
        past.append((chaos.clock, folded_seq, fold.derive("qualifier", None, chaos.clock)))
        chaos.clock += timedelta(seconds=1)
    copy = LogCopy(chaos.log)
    for at, seq, divisions in past:
        request = ContestAuditRequest(contest=SLUG, round="qualifier", as_of=at)
        report = await audit_contest(request, copy, verify_verdict)
        assert (report.is_clean, report.seq, report.divisions) == (True, seq, divisions)
    at, seq, divisions = past[-1]
    request = ContestAuditRequest(contest=SLUG, round="qualifier")
    live = LiveContest(seq, at, divisions)
    assert (await audit_contest(request, copy, verify_verdict, live)).is_clean
    # A place that somebody changed in a table is found.
    index, part = next((index, part) for index, part in enumerate(divisions) if part.rows)
    first, *others = part.rows
    forged = structs.replace(part, rows=[structs.replace(first, points=99.5), *others])
    live = LiveContest(seq, at, [*divisions[:index], forged, *divisions[index + 1 :]])
    report = await audit_contest(request, copy, verify_verdict, live)
    assert not report.is_clean
    assert "points is shown as 99.5" in report.differences[0]
    with pytest.raises(Refused, match="no contest 'autumn'"):
        await audit_contest(ContestAuditRequest(contest="autumn"), copy, verify_verdict)


@pytest.fixture
async def cup(tmp_path: Path) -> AuditPlatform:
    """A contest of one problem that is over: ada is ahead of grace."""
    platform = await AuditPlatform(tmp_path).found()
    (problem_, *_) = definition().problems
    contest = definition(problems=[problem_], podium=1)
    published = events.ContestPublished(number=1, contest=contest)
    await platform.tell(subjects.contest(SLUG), published)
    for account, time_us in (("ada", 50.0), ("grace", 90.0)):
        registered = events.ContestRegistered(account=account, division="open", terms_digest="d")
        await platform.tell(subjects.contest(SLUG), registered)
        await platform.live(Life(f"s-{account}", account, time_us, contest=SLUG))
    platform.at = problem_.ends_at
    return platform


async def test_what_an_operator_submits_again_counts_from_when_it_was_sent(
    cup: AuditPlatform,
) -> None:
    cup.at += HOUR
    for account, hours in (("barbara", 2), ("donald", 0)):
        registered = events.ContestRegistered(account=account, division="open", terms_digest="d")
        await cup.tell(subjects.contest(SLUG), registered)
        life = Life(f"s-{account}", account, 20.0, contest=SLUG, sent_at=cup.at - hours * HOUR)
        await cup.live(life)
    (part, _) = (await audit_cup(cup)).divisions
    assert [row.contestant for row in part.rows] == ["barbara", "ada", "grace"]
    assert [row.points for row in part.rows] == [25.0, 18.0, 15.0]


def places(*contestants: str) -> list[ContestPlace]:
    """The places of contestants, in order."""
    return [
        ContestPlace(contestant=name, division="open", place=place, points=points)
        for place, (name, points) in enumerate(zip(contestants, (25.0, 18.0), strict=True), 1)
    ]


async def audit_cup(cup: AuditPlatform, live: LiveContest | None = None) -> ContestAuditReport:
    request = ContestAuditRequest(contest=SLUG)
    return await audit_contest(request, LogCopy(cup.log), verify_verdict, live)


PASSED = [
    events.ContestReviewed(contestant="ada", item=item, is_passed=True) for item in REVIEW_ITEMS
]


async def test_an_audit_names_the_winners_and_the_events_that_confirmed_them(
    cup: AuditPlatform,
) -> None:
    proposed = events.ContestResultsProposed(places=places("ada", "grace"), as_of_seq=1)
    confirmed = events.ContestResultsConfirmed(places=proposed.places, as_of_seq=1)
    await cup.tell(subjects.contest(SLUG), proposed)
    report = await audit_cup(cup)
    assert report.results is not None
    assert (report.results.confirmed_seq, report.results.places[0].contestant) == (None, "ada")
    for fact in (*PASSED, confirmed):
        await cup.tell(subjects.contest(SLUG), fact)
    seq = await cup.log.last()
    report = await audit_cup(cup)
    assert report.results is not None
    assert (report.findings, report.results.confirmed_seq) == ([], seq)
    # Places that somebody changed in a table, and a confirmation against the rules, are found.
    shown = {"proposed": proposed.places, "confirmed": places("grace", "ada")}
    report = await audit_cup(cup, LiveContest(seq, cup.at, report.divisions, shown))
    assert report.differences == [
        "the confirmed results are shown with other places than the log gives"
    ]
    failed = structs.replace(PASSED[1], is_passed=False)
    for fact in (failed, proposed, confirmed):
        await cup.tell(subjects.contest(SLUG), fact)
    (finding,) = (await audit_cup(cup)).findings
    assert "although the check code of ada had not passed" in finding.what


async def test_an_audit_finds_results_that_were_not_the_standing_when_they_were_proposed(
    cup: AuditPlatform,
) -> None:
    forged = events.ContestResultsProposed(places=places("grace", "ada"), as_of_seq=1)
    seq = await cup.tell(subjects.contest(SLUG), forged)
    report = await audit_cup(cup)
    what = (
        "results were proposed with place 2 and 18 points for ada in open:"
        " the log gives place 1 and 25 points"
    )
    assert (report.is_clean, report.findings) == (False, [Finding(seq, what)])

    # Results count as of their proposal: neither a later definition nor a later decision matters.
    proposed = events.ContestResultsProposed(places=places("ada", "grace"), as_of_seq=1)
    confirmed = events.ContestResultsConfirmed(places=proposed.places, as_of_seq=1)
    for fact in (proposed, *PASSED, confirmed):
        await cup.tell(subjects.contest(SLUG), fact)
    (problem_, *_) = definition().problems
    changed = definition(problems=[structs.replace(problem_, scoring=Scoring(points=[9]))])
    published = events.ContestPublished(number=2, contest=changed)
    await cup.tell(subjects.contest(SLUG), published)
    out = events.SubmissionDisqualified(rule="r", reason="")
    await cup.tell(subjects.moderation("s-ada"), out)
    assert (await audit_cup(cup)).findings == []

    # They would not be those of today, and who confirms forged ones does not hide them.
    late = events.ContestResultsProposed(places=places("grace", "ada"), as_of_seq=1)
    seq = await cup.tell(subjects.contest(SLUG), late)
    reviewed = [structs.replace(fact, contestant="grace") for fact in PASSED]
    confirmed = events.ContestResultsConfirmed(places=late.places, as_of_seq=1)
    right = events.ContestResultsProposed(
        places=[structs.replace(places("grace", "ada")[0], points=9.0)], as_of_seq=1
    )
    for fact in (*reviewed, confirmed, right):
        await cup.tell(subjects.contest(SLUG), fact)
    (finding,) = (await audit_cup(cup)).findings
    assert finding.seq == seq
    assert "for ada in open: the log gives no place" in finding.what
