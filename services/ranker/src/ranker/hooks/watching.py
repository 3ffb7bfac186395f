"""Follows the log and writes down what is to be told whom, once the read models have it too."""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from msgspec import MsgspecError

from ranker.hooks import tellings
from ranker.hooks.postgres import HookRows, Place, Row
from ranker.hooks.standing import AGGREGATES, CHANGES, Hook, Standing, Telling, evolve
from ranker.service import Board, News, Reads
from ranker.service.top import read_standing, top
from shared.clock import now
from shared.event_log import Branch, Branches, EventLog, Recorded
from shared.subjects import last_token
from shared.wire import UnknownEvent, is_genuine

log = logging.getLogger(__name__)

# How long the clock is not looked at, for deadlines.
TICK_S = 1.0
LOOK_S = 0.05
# What tells nobody anything is looked through again after a crash, rather than each place written.
KEEP_AFTER_S = 1.0
# As many events may wait for the read models; then the log waits.
WAITING_MAX = 20_000
RANK_MAX = 100


class Log(EventLog, Branches, Protocol):
    """The log, of which aggregates can be followed."""


@dataclass
class Watching:
    """What is to be told, found out event by event; the place is kept with it."""

    log: Log
    rows: HookRows
    reads: Reads
    news: News
    standing: Standing = field(default_factory=Standing)

    async def know(self) -> None:
        """Find out who wants what, from event 1, before anybody is told anything."""
        branch = self.log.branch(self.standing.seq, *AGGREGATES)
        taking = asyncio.create_task(branch.take())
        try:
            while True:
                await asyncio.wait({taking}, timeout=LOOK_S)
                if taking.done():
                    self._learn(taking.result())
                    taking = asyncio.create_task(branch.take())
                if branch.behind == 0:
                    return
        finally:
            await _end(taking, branch)

    async def run(self) -> None:
        """Follow for ever. Errors: Gap; Fenced if another instance does; Failed."""
        place = kept = await self.rows.place(await self.log.last(), now())
        branch = self.log.branch(place.seq, *AGGREGATES, *tellings.AGGREGATES)
        taking = asyncio.create_task(branch.take())
        waiting: list[Recorded] = []
        try:
            while True:
                is_room = len(waiting) < WAITING_MAX
                looking = [taking] if is_room else []
                await _first(looking, LOOK_S if waiting else TICK_S)
                if taking.done() and is_room:
                    batch = taking.result()
                    taking = asyncio.create_task(branch.take())
                    self._learn(batch)
                    waiting += batch
                # What an event came to, the read models say: it waits until they have it.
                folded = [event for event in waiting if event.seq <= self.news.seq]
                del waiting[: len(folded)]
                place, told = await self._step(place, folded)
                age_s = (place.looked_at - kept.looked_at).total_seconds()
                if told or (place.seq > kept.seq and age_s >= KEEP_AFTER_S):
                    await self.rows.tell(kept.seq, place, told)
                    kept = place
        finally:
            await _end(taking, branch)

    def _learn(self, batch: Sequence[Recorded]) -> None:
        for event in batch:
            if event.envelope.type in CHANGES and _is_readable(event):
                evolve(self.standing, event)
        self.standing.seq = max(self.standing.seq, batch[-1].seq)

    async def _step(
        self, place: Place, batch: Sequence[Recorded]
    ) -> tuple[Place, list[tuple[Hook, Telling]]]:
        """What a batch, and the time that passed, give to tell, and the place behind them."""
        at = now()
        found = await self._found(batch)
        over = self.standing.over(place.looked_at, at)
        found += [tellings.of_deadline(slug, ended_at) for slug, ended_at in over]
        told = [(hook, one) for one in found for hook in self.standing.ears(one, at)]
        return Place(batch[-1].seq if batch else place.seq, at), told

    async def _found(self, batch: Sequence[Recorded]) -> list[Telling]:
        if not self.standing.hooks:
            return []
        readable = [event for event in batch if _is_told(event) and _is_readable(event)]
        rows = await self._submissions(readable)
        found: list[Telling] = []
        for event in readable:
            kind, id_ = event.envelope.type, last_token(event.envelope.agg)
            if kind in tellings.OF_PROBLEMS:
                found += tellings.of_problem(event)
            elif kind == tellings.REJUDGED:
                applied = await self.rows.rows("rejudge", id=id_)
                found += [tellings.of_rejudge(event, row) for row in applied]
            elif id_ in rows and kind in tellings.OF_SUBMISSIONS:
                found += await self._of_submission(event, rows[id_])
        return found

    async def _submissions(self, batch: Iterable[Recorded]) -> dict[str, Row]:
        """The submissions that a batch says something of that may be told."""
        ids = {
            last_token(event.envelope.agg)
            for event in batch
            if event.envelope.type in tellings.OF_SUBMISSIONS
        }
        rows = await self.rows.rows("submissions", ids=list(ids)) if ids else []
        return {row["id"]: row for row in rows}

    async def _of_submission(self, event: Recorded, row: Row) -> list[Telling]:
        found: list[Telling] = []
        for kind in tellings.kinds_of(event, row):
            is_ranked = kind == tellings.RANKED
            if row["account"] in self.standing.wanted(kind):
                rank = await self._rank(row) if is_ranked else None
                found.append(tellings.of_submission(event, kind, row, rank))
            if is_ranked:
                found += [
                    tellings.of_entry(event, row, passed) for passed in await self._passed(row)
                ]
        return found

    async def _passed(self, row: Row) -> list[Row]:
        accounts = list(self.standing.wanted(tellings.OVERTAKEN))
        if not accounts:
            return []
        which = {"submission": row["id"], "problem_number": row["problem_number"]}
        return await self.rows.rows("passed", accounts=accounts, at=now(), **which)

    async def _rank(self, row: Row) -> int | None:
        """The rank of an account's entry, None for who is behind the first hundred."""
        board = Board(row["problem"], row["gpu"], row["problem_number"])
        standing = await read_standing(self.reads, board, row["account"], now())
        if standing is not None:
            rank: int | None = standing["rank"]
            return rank if rank is not None and rank <= RANK_MAX else None
        placed = await top(self.reads, board, RANK_MAX, now())
        ranks = [one.place.rank for one in placed if one.row["account"] == row["account"]]
        return ranks[0] if ranks else None


async def _first(tasks: Sequence["asyncio.Task[list[Recorded]]"], within_s: float) -> None:
    """Return once one of these is done, or after a while."""
    if tasks:
        await asyncio.wait(tasks, timeout=within_s)
    else:
        await asyncio.sleep(within_s)


def _is_told(event: Recorded) -> bool:
    """Whether an event is of a type that may be told, and lies where it belongs."""
    return event.envelope.type in tellings.TYPES and is_genuine(event.envelope)


def _is_readable(event: Recorded) -> bool:
    """Whether we know what an event says; a newer version of us will, and nobody waits for it."""
    try:
        _ = event.fact
    except (MsgspecError, UnknownEvent) as error:
        log.warning("no webhook is told of event %s: %s", event.seq, error)
        return False
    return True


async def _end(taking: "asyncio.Task[list[Recorded]]", branch: Branch) -> None:
    taking.cancel()
    await asyncio.gather(taking, return_exceptions=True)
    await branch.close()
