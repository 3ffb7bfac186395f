"""Four contests in the shape of real ones run whole, on a simulated clock, while things go wrong.

WARPBOARD_CONTEST_PEOPLE and WARPBOARD_CONTEST_SUBMISSIONS make it as large as a real season,
WARPBOARD_CONTEST_SEED draws another one.
"""

import asyncio
import logging
import os
import random
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from bench.noop_agent import enrolment, names

from shared.api.audits import ContestAuditReport
from shared.contests.definition import REVIEW_ITEMS, Contest, ContestProblem
from shared.nats.connection import connect
from shared.nats.event_log import NatsLog
from shared.servers.process import Launch
from tests.support.clocked_platform import ClockedRunning, CommandOutput
from tests.support.waits import eventually
from tests.system.chaos.asking import Asked, Asker, client
from tests.system.chaos.town import Extra
from tests.system.contest_count import compare_results, compare_standing, count_standing
from tests.system.contest_season import (
    FAMILY,
    ORGANISER,
    WRONG_SHARE,
    Ledger,
    Season,
    Sent,
    essence,
    shown_essence,
)
from tests.system.test_kills import kill

pytestmark = [
    pytest.mark.platform,
    pytest.mark.long,
    pytest.mark.server,
    pytest.mark.timeout(7200),
    # nats-py drops a half-open socket unclosed when its server is killed.
    pytest.mark.filterwarnings("ignore:.*StreamWriter:pytest.PytestUnraisableExceptionWarning"),
]

