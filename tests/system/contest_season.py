"""A season of contests: its people, what they send, and what a second count makes of it.

People are real HTTP clients of a platform on a simulated clock. No-op agents answer each source
with a verdict and a time that follow from it, so the test knows them, too.
"""

import asyncio
import hashlib
import random
import re
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from math import exp, fsum, log
from typing import Any, NamedTuple

import httpx
import msgspec
import yaml
from bench.noop_agent import time_us, verdict_of

from harness.hidden_sizes import read_family
from harness.vocabulary import PASSED
from shared.api.contest_standings import DivisionStanding
from shared.contests.definition import Contest, Phase, phase_at
from shared.event_log import EventLog, RecordedEvent
from shared.events import (
    ConfirmationJudged,
    ConfirmationRequested,
    RunCompleted,
    SubmissionFinished,
    SubmissionReceived,
    SubmissionWithdrawn,
)
from shared.subjects import last_token
from tests.support.clocked_platform import ClockedRunning
from tests.support.people import headers_of
from tests.support.platform import ROOT
from tests.support.waits import eventually
from tests.system.chaos.asking import Asked, Asker

CONTESTS = {
    path.read_text().partition("slug: ")[2].split()[0]: path.read_text()
    for path in sorted((ROOT / "tests" / "problems" / "contests").glob("*.yml"))
}
PROBLEM = ROOT / "bench" / "work"
# Two of the contests confirm winners with fresh hidden sizes.
HIDDEN = b"hidden:\n  tests:\n    count: 2\n    args: {size: {from: 16, to: 1000000}}\n"
FAMILY = read_family("tests", yaml.safe_load(HIDDEN)["hidden"]["tests"])
TERMS = "Be fair.\n"
ORGANISER = "olga"
AT_ONCE_MAX = 12
WRONG_SHARE = 0.1
TEST_SHARE = 0.15
DRAIN_S_MAX = 180.0
UNLIMITED = 1_000_000
# Two times that differ by less than this share are tied.
NEAR = 0.002
TRIES_MAX = 1_000_000
KERNEL = "def custom_kernel(data):\n    data[-1].copy_(data[0])\n    return data[-1]\n"


class Sent(NamedTuple):
    """A submission that the platform accepted, as its sender knows it.

    `contestant` is the person or the team that it was sent for.
    """

    number: int
    person: str
    contestant: str
    contest: str
    problem: str
    mode: str
    digest: str

    @property
    def is_right(self) -> bool:
        """Whether agents let it pass."""
        return verdict_of(self.digest, WRONG_SHARE) == PASSED

    @property
    def score_us(self) -> float:
        """The time that agents measure."""
        return score_us(self.digest)


@cache
def score_us(digest: str) -> float:
    """The time of a source: the geometric mean of its processes."""
    times = time_us(digest)
    return exp(fsum(map(log, times)) / len(times))


@dataclass
class Ledger:
    """What became of submissions and repetitions by the log, which it follows from outside.

    `keys` has the key of each run, from which its hidden sizes follow.
    """

    log: EventLog
    received: dict[int, tuple[datetime, SubmissionReceived]] = field(default_factory=dict)
    ends: dict[int, list[SubmissionFinished]] = field(default_factory=lambda: defaultdict(list))
    withdrawn: set[int] = field(default_factory=set)
    keys: dict[str, bytes] = field(default_factory=dict)
    requested: dict[str, ConfirmationRequested] = field(default_factory=dict)
    judged: dict[str, ConfirmationJudged] = field(default_factory=dict)
    _numbers: dict[str, int] = field(default_factory=dict)

    async def follow(self) -> None:
        """Read the log until cancelled."""
        feed = self.log.follow(0)
        try:
            while True:
                for event in await feed.take():
                    self._read(event)
        finally:
            await feed.close()

    def _read(self, event: RecordedEvent) -> None:
        name = last_token(event.envelope.aggregate)
        match event.fact:
            case SubmissionReceived() as fact:
                self._numbers[name] = event.seq
                self.received[event.seq] = event.envelope.at, fact
            case SubmissionFinished() as fact:
                self.ends[self._numbers[name]].append(fact)
            case SubmissionWithdrawn():
                self.withdrawn.add(self._numbers[name])
            case RunCompleted() as fact:
                self.keys[name] = bytes.fromhex(fact.key)
            case ConfirmationRequested() as fact:
                self.requested[name] = fact
            case ConfirmationJudged() as fact:
                self.judged[name] = fact


@dataclass
class Member:
    """How a person takes part in a contest."""

    division: str
    team: str = ""
    is_captain: bool = False


