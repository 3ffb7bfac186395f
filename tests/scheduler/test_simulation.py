"""A world in which everybody may die at any moment: in the end each submission has one end."""

import asyncio
import random
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.domain.board import Board
from scheduler.domain.fold import evolve
from scheduler.domain.moves import Offer, World
from scheduler.domain.rules import due
from shared import events, subjects
from shared.event_log import Conflict, New
from shared.events import Fact, Requires
from shared.memory import MemoryLog
from shared.states import DECISION_GRACE_S
from shared.wire import Stamp, seal
from tests.scheduler.histories import (
    T0,
    completed,
    failed,
    offering,
    ranked_end,
    received,
    started,
)
from tests.support.writers import written

STEP_S = 5.0
STEPS = 60
LIVE_S = 240.0
HOSTS = {"a1": "h", "a2": "h", "a3": "i"}


@dataclass
class Machine:
    """An agent that lives, works, fails, hangs and dies as the dice say."""

    name: str
    session: int = 0
    is_alive: bool = True
    agg: str = ""
    version: int = 0
    is_member: bool = False

    @property
    def offer(self) -> Offer:
        said = offering(self.name, is_free=not self.agg, host=HOSTS[self.name])
        return Offer(self.name, str(self.session), said.is_free, said.registration)


@dataclass
class Sim:
    """The log, its clock, two schedulers and their machines."""

    dice: random.Random
    log: MemoryLog = field(default_factory=MemoryLog)
    now: datetime = T0
    boards: list[Board] = field(default_factory=lambda: [Board(), Board()])
    machines: list[Machine] = field(default_factory=lambda: [Machine(name) for name in HOSTS])
    count: int = 0

    async def say(self, agg: str, fact: Fact, expected: int | None) -> int:
        """Append, 0 on a conflict."""
        self.count += 1
        agg, actor = written(agg, fact)
        stamp = Stamp(f"said-{self.count}", self.now, actor, "", "")
        try:
            return await self.log.append(New(seal(fact, agg, stamp), expected))
        except Conflict:
            return 0

    async def receive(self, name: str) -> None:
        asked = Requires(count=self.dice.choice([1, 1, 2]))
        until = self.now + timedelta(seconds=LIVE_S)
        one = received(self.dice.choice("abc"), deadline_at=until, requires=asked)
        await self.say(subjects.submission(name), one, 0)

    async def cancel(self, name: str) -> None:
        """Somebody wants a submission to end, unless it has."""
        agg = subjects.submission(name)
        history = await self.log.history(agg)
        if history and not any(event.fact.is_terminal for event in history):
            wish = events.SubmissionCancelRequested(reason="never mind")
            await self.say(agg, wish, history[-1].seq)

    async def schedule(self, place: int) -> None:
        """One of the schedulers reads a part of the log, and says some of what is due."""
        board = self.boards[place]
        for event in self.log.since(board.seq)[: self.dice.randint(1, 60)]:
            board = evolve(board, event)
        offers = {one.name: one.offer for one in self.machines if one.is_alive}
        for move in list(due(board, World(self.now, offers))):
            said = [
                New(seal(s.fact, s.agg, Stamp(s.id, self.now, "", "", "")), s.expected)
                for s in move
            ]
            try:
                if len(said) == 1:
                    await self.log.append(said[0])
                else:
                    await self.log.append_all(said)
            except Conflict:
                continue
        if self.dice.random() < 0.02:
            self.boards[place] = Board()

    async def work(self, one: Machine) -> None:
        """A machine takes an order, goes on with its run, or dies."""
        if self.dice.random() < 0.05:
            one.is_alive, one.agg = not one.is_alive, ""
            one.session += 1
        if not one.is_alive:
            return
        if one.agg:
            await self._go_on(one)
        else:
            self._take(one)

    def _take(self, one: Machine) -> None:
        for event in self.log.since(0):
            order = event.envelope.agg.startswith(f"run.{one.name}.") and event.fact
            is_new = isinstance(order, events.JobAssigned) and order.session == str(one.session)
            if isinstance(order, events.JobAssigned) and is_new and not self._is_over(event):
                one.agg, one.version = event.envelope.agg, event.seq
                one.is_member = bool(order.gang) and order.gang[0] != one.name

    def _is_over(self, order: object) -> bool:
        agg = order.envelope.agg  # type: ignore[attr-defined]
        return any(
            type(event.fact).is_terminal
            for event in self.log.since(0)
            if subjects.history_of(event.envelope.agg) == agg
        )

    async def _go_on(self, one: Machine) -> None:
        order = next(event for event in self.log.since(0) if event.envelope.agg == one.agg)
        if self._is_over(order):
            one.agg = ""
        elif not one.is_member and (fact := self._next(one, order.seq)) is not None:
            one.version = await self.say(one.agg, fact, one.version)
            if not one.version or type(fact).is_terminal:
                one.agg = ""

    def _next(self, one: Machine, token: int) -> Fact | None:
        """Nothing for a while, a beginning, a verdict or a failure."""
        dice = self.dice.random()
        if dice < 0.4:
            return None
        if one.version == token and dice < 0.9:
            return started()
        return failed(self.dice.choice(["noisy", "supervisor"])) if dice < 0.6 else completed()

    async def rank(self) -> None:
        """Ranker decides on some of the verdicts, some day."""
        for board in self.boards[:1]:
            for job in list(board.jobs.values()):
                submission = board.submissions.get(job.submission)
                if job.is_over and submission is not None and self.dice.random() < 0.2:
                    agg = subjects.submission(submission.id)
                    await self.say(agg, ranked_end(), submission.version)


async def simulate(seed: int) -> MemoryLog:
    """So many steps with new submissions, then until nothing can be open any more."""
    sim = Sim(random.Random(seed))
    quiet = round((LIVE_S + 2 * DECISION_GRACE_S) / STEP_S) + 10
    for step in range(STEPS + quiet):
        sim.now += timedelta(seconds=STEP_S)
        if step < STEPS and sim.dice.random() < 0.4:
            await sim.receive(f"s{step}")
        if sim.dice.random() < 0.1:
            await sim.cancel(f"s{sim.dice.randrange(STEPS)}")
        for one in sim.machines:
            await sim.work(one)
        await sim.schedule(sim.dice.randrange(2))
        await sim.rank()
    return sim.log


@settings(max_examples=15)
@given(st.integers(0, 2**32))
def test_every_submission_job_and_run_ends_once_whoever_dies(seed: int) -> None:
    log = asyncio.run(simulate(seed))
    ends: dict[str, list[str]] = {}
    for event in log.since(0):
        agg, fact = subjects.history_of(event.envelope.agg), event.fact
        if agg.partition(".")[0] in ("submission", "job", "run"):
            assert not ends.get(agg), f"{agg} went on after its end with {event.envelope.type}"
            ends.setdefault(agg, []).extend([event.envelope.type] if fact.is_terminal else [])
    assert {agg: names for agg, names in ends.items() if len(names) != 1} == {}