log = logging.getLogger("season")
PEOPLE = int(os.environ.get("WARPBOARD_CONTEST_PEOPLE", "60"))
SUBMISSIONS = int(os.environ.get("WARPBOARD_CONTEST_SUBMISSIONS", "600"))
SEED = int(os.environ.get("WARPBOARD_CONTEST_SEED", "1"))
LOOKS = 10
COMMANDS_AT_ONCE_MAX = 2
# The share of the people who take part, and of the submissions that each problem gets.
SHARES = {"kernel-season": 0.4, "team-sprint": 0.45, "grand-final": 0.4, "open-tracks": 0.4}
FINALISTS = 10
# All that ten finalists may send, but for a few.
FINAL_SUBMISSIONS = min(150, SUBMISSIONS // 11)
AGENTS = 16
AGENT_NAMES = "judge"
VICTIMS = ("ingest", "scheduler", "ranker", "nats-server", "Postgres", AGENT_NAMES)
# People submit to a problem at so many moments that each has about this many submissions.
TICK_SUBMISSIONS = 220
TICKS_MIN = 1
KILL_AFTER_S = 0.3
CLOSE_S_MAX = 60.0
SETTINGS = {
    # All people of this test have one address.
    "WARPBOARD_INGEST_RATE_PER_TOKEN": "",
    "WARPBOARD_INGEST_RATE_PER_ADDRESS": "",
    "WARPBOARD_SCHEDULER_TICK_S": "0.1",
    "WARPBOARD_SCHEDULER_SILENT_S_MAX": "5",
}
BEGINS_AT = datetime(2027, 2, 20, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
Action = Callable[[], Awaitable[None]]


class Look(NamedTuple):
    """What readers were shown at an instant when everything sent before was judged."""

    contest: str
    at: datetime
    organiser: dict[str, Any]
    everybody: dict[str, Any]


@dataclass
class Story:
    """What happens when: actions at instants, and what was seen."""

    season: Season
    judges: Extra
    actions: list[tuple[datetime, int, Action]] = field(default_factory=list)
    looks: list[Look] = field(default_factory=list)
    ties: Counter[str] = field(default_factory=Counter)
    killed: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    _running: asyncio.Semaphore = field(
        default_factory=lambda: asyncio.Semaphore(COMMANDS_AT_ONCE_MAX)
    )

    def at(self, instant: datetime, action: Action) -> None:
        """Let something happen at an instant."""
        self.actions.append((instant, len(self.actions), action))

    async def play(self) -> None:
        """Let everything happen, in order."""
        for instant, _, action in sorted(self.actions, key=lambda entry: entry[:2]):
            assert instant > self.season.running.clock.now(), "the clock would go back"
            self.season.running.clock.move_to(instant)
            began = time.monotonic()
            await action()
            log.info(
                "%s: %.1f s, %s sent",
                f"{instant:%m-%d %H:%M}",
                time.monotonic() - began,
                len(self.season.sent),
            )
            assert not self.season.asked.faults, self.season.asked.faults

    async def expect_refusal(self, what: str, code: str, work: Awaitable[Any]) -> None:
        """Check that a request is refused with a code."""
        assert await work is None, what
        self.refused[f"{what} {code}"] += 1
        assert self.season.asked.refused == self.refused

    async def tick(
        self, contest: str, problem: str, count: int, victim: str, *, is_seen: bool
    ) -> None:
        """Let people submit, kill a process meanwhile, and wait for the verdicts."""
        season = self.season
        among = sorted(season.finalists[contest]) if problem == "last-one" else ()
        submitting = season.submit_some(contest, problem, count, among)
        if victim:
            await asyncio.gather(submitting, self._kill(victim))
        else:
            await submitting
        await season.drain()
        if is_seen:
            await self.look(contest)

    async def _kill(self, victim: str) -> None:
        await asyncio.sleep(KILL_AFTER_S)
        self.killed[victim] += 1
        if victim == AGENT_NAMES:
            assert self.judges.process is not None
            self.judges.process.kill()
            self.judges.process.wait()
            self.judges.start()
        else:
            kill(self.season.running, victim)

    async def run(self, *words: str) -> CommandOutput:
        """Run `warpboard` with these words, beside few others."""
        async with self._running:
            return await self.season.running.run_command(*words)

    async def audit(self, contest: str, *options: str) -> CommandOutput:
        """Audit a contest, as an operator does."""
        return await self.run("server", "audit", "--contest", contest, *options)

    async def look(self, contest: str) -> None:
        """Read the standing as an organiser and as everybody, and count both again."""
        at = self.season.running.clock.now()
        organiser = await self.season.standing(contest, ORGANISER)
        everybody = await self.season.standing(contest, None)
        self.looks.append(Look(contest, at, organiser, everybody))
        self.ties += compare_standing(self.season, contest, organiser)
        if everybody["is_hidden"]:
            assert everybody["divisions"] == []
            return
        freeze_at = find_freeze(self.season.contests[contest], at)
        assert (everybody["state"] == "frozen") == (freeze_at is not None)
        compare_standing(self.season, contest, everybody, freeze_at)


def find_freeze(contest: Contest, at: datetime) -> datetime | None:
    """When the freeze began that lasts at an instant, if there is one."""
    began_at = None
    for phase in contest.phases:
        if phase.starts_at <= at:
            began_at = (began_at or phase.starts_at) if phase.ranks == "frozen" else None
    return began_at


def draw(dice: random.Random, problem: ContestProblem, count: int) -> Iterator[datetime]:
    """Yield instants in the window of a problem, one in each of equal parts."""
    part = (problem.ends_at - problem.starts_at) / count
    for number in range(count):
        yield problem.starts_at + part * (number + dice.uniform(0.05, 0.9))


def plan_submissions(story: Story) -> None:
    """Plan when people submit, which process is killed meanwhile, and when somebody looks."""
    dice, season = story.season.dice, story.season
    problems = [
        (slug, problem) for slug, contest in season.contests.items() for problem in contest.problems
    ]
    share = (SUBMISSIONS - FINAL_SUBMISSIONS) // (len(problems) - 1)
    count = max(TICKS_MIN, round(share / TICK_SUBMISSIONS))
    ticks = [
        (slug, problem.slug, instant, own // count)
        for slug, problem in problems
        for own in [FINAL_SUBMISSIONS if problem.round == "finals" else share]
        for instant in draw(dice, problem, count)
    ]
    struck = dict(zip(dice.sample(range(len(ticks)), len(VICTIMS)), VICTIMS, strict=True))
    seen = set(dice.sample(range(len(ticks)), LOOKS))
    for place, (slug, problem_slug, instant, own) in enumerate(ticks):
        tick = partial(story.tick, slug, problem_slug, own, struck.get(place, ""))
        story.at(instant, partial(tick, is_seen=place in seen))


def plan_registration(story: Story) -> None:
    """Plan who registers when, and who does too early."""
    season = story.season
    people = [f"p{number}" for number in range(PEOPLE)]
    for slug, contest in season.contests.items():
        chosen = season.dice.sample(people, round(SHARES[slug] * PEOPLE))
        early = season.ask(
            "early registration",
            "POST",
            f"contests/{slug}/registration",
            chosen[0],
            json={
                "division": contest.divisions[0].slug,
                "terms_digest": contest.terms_digest,
                "declaration": season.declaration(slug, contest.divisions[0].slug),
            },
        )
        story.at(
            contest.starts_at - HOUR,
            lambda early=early: story.expect_refusal(  # type: ignore[misc]
                "early registration", "contest_closed", early
            ),
        )
        story.at(
            contest.starts_at + HOUR,
            lambda slug=slug, chosen=chosen: season.register(slug, chosen),  # type: ignore[misc]
        )


def plan_season(story: Story) -> None:
    """A deadline moves while people submit, an entry is withdrawn, two accounts become one."""
    season, slug = story.season, "kernel-season"

    async def move_deadline() -> None:
        def change(text: str) -> str:
            return text.replace('ends: "2027-04-19 09:00"', 'ends: "2027-04-22 09:00"')

        await asyncio.gather(season.submit_some(slug, "gemm", 10), season.update(slug, change))
        await season.drain()

    async def submit_after_the_old_deadline() -> None:
        await season.submit_some(slug, "gemm", 5)
        await season.drain()

    async def submit_too_late() -> None:
        person = next(iter(season.members[slug]))
        late = season.submit(person, slug, "gemm", what="late")
        await story.expect_refusal("late", "contest_closed", late)

    async def withdraw_the_best() -> None:
        before = await season.standing(slug, None)
        best = find_entries(before, "gemv")[0]
        # What a second account sent while it was part of another one belongs to that one.
        owner = next(sent.contestant for sent in season.sent if sent.number == best["number"])
        await season.need("DELETE", f"submissions/{best['number']}", owner)
        await season.drain()
        after = await season.standing(slug, None)
        assert find_entries(after, "gemv")[0]["number"] != best["number"]

    async def tie_the_best() -> None:
        best = find_entries(await season.standing(slug, None), "dual-gemm")[0]
        owner = next(sent.contestant for sent in season.sent if sent.number == best["number"])
        person = next(name for name in season.members[slug] if name != owner)
        source = season.write_source(best["score_us"])
        sent = await season.submit(person, slug, "dual-gemm", source=source)
        await season.drain()
        assert sent is not None
        shown = await season.standing(slug, None)
        assert find_entries(shown, "dual-gemm")[0]["is_tied"]
        story.ties += compare_standing(season, slug, shown)

    story.at(datetime(2027, 4, 16, tzinfo=UTC), move_deadline)
    story.at(datetime(2027, 4, 20, tzinfo=UTC), submit_after_the_old_deadline)
    story.at(datetime(2027, 4, 22, 17, tzinfo=UTC), submit_too_late)
    story.at(datetime(2027, 5, 2, tzinfo=UTC), tie_the_best)
    story.at(datetime(2027, 5, 4, tzinfo=UTC), withdraw_the_best)


def find_entries(shown: dict[str, Any], problem: str) -> list[dict[str, Any]]:
    """The entries of a problem, best first."""
    entries = [
        entry
        for part in shown["divisions"]
        for row in part["rows"]
        for entry in row["entries"]
        if entry["problem"] == problem
    ]
    return sorted(entries, key=lambda entry: entry["rank"])


def plan_merges(story: Story) -> None:
    """A second account becomes part of one that takes part; another merge is undone."""
    season, slug = story.season, "kernel-season"

    async def merge() -> None:
        person, other = list(season.members[slug])[:2]
        for name in (person, other):
            second = f"second-{name}"
            await season.open_account(second)
            refused = season.ask(
                "merge of a contestant",
                "POST",
                f"admin/participants/{name}/merge",
                headers=season.running.operator,
                json={"into": second, "reason": "one person"},
            )
            await story.expect_refusal("merge of a contestant", "wrong_state", refused)
            code = await season.need("POST", "me/merges/code", second)
            await season.need("POST", "me/merges", name, json={"code": code["code"]})
            season.same[second] = name
            await season.submit(second, slug, "gemv")
        await season.drain()

    async def undo() -> None:
        person = list(season.members[slug])[1]
        second = f"second-{person}"
        await season.need("DELETE", f"me/merges/{second}", person)
        del season.same[second]
        late = season.submit(second, slug, "gemv", what="own again")
        await story.expect_refusal("own again", "not_registered", late)

    story.at(datetime(2027, 3, 16, tzinfo=UTC), merge)
    story.at(datetime(2027, 3, 21, tzinfo=UTC), undo)


def plan_sprint(story: Story) -> None:
    """Teams practise, a captain is disqualified, and a team uses all of its quota."""
    season, slug = story.season, "team-sprint"

    async def practise() -> None:
        people = list(season.members[slug])[:5]
        await season.each(season.submit(person, slug, "moe", "test") for person in people)
        ranked = season.submit(people[0], slug, "moe", what="ranked practice")
        await story.expect_refusal("ranked practice", "contest_closed", ranked)
        await season.drain()

    async def disqualify() -> None:
        shown = await season.standing(slug, None)
        first = shown["divisions"][0]["rows"][0]["contestant"]
        captain = next(
            person
            for person, member in season.members[slug].items()
            if member.team == first and member.is_captain
        )
        await season.need(
            "POST",
            f"contests/{slug}/contestants/disqualify",
            ORGANISER,
            json={"contestant": captain, "reason": "copied a solution"},
        )
        season.out[slug].add(captain)
        sent = season.submit(captain, slug, "mla", what="disqualified")
        await story.expect_refusal("disqualified", "disqualified", sent)

    async def use_up() -> None:
        person = season.who_may(slug, "all-to-all", season.members[slug])[-1]
        team = season.members[slug][person].team
        members = [
            name
            for name, it in season.members[slug].items()
            if it.team == team and name not in season.out[slug]
        ]
        left = season.quota_left(slug, "all-to-all", person)
        tries = left + 4
        sent = await season.each(
            season.submit(members[number % len(members)], slug, "all-to-all", what="quota")
            for number in range(tries)
        )
        assert len([it for it in sent if it]) == left
        season.use_up(slug, "all-to-all", person)
        story.refused["quota quota_exceeded"] += tries - left
        assert season.asked.refused == story.refused
        await season.drain()

    story.at(datetime(2027, 4, 6, tzinfo=UTC), practise)
    story.at(datetime(2027, 4, 25, tzinfo=UTC), disqualify)
    story.at(datetime(2027, 5, 1, 9, tzinfo=UTC), use_up)


def plan_final(story: Story) -> None:
    """The freeze hides what is sent in it, ten are admitted to the final, and ranks are hidden."""
    season, slug = story.season, "grand-final"
    shown: list[dict[str, Any]] = []

    async def freeze() -> None:
        shown.append(shown_essence(await season.standing(slug, None)))

    async def submit_in_freeze() -> None:
        await season.submit_some(slug, "heats", 12)
        await season.drain()
        frozen = await season.standing(slug, None)
        assert frozen["state"] == "frozen"
        assert [shown_essence(frozen)] == shown
        assert shown_essence(await season.standing(slug, ORGANISER)) != shown[0]

    async def admit() -> None:
        early = season.ask("early results", "POST", f"contests/{slug}/results", ORGANISER)
        await story.expect_refusal("early results", "wrong_state", early)
        await season.need("POST", f"contests/{slug}/finalists", ORGANISER, json={})
        (rows,) = count_standing(season, slug, "qualifier").values()
        season.finalists[slug] = {row.contestant for row in rows if row.rank <= FINALISTS}
        assert len(season.finalists[slug]) >= FINALISTS
        await season.drain()
        results = await season.need("GET", f"contests/{slug}/results", ORGANISER)
        accounts = await season.accounts(slug)
        assert {accounts[name] for name in season.finalists[slug]} == {
            it["contestant"] for it in results["finalists"]
        }

    async def submit_uninvited() -> None:
        person = next(name for name in season.members[slug] if name not in season.finalists[slug])
        sent = season.submit(person, slug, "last-one", what="not a finalist")
        await story.expect_refusal("not a finalist", "contest_closed", sent)

    async def look_at_hidden() -> None:
        hidden = await season.standing(slug, None)
        assert (hidden["is_hidden"], hidden["divisions"]) == (True, [])
        assert (await season.standing(slug, ORGANISER))["divisions"][0]["rows"]

    story.at(datetime(2027, 6, 14, 0, 0, 1, tzinfo=UTC), freeze)
    story.at(datetime(2027, 6, 14, 12, tzinfo=UTC), submit_in_freeze)
    story.at(datetime(2027, 6, 15, 12, tzinfo=UTC), admit)
    story.at(datetime(2027, 6, 16, 0, 0, 1, tzinfo=UTC), submit_uninvited)
    story.at(datetime(2027, 6, 16, 23, 59, tzinfo=UTC), look_at_hidden)


def plan_boundaries(story: Story) -> None:
    """A problem closes while people submit: what comes later is refused."""
    season = story.season

    async def close(slug: str, problem: str, ends_at: datetime) -> None:
        clock, until = season.running.clock, time.monotonic() + CLOSE_S_MAX
        people = season.who_may(slug, problem, season.members[slug])
        sent = list[Sent | None]()
        while None not in sent:
            assert time.monotonic() < until, f"{problem} does not close"
            some = season.dice.sample(people, 6)
            submitting = season.each(
                season.submit(person, slug, problem, what="closing") for person in some
            )
            if sent:
                clock.move_to(max(clock.now(), ends_at - timedelta(milliseconds=20)))
            sent += await submitting
        await season.drain()
        accepted = {it.number for it in sent if it}
        story.refused["closing contest_closed"] += len(sent) - len(accepted)
        assert season.asked.refused == story.refused
        assert all(season.ledger.received[number][0] < ends_at for number in accepted)

    for slug, problem in (("open-tracks", "attention"), ("team-sprint", "moe")):
        definition = season.contests[slug].problem(problem)
        assert definition is not None
        ends_at = definition.ends_at
        story.at(ends_at - timedelta(minutes=5), partial(close, slug, problem, ends_at))


def plan_results(story: Story) -> None:
    """Results are proposed, reviewed and confirmed; afterwards people practise."""
    season = story.season
    for slug, contest in season.contests.items():
        review = next(phase for phase in contest.phases if phase.kind == "review")
        archive = next(phase for phase in contest.phases if phase.kind == "archive")

        async def propose(slug: str = slug, contest: Contest = contest) -> None:
            path = f"contests/{slug}/results"
            await season.need("POST", path, ORGANISER)
            await season.drain()
            results = await season.need("GET", path, ORGANISER)
            assert results["state"] == "provisional"
            early = season.ask("early confirmation", "POST", f"{path}/confirm", ORGANISER)
            await story.expect_refusal("early confirmation", "wrong_state", early)
            winners = [it for it in results["places"] if it["place"] <= contest.podium]
            for winner in winners:
                for item in REVIEW_ITEMS:
                    body = {"contestant": winner["contestant"], "item": item, "is_passed": True}
                    await season.need("POST", f"contests/{slug}/reviews", ORGANISER, json=body)

        async def confirm(slug: str = slug, contest: Contest = contest) -> None:
            path = f"contests/{slug}/results"
            await eventually(partial(are_repeated, season, path))
            await season.need("POST", f"{path}/confirm", ORGANISER)
            await season.drain()
            results = await season.need("GET", path, ORGANISER)
            assert results["state"] == "final"
            compare_results(season, slug, await season.accounts(slug), results)
            require_repetitions(contest, results)

        async def practise(slug: str = slug, contest: Contest = contest) -> None:
            standing = await season.standing(slug, None)
            assert standing["state"] == "final"
            problem = contest.problems[-1].slug
            people = [*season.dice.sample(list(season.members[slug]), 3), "an-outsider"]
            modes = archive_modes(contest)
            if not modes:
                sent = season.submit(people[0], slug, problem, what="archived")
                await story.expect_refusal("archived", "contest_closed", sent)
                return
            practised = await season.each(season.submit(name, slug, problem) for name in people)
            await season.drain()
            assert shown_essence(await season.standing(slug, None)) == shown_essence(standing)
            practice = await season.standing(slug, None, round="practice")
            rows = practice["divisions"][0]["rows"]
            shown = {entry["number"] for row in rows for entry in row["entries"]}
            assert shown == {it.number for it in practised if it.is_right}

        story.at(review.starts_at + HOUR, propose)
        confirm_at = review.starts_at + 2 * HOUR + contest.appeal_hours * HOUR
        story.at(confirm_at, confirm)
        story.at(max(archive.starts_at, confirm_at) + DAY, practise)


def plan_withdrawal(story: Story) -> None:
    """A source that everybody could read is withdrawn after the results are final."""
    season, slug = story.season, "kernel-season"

    async def withdraw() -> None:
        before = await season.need("GET", f"contests/{slug}/results")
        # Not one of a winner.
        number = find_entries(await season.standing(slug, None), "grouped-gemm")[-1]["number"]
        owner = next(sent.contestant for sent in season.sent if sent.number == number)
        path = f"submissions/{number}?source=true"
        assert "custom_kernel" in (await season.need("GET", path, "an-outsider"))["source"]
        await story.look(slug)
        await season.need("DELETE", f"submissions/{number}", owner)
        await season.drain()
        after = await season.need("GET", f"contests/{slug}/results")
        assert (after["state"], after["places"]) == ("final", before["places"])
        hidden = season.ask("withdrawn source", "GET", path, "an-outsider")
        await story.expect_refusal("withdrawn source", "no_access", hidden)

    story.at(datetime(2027, 10, 4, tzinfo=UTC), withdraw)


async def are_repeated(season: Season, path: str) -> bool:
    """Whether no run of a winner waits to be repeated."""
    results = await season.need("GET", path, ORGANISER)
    return all(place["repetitions"] != "waiting" for place in results["places"])


def require_repetitions(contest: Contest, results: Mapping[str, Any]) -> None:
    """Each entry of a winner was confirmed on as many agents as the contest asks for."""
    winners = [place for place in results["places"] if place["place"] <= contest.podium]
    entries = [entry for winner in winners for entry in winner["entries"]]
    assert entries
    count, fresh = contest.confirm_agents, set()
    for entry in entries:
        assert entry["state"] == "confirmed", entry
        assert entry["confirmation"].startswith(f"confirmed by {count} of {count} agents ("), entry
        if entry["is_fresh"]:
            fresh.add(entry["problem"])
    assert fresh == {problem.slug for problem in contest.problems if problem.is_confirmed_fresh}


def archive_modes(contest: Contest) -> Sequence[str]:
    """What may be submitted once a contest is over."""
    return next(phase.modes for phase in contest.phases if phase.kind == "archive")


@asynccontextmanager
async def open_season(folder: Path) -> AsyncIterator[Story]:
    """A platform with four contests, judged by agents that run nothing."""
    running = ClockedRunning(folder / "home", BEGINS_AT, SETTINGS, has_agent=False)
    running.up()
    asked, dice = Asked(), random.Random(SEED)
    try:
        async with client(running.url) as http:
            nc = await connect(running.bus_login(), "season")
            ledger = Ledger(NatsLog(nc))
            following = asyncio.create_task(ledger.follow())
            season = Season(running, Asker(http, asked), ledger, dice)
            judges = start_judges(running)
            try:
                for name in names(AGENT_NAMES, AGENTS):
                    path, body = f"admin/agents/{name}/enroll", enrolment(name)
                    await season.need("POST", path, headers=running.operator, json=body)
                judges.start()
                await season.open_account(ORGANISER)
                for slug in SHARES:
                    await season.publish(slug)
                yield Story(season, judges)
            finally:
                judges.stop()
                following.cancel()
                with suppress(asyncio.CancelledError):
                    await following
                await nc.close()
    finally:
        running.end()


def start_judges(running: ClockedRunning) -> Extra:
    """The agents, on the clock of the platform."""
    told = {
        "NATS_URL": running.bus_login().url,
        "KEYS": str(running.folder / "keys"),
        "COUNT": str(AGENTS),
        "NAMES": AGENT_NAMES,
        "GPU": "CPU",
        "HEARTBEAT_S": "1",
        "WRONG_SHARE": str(WRONG_SHARE),
    }
    environ = os.environ | {f"WARPBOARD_NOOP_{key}": value for key, value in told.items()}
    command = running.command("bench.noop_agent")
    return Extra(Launch(command, running.folder.parent / "judges.log", environ=environ))


async def test_four_contests_run_whole_and_their_standings_are_derived_again(
    servers: None,  # noqa: ARG001
    tmp_path: Path,
) -> None:
    began = time.monotonic()
    async with open_season(tmp_path) as story:
        season = story.season
        for plan in (
            *(plan_registration, plan_submissions, plan_season, plan_merges, plan_sprint),
            *(plan_final, plan_boundaries, plan_results, plan_withdrawal),
        ):
            plan(story)
        await story.play()
        played_s = time.monotonic() - began
        check_ledger(season)
        check_repetitions(season.ledger)
        for slug in SHARES:
            await check_count(season, slug)
        audits_s = await check_looks(story)
        await asyncio.gather(check_ends(story), check_release(story))
        sent = len(season.sent)
        log.warning(
            "%s people, %s submissions in %.0f s (%.1f/s), %s refused, %s retries, killed: %s; "
            "%s looks audited in %.0f s each",
            *(PEOPLE, sent, played_s, sent / played_s, season.asked.refused.total()),
            *(season.asked.retries, dict(story.killed), len(story.looks), audits_s),
        )
        assert set(story.killed) == set(VICTIMS)
        assert story.ties["tied entries"] > 0
        assert story.ties["broken ties"] > 0


def check_ledger(season: Season) -> None:
    """Each accepted submission is in the log, and ended once, as its source says."""
    ledger = season.ledger
    assert sorted(ledger.received) == sorted(sent.number for sent in season.sent)
    for sent in season.sent:
        (end,) = ledger.ends[sent.number]
        assert end.outcome == ("passed" if sent.is_right else "failed"), sent
        _, received = ledger.received[sent.number]
        assert (received.problem, received.mode) == (sent.problem, sent.mode)
        assert received.source.digest == sent.digest


def check_repetitions(ledger: Ledger) -> None:
    """Each repetition ran on an agent of its own, and drew other hidden sizes than the run."""
    assert ledger.judged.keys() == ledger.requested.keys()
    fresh = 0
    for id_, request in ledger.requested.items():
        judged = ledger.judged[id_]
        if judged.code == "given_up":
            # The clock moved beyond its deadline; there was another one.
            continue
        assert (judged.code, judged.result is None) == ("confirmed", False), judged
        assert judged.result is not None
        assert judged.result.run is not None
        assert judged.agent not in (request.agent, *request.other_agents)
        drawn = FAMILY.draw(ledger.keys[request.run])
        assert drawn != FAMILY.draw(ledger.keys[judged.result.run])
        fresh += request.is_fresh
    assert fresh


async def check_count(season: Season, slug: str) -> None:
    """Everybody's standing of each round equals a second count."""
    for round_ in {problem.round for problem in season.contests[slug].problems}:
        compare_standing(season, slug, await season.standing(slug, None, round=round_))


async def check_looks(story: Story) -> float:
    """An audit of each instant gives what was shown then; return the seconds of an audit."""
    assert len(story.looks) >= LOOKS
    began, season = time.monotonic(), story.season
    await asyncio.gather(*(check_look(story, look) for look in story.looks))
    audit_s = (time.monotonic() - began) / len(story.looks)
    for look in story.looks:
        again = await season.standing(look.contest, ORGANISER, as_of=look.at.isoformat())
        assert shown_essence(again) == shown_essence(look.organiser)
    return audit_s


async def check_look(story: Story, look: Look) -> None:
    """The command line's audit of an instant gives what organisers were shown then."""
    round_ = look.organiser["round"]
    output = await story.audit(
        *(look.contest, "--as-of", look.at.isoformat(), "--round", round_, "--json")
    )
    assert output.code == 0, output
    report = msgspec.json.decode(output.out, type=ContestAuditReport)
    assert report.is_clean, report.findings
    assert (report.as_of, report.round) == (look.at, round_)
    assert essence(report.divisions) == shown_essence(look.organiser)
    if look.everybody["state"] != "frozen" and not look.everybody["is_hidden"]:
        assert shown_essence(look.everybody) == shown_essence(look.organiser)


async def check_ends(story: Story) -> None:
    """An audit of each contest as it is now finds its standing and its final results equal."""
    early = (BEGINS_AT - DAY).isoformat()
    refused = await story.audit("kernel-season", "--as-of", early)
    assert (refused.code, refused.out) == (2, ""), refused
    outputs = await asyncio.gather(*(story.audit(slug) for slug in SHARES))
    for slug, output in zip(SHARES, outputs, strict=True):
        assert output.code == 0, output
        lines = output.out.splitlines()
        assert lines[-1] == "clean: the standing is what the log says, and the log is untouched"
        assert any(re.fullmatch(r"  live   equal at event \d+", line) for line in lines), slug
        results = [line for line in lines if line.startswith("results: announced by event ")]
        assert len(results) == 1, lines
        assert ", confirmed by event " in results[0]


async def check_release(story: Story) -> None:
    """A release has the source of each ranked submission, but of none that was withdrawn."""
    season = story.season
    release = season.running.folder.parent / "kernels"
    output = await story.run("archive", "build", str(release))
    assert output.code == 0, output
    ranked = {sent.number for sent in season.sent if sent.mode == "ranked"}
    assert len(ranked & season.ledger.withdrawn) == 2
    for table, column in (("sources", "submission"), ("submissions", "number")):
        assert read_numbers(release, table, column) == ranked - season.ledger.withdrawn


def read_numbers(release: Path, table: str, column: str) -> set[int]:
    """The submissions that a table of a release has."""
    import polars as pl

    rows = pl.scan_parquet(release / "data" / table / "**/*.parquet")
    return set(rows.select(column).collect()[column])