@dataclass
class Season:
    """A platform, the contests on it, who takes part in them, and all that was sent."""

    running: ClockedRunning
    asker: Asker
    ledger: Ledger
    dice: random.Random
    contests: dict[str, Contest] = field(default_factory=dict)
    members: dict[str, dict[str, Member]] = field(default_factory=dict)
    sent: list[Sent] = field(default_factory=list)
    out: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    # Second accounts that are part of another one, which then has what they send.
    same: dict[str, str] = field(default_factory=dict)
    # Who may take part in the finals, where these are limited.
    finalists: dict[str, set[str]] = field(default_factory=dict)
    _uses: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    _turn: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE_MAX))

    @property
    def asked(self) -> Asked:
        """All answers so far."""
        return self.asker.asked

    async def ask(
        self,
        what: str,
        method: str,
        path: str,
        who: str | None = None,
        **request: Any,
    ) -> dict[str, Any] | None:
        """The answer to a request of a person; None if it was refused. Nobody is `who` None."""
        headers = {**headers_of(who)} if who else {}
        headers |= request.pop("headers", {})
        url = f"{self.running.url}/v1/{path}"
        async with self._turn:
            built = httpx.Request(method, url, headers=headers, **request)
            answer = await self.asker.ask(what, built)
        return None if answer is None else answer.json()

    async def need(self, method: str, path: str, who: str | None = None, **request: Any) -> Any:
        """The answer to a request that must not be refused."""
        answer = await self.ask(f"{method} {path}", method, path, who, **request)
        assert answer is not None, (self.asked.refused, self.asked.faults)
        return answer

    async def open_account(self, name: str) -> None:
        """Let an operator register a participant."""
        body = {"name": name, "reason": "a season"}
        headers = self.running.operator
        await self.need("POST", "admin/participants", headers=headers, json=body)

    async def each(self, work: Iterable[Awaitable[Any]]) -> list[Any]:
        """Do all of it beside each other; the first failure ends all."""
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_run(one)) for one in work]
        return [task.result() for task in tasks]

    async def publish(self, contest: str) -> None:
        """Publish a contest with its problems."""
        text = CONTESTS[contest]
        for slug in re.findall(r"slug: ([a-z-]+)", text.partition("problems:")[2]):
            await self._publish_problem(slug)
        body = {"contest_yml": text, "files": {"terms.md": TERMS}, "reason": "a season"}
        await self.need("POST", "contests", headers=self.running.operator, json=body)
        await self.reload(contest)

    async def _publish_problem(self, slug: str) -> None:
        files = [
            ("files", (path.name, path.read_bytes()))
            for path in sorted(PROBLEM.iterdir())
            if path.is_file()
        ]
        files.append(("files", ("warpboard.yml", HIDDEN)))
        data = {"slug": slug, "unchecked": "agents that run nothing judge it"}
        await self.need("POST", "problems", headers=self.running.operator, data=data, files=files)

    async def reload(self, contest: str) -> None:
        """Read the newest definition of a contest."""
        details = await self.need("GET", f"contests/{contest}")
        self.contests[contest] = msgspec.convert(details["contest"], Contest)

    async def update(self, contest: str, change: Callable[[str], str]) -> None:
        """Let the organiser change the file of a contest."""
        text = change(CONTESTS[contest])
        body = {"contest_yml": text, "files": {"terms.md": TERMS}, "reason": "more time"}
        answer = await self.need("POST", "contests", ORGANISER, json=body | {"update": True})
        assert answer["moved"]
        await self.reload(contest)

    async def register(self, contest: str, people: Sequence[str]) -> None:
        """Let people accept the terms, and form teams where there are any."""
        definition = self.contests[contest]
        divisions = definition.divisions
        self.members[contest] = {
            person: Member(divisions[place % len(divisions)].slug)
            for place, person in enumerate(people)
        }
        digest = definition.terms_digest
        await self.each(
            self.need(
                "POST",
                f"contests/{contest}/registration",
                person,
                json={
                    "division": member.division,
                    "terms_digest": digest,
                    "declaration": self.declaration(contest, member.division),
                },
            )
            for person, member in self.members[contest].items()
        )
        size = definition.teams.size_max
        if size > 1:
            groups = [people[start : start + size] for start in range(0, len(people), size)]
            await self.each(self._form_team(contest, group) for group in groups)

    def declaration(self, contest: str, division: str) -> dict[str, str]:
        """What a division demands."""
        found = self.contests[contest].division(division)
        assert found is not None
        return dict.fromkeys(found.declare, "a small one")

    async def _form_team(self, contest: str, people: Sequence[str]) -> None:
        captain, *others = people
        path, body = f"contests/{contest}/team", {"name": f"Team of {captain}"}
        team = await self.need("POST", path, captain, json=body)
        await self.each(
            self.need("POST", f"{path}/join", person, json={"code": team["code"]})
            for person in others
        )
        for person in people:
            member = self.members[contest][person]
            member.team, member.is_captain = team["team"], person == captain

    def contestant(self, contest: str, person: str) -> str:
        """The team of a person, or the person."""
        person = self.same.get(person, person)
        member = self.members[contest].get(person)
        return member.team or person if member else ""

    def phase(self, contest: str) -> Phase:
        """The current phase."""
        phase = phase_at(self.contests[contest], self.running.clock.now())
        assert phase is not None
        return phase

    def who_may(self, contest: str, problem: str, among: Iterable[str]) -> list[str]:
        """Those who have quota left for a ranked submission in the current phase."""
        return [
            person
            for person in among
            if person not in self.out[contest] and self.quota_left(contest, problem, person) > 0
        ]

    def quota_left(self, contest: str, problem: str, person: str) -> int:
        """How many ranked submissions a contestant may send to a problem in the current phase."""
        phase = self.phase(contest)
        used = self._uses[self.contestant(contest, person), problem, phase.kind]
        return phase.quotas.get("ranked", UNLIMITED) - used

    def use_up(self, contest: str, problem: str, person: str) -> None:
        """Remember that a contestant has nothing left."""
        left = self.quota_left(contest, problem, person)
        self._uses[self.contestant(contest, person), problem, self.phase(contest).kind] += left

    def write_source(self, near_us: float = 0.0) -> bytes:
        """A new source; one that passes and is tied to `near_us`, if given."""
        for _ in range(TRIES_MAX):
            # Comments do not make another source.
            source = f"SEED = {self.dice.getrandbits(64)}\n\n\n{KERNEL}".encode()
            if not near_us:
                return source
            digest = hashlib.sha256(source).hexdigest()
            is_near = abs(log(score_us(digest) / near_us)) < NEAR
            if is_near and verdict_of(digest, WRONG_SHARE) == PASSED:
                return source
        raise AssertionError(f"no source takes about {near_us} us")

    async def submit(
        self,
        person: str,
        contest: str,
        problem: str,
        mode: str = "ranked",
        what: str = "submit",
        *,
        source: bytes = b"",
    ) -> Sent | None:
        """Send a source, by default a new one; None if it was refused."""
        source = source or self.write_source()
        key = hashlib.sha256(source).hexdigest()
        answer = await self.ask(
            what,
            "POST",
            "submissions",
            person,
            data={"problem": problem, "mode": mode, "licence": "MIT"},
            files={"file": ("kernel.py", source)},
            headers={"Idempotency-Key": key[:32]},
        )
        if answer is None:
            return None
        number = answer["submissions"][0]["number"]
        contestant = self.contestant(contest, person)
        sent = Sent(number, person, contestant, contest, problem, mode, key)
        self.sent.append(sent)
        return sent

    async def submit_some(
        self, contest: str, problem: str, count: int, among: Sequence[str] = ()
    ) -> None:
        """Let random people submit, never more than their quota allows."""
        among = among or list(self.members[contest])
        kind, work = self.phase(contest).kind, []
        for _ in range(count):
            mode = "test" if self.dice.random() < TEST_SHARE else "ranked"
            people = self.who_may(contest, problem, among)
            if not people:
                break
            person = self.dice.choice(people)
            if mode == "ranked":
                self._uses[self.contestant(contest, person), problem, kind] += 1
            work.append(self.submit(person, contest, problem, mode))
        await self.each(work)

    async def drain(self) -> None:
        """Wait until all that was accepted has ended, and readers are shown it."""
        await eventually(
            lambda: all(sent.number in self.ledger.ends for sent in self.sent), DRAIN_S_MAX
        )
        await eventually(self._is_caught_up, DRAIN_S_MAX)

    async def _is_caught_up(self) -> bool:
        last = await self.ledger.log.last()
        slug = next(iter(self.contests))
        shown = await self.need("GET", f"contests/{slug}/results")
        return bool(shown["as_of"] >= last and last == await self.ledger.log.last())

    async def accounts(self, contest: str) -> dict[str, str]:
        """The accounts of a contest's people by name."""
        rows = await self.need("GET", f"contests/{contest}/contestants")
        return {
            member["participant"]: member["participant_id"]
            for row in rows["items"]
            for member in row["members"]
        }

    async def standing(self, contest: str, who: str | None, **query: str) -> dict[str, Any]:
        """The standing that a person is shown."""
        path = f"contests/{contest}/standing"
        found: dict[str, Any] = await self.need("GET", path, who, params=query)
        return found


async def _run(work: Awaitable[Any]) -> Any:
    return await work


def essence(divisions: Iterable[DivisionStanding]) -> dict[str, Any]:
    """What is compared of a standing: all but names."""
    return {
        part.division: [
            {
                "rank": row.rank,
                "is_tied": row.is_tied,
                "points": row.points,
                "contestant": row.contestant,
                "members": row.members,
                "is_finalist": row.is_finalist,
                "entries": sorted(
                    (
                        *(entry.problem, entry.number, entry.rank, entry.is_tied),
                        *(round(entry.score_us, 6), entry.points, entry.is_counted),
                    )
                    for entry in row.entries
                ),
            }
            for row in part.rows
        ]
        for part in divisions
    }


def shown_essence(shown: Mapping[str, Any]) -> dict[str, Any]:
    """The same of an answer."""
    return essence(msgspec.convert(shown["divisions"], list[DivisionStanding]))
