"""A world in which everybody may die at any moment: in the end each submission has one end."""

import asyncio
import random
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.domain.fold import evolve
from scheduler.domain.rules import decide
from scheduler.domain.state import Offer, SchedulerState, World
from shared import events, subjects
from shared.event_log import Conflict, NewEvent
from shared.events import Fact, Requires
from shared.states import DECISION_GRACE_S
from shared.wire import EventMetadata, make_envelope
from tests.scheduler.histories import (
    T0,
    completed,
    failed,
    offering,
    ranked_end,
    received,
    started,
)
from tests.support.memory import MemoryLog
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
    aggregate: str = ""
    version: int = 0
    is_member: bool = False

    @property
    def offer(self) -> Offer:
        offer = offering(self.name, is_free=not self.aggregate, host=HOSTS[self.name])
        return Offer(self.name, str(self.session), offer.is_free, offer.registration)


@dataclass
class Sim:
    """The log, its clock, two schedulers and their machines."""

    dice: random.Random
    log: MemoryLog = field(default_factory=MemoryLog)
    now: datetime = T0
    boards: list[SchedulerState] = field(
        default_factory=lambda: [SchedulerState(), SchedulerState()]
    )
    machines: list[Machine] = field(default_factory=lambda: [Machine(name) for name in HOSTS])
    count: int = 0

    async def say(self, aggregate: str, fact: Fact, expected: int | None) -> int:
        """Append, 0 on a conflict."""
        self.count += 1
        aggregate, actor = written(aggregate, fact)
        stamp = EventMetadata(f"said-{self.count}", self.now, actor, "", "")
        try:
            return await self.log.append(NewEvent(make_envelope(fact, aggregate, stamp), expected))
        except Conflict:
            return 0

    async def receive(self, name: str) -> None:
        requires = Requires(count=self.dice.choice([1, 1, 2]))
        until = self.now + timedelta(seconds=LIVE_S)
        submission = received(self.dice.choice("abc"), deadline_at=until, requires=requires)
        await self.say(subjects.submission(name), submission, 0)

    async def cancel(self, name: str) -> None:
        """Somebody wants a submission to end, unless it has."""
        aggregate = subjects.submission(name)
        history = await self.log.history(aggregate)
        if history and not any(event.fact.is_terminal for event in history):
            wish = events.SubmissionCancelRequested(reason="never mind")
            await self.say(aggregate, wish, history[-1].seq)

    async def schedule(self, place: int) -> None:
        """One of the schedulers reads a part of the log, and says some of what is due."""
        state = self.boards[place]
        for event in self.log.since(state.seq)[: self.dice.randint(1, 60)]:
            state = evolve(state, event)
        offers = {machine.name: machine.offer for machine in self.machines if machine.is_alive}
        for move in list(decide(state, World(self.now, offers))):
            appended = [
                NewEvent(
                    make_envelope(s.fact, s.aggregate, EventMetadata(s.id, self.now, "", "", "")),
                    s.expected,
                )
                for s in move
            ]
            try:
                if len(appended) == 1:
                    await self.log.append(appended[0])
                else:
                    await self.log.append_all(appended)
            except Conflict:
                continue
        if self.dice.random() < 0.02:
            self.boards[place] = SchedulerState()

    async def work(self, machine: Machine) -> None:
        """A machine takes an order, goes on with its run, or dies."""
        if self.dice.random() < 0.05:
            machine.is_alive, machine.aggregate = not machine.is_alive, ""
            machine.session += 1
        if not machine.is_alive:
            return
        if machine.aggregate:
            await self._go_on(machine)
        else:
            self._take(machine)

    def _take(self, machine: Machine) -> None:
        for event in self.log.since(0):
            order = event.envelope.aggregate.startswith(f"run.{machine.name}.") and event.fact
            is_new = isinstance(order, events.JobAssigned) and order.session == str(machine.session)
            if isinstance(order, events.JobAssigned) and is_new and not self._is_over(event):
                machine.aggregate, machine.version = event.envelope.aggregate, event.seq
                machine.is_member = bool(order.gang) and order.gang[0] != machine.name

    def _is_over(self, order: object) -> bool:
        aggregate = order.envelope.aggregate  # type: ignore[attr-defined]
        return any(
            type(event.fact).is_terminal
            for event in self.log.since(0)
            if subjects.history_of(event.envelope.aggregate) == aggregate
        )

    async def _go_on(self, machine: Machine) -> None:
        order = next(
            event for event in self.log.since(0) if event.envelope.aggregate == machine.aggregate
        )
        if self._is_over(order):
            machine.aggregate = ""
        elif not machine.is_member and (fact := self._next(machine, order.seq)) is not None:
            machine.version = await self.say(machine.aggregate, fact, machine.version)
            if not machine.version or type(fact).is_terminal:
                machine.aggregate = ""

    def _next(self, machine: Machine, token: int) -> Fact | None:
        """Nothing for a while, a beginning, a verdict or a failure."""
        dice = self.dice.random()
        if dice < 0.4:
            return None
        if machine.version == token and dice < 0.9:
            return started()
        return failed(self.dice.choice(["noisy", "supervisor"])) if dice < 0.6 else completed()

    async def rank(self) -> None:
        """Ranker decides on some of the verdicts, some day."""
        for state in self.boards[:1]:
            for job in list(state.jobs.values()):
                submission = state.submissions.get(job.submission)
                if job.is_over and submission is not None and self.dice.random() < 0.2:
                    aggregate = subjects.submission(submission.id)
                    await self.say(aggregate, ranked_end(), submission.version)


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
        for machine in sim.machines:
            await sim.work(machine)
        await sim.schedule(sim.dice.randrange(2))
        await sim.rank()
    return sim.log


@settings(max_examples=15)
@given(st.integers(0, 2**32))
def test_every_submission_job_and_run_ends_once_whoever_dies(seed: int) -> None:
    log = asyncio.run(simulate(seed))
    ends: dict[str, list[str]] = {}
    for event in log.since(0):
        aggregate, fact = subjects.history_of(event.envelope.aggregate), event.fact
        if aggregate.partition(".")[0] in ("submission", "job", "run"):
            assert not ends.get(aggregate), (
                f"{aggregate} went on after its end with {event.envelope.type}"
            )
            ends.setdefault(aggregate, []).extend([event.envelope.type] if fact.is_terminal else [])
    assert {aggregate: names for aggregate, names in ends.items() if len(names) != 1} == {}
