"""Repeats the runs of a contest's winners on other agents, once all its rounds are over."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from msgspec import convert

from ranker.domain.contest_review import (
    Repetition,
    can_repeat,
    find_leaders,
    find_winners,
    is_verified_at,
)
from ranker.domain.contests import find_round
from ranker.domain.rows import DecodedEvent
from ranker.service.contests import ContestStandings, StandingKey, decode_definition
from ranker.service.decisions import EventCause, Reads, append_event
from ranker.service.podium_jobs import make_rejudge_item
from shared import subjects
from shared.contests.definition import Contest, ContestPlace
from shared.event_log import EventLog
from shared.events import ConfirmationJudged, ConfirmationRequested, ContestResultsProposed
from shared.subjects import contest_confirmation_id

# The clock alone ends a contest.
LOOK_S = 10.0

Row = dict[str, Any]


@dataclass
class ContestConfirmations:
    """Requests the repetitions of winners' runs; deciding twice gives one event.

    `Confirmations` judges them. At most `look_s` passes between looks for what is due.
    """

    log: EventLog
    reads: Reads
    standings: ContestStandings
    look_s: float = LOOK_S
    requested: set[str] = field(default_factory=set)
    is_due: asyncio.Event = field(default_factory=asyncio.Event)

    def hear(self, batch: Sequence[DecodedEvent]) -> None:
        """Look again at once after an event that may make another repetition due."""
        if any(isinstance(it.fact, ConfirmationJudged | ContestResultsProposed) for it in batch):
            self.is_due.set()

    async def wait(self) -> None:
        """Wait until it is time to look for repetitions that are due."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self.look_s):
                await self.is_due.wait()
        self.is_due.clear()

    async def look(self, at: datetime) -> None:
        """Request what is due in all contests. Raises Failed."""
        for row in await self.reads.rows("contests", contest=None):
            contest = decode_definition(row)
            if any(problem.ends_at > at for problem in contest.problems):
                continue
            announced = await read_announced(self.reads, contest.slug)
            proposed, confirmed = announced.get("proposed"), announced.get("confirmed")
            is_final = confirmed is not None and (
                proposed is None or confirmed["seq"] > proposed["seq"]
            )
            if is_verified_at(contest, at, is_proposed=proposed is not None, is_final=is_final):
                await self._verify(contest, row["number"], proposed, at)

    async def _verify(
        self, contest: Contest, number: int, proposed: Row | None, at: datetime
    ) -> None:
        """Request the next repetition of each entry of the winners.

        Without results, winners are the first of the standing, once everything is judged.
        """
        ends_at = max(problem.ends_at for problem in contest.problems)
        key = StandingKey(contest.slug, number, find_round(contest, at), None)
        values = {"contest": contest.slug, "until_at": ends_at}
        if proposed is None and await self.reads.rows("contest_submissions_open", **values):
            return
        divisions = await self.standings.derive(contest, key)
        if proposed is None:
            winners = find_leaders(contest, divisions)
        else:
            winners = find_winners(contest, convert(proposed["places"], list[ContestPlace]))
        numbers = [
            entry.number
            for part in divisions
            for row in part.rows
            if row.contestant in winners
            for entry in row.entries
        ]
        if not numbers:
            return
        entries = await self.reads.rows("entries_to_review", numbers=numbers)
        repetitions = await read_repetitions(self.reads, contest.slug)
        agents = await read_agents(self.reads)
        for entry in entries:
            earlier = repetitions.get(entry["run"], [])
            is_due = entry["score_us"] is not None and can_repeat(
                entry["agent"], earlier, agents.get(entry["gpu"], ()), contest.confirm_agents
            )
            if is_due:
                await self._request(contest, entry, earlier)

    async def _request(self, contest: Contest, entry: Row, earlier: list[Repetition]) -> None:
        id_ = contest_confirmation_id(contest.slug, entry["run"], len(earlier) + 1)
        if id_ in self.requested:
            return
        problem = contest.problem(entry["problem"])
        fact = ConfirmationRequested(
            problem=entry["problem"],
            problem_number=entry["problem_number"],
            problem_digest=entry["digest"],
            gpu=entry["gpu"],
            item=make_rejudge_item(entry, entry["gpu"]),
            contest=contest.slug,
            is_fresh=problem is not None and problem.is_confirmed_fresh,
            other_agents=[it.agent for it in earlier if it.text],
            **{name: entry[name] for name in ("run", "agent", "score_us", "yardstick_us")},
        )
        await append_event(self.log, subjects.confirmation(id_), fact, 0, EventCause(id_))
        self.requested.add(id_)


async def read_announced(reads: Reads, contest: str) -> dict[str, Row]:
    """What was announced of a contest, by its stage."""
    rows = await reads.rows("contest_results", contest=contest)
    return {row["stage"]: row for row in rows}


async def read_repetitions(reads: Reads, contest: str) -> dict[str, list[Repetition]]:
    """The repetitions of a contest's winners by run, in the order of their requests."""
    repetitions: dict[str, list[Repetition]] = {}
    for row in await reads.rows("contest_confirmations", contest=contest):
        is_judged = row["judged_seq"] is not None
        fields = {name: row[name] for name in ("agent", "code", "reason")}
        repetitions.setdefault(row["run"], []).append(
            Repetition(is_judged=is_judged, text=row["shown"], **fields)
        )
    return repetitions


async def read_agents(reads: Reads) -> dict[str, list[str]]:
    """The enrolled agents that take ranked runs, by GPU type."""
    agents: dict[str, list[str]] = {}
    for row in await reads.rows("ranking_agents"):
        agents.setdefault(row["gpu"], []).append(row["id"])
    return agents
