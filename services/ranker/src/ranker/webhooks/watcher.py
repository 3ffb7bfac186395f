"""Follows the log and stores deliveries, once the read models have the events too."""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from msgspec import MsgspecError

from ranker.domain.rows import LeaderboardKey
from ranker.metrics import HookMetrics
from ranker.postgres import SCHEMA
from ranker.service.decisions import Reads
from ranker.service.leaderboard import rank_top, read_standing
from ranker.service.progress import ProjectionProgress
from ranker.settings import Settings
from ranker.webhooks.postgres import Row, WatchPosition, WebhookStore
from ranker.webhooks.sender import WebhookClient, WebhookSender
from ranker.webhooks.subscriptions import (
    AGGREGATES,
    ENTRY_OVERTAKEN,
    FOLDED,
    PROBLEM_TYPES,
    RANKED,
    REJUDGED,
    SUBMISSION_TYPES,
    TYPES,
    Payload,
    Subscriptions,
    Webhook,
    deadline_payload,
    evolve,
    kinds_for_event,
    overtaken_payload,
    problem_payloads,
    rejudge_payload,
    submission_payload,
)
from shared.clock import now
from shared.errors import Failed
from shared.event_log import BranchSource, EventLog, Feed, RecordedEvent
from shared.health import Outage
from shared.lifecycle import run_until_first
from shared.postgres import CheckpointConflict, create_pool
from shared.subjects import last_token
from shared.wire import UnknownEvent, is_genuine

log = logging.getLogger(__name__)

# Interval between checks of the clock for deadlines.
TICK_S = 1.0
LOOK_S = 0.05
# Events without deliveries are read again after a crash, rather than storing each position.
KEEP_AFTER_S = 1.0
# This many reported events may wait for the read models; then reading the log pauses.
WAITING_MAX = 20_000
RANK_MAX = 100


class BranchedLog(EventLog, BranchSource, Protocol):
    """The log with its branches."""


@dataclass
class WebhookWatcher:
    """Finds deliveries event by event and stores them with the position."""

    log: BranchedLog
    store: WebhookStore
    reads: Reads
    progress: ProjectionProgress
    subscriptions: Subscriptions = field(default_factory=Subscriptions)

    async def load_subscriptions(self) -> None:
        """Fold all webhooks from event 1, before anything is sent."""
        branch = self.log.branch(self.subscriptions.seq, *AGGREGATES)
        read = asyncio.create_task(branch.take())
        try:
            while True:
                await asyncio.wait({read}, timeout=LOOK_S)
                if read.done():
                    self._fold_subscriptions(read.result())
                    read = asyncio.create_task(branch.take())
                if branch.behind == 0:
                    return
        finally:
            await _stop_reading(read, branch)

    async def run(self) -> None:
        """Follow for ever. Raises Gap, Failed, or Fenced if another instance follows."""
        position = stored_position = await self.store.place(await self.log.last(), now())
        feed, taken_seq = self.log.follow(position.seq), position.seq
        read = asyncio.create_task(feed.take())
        waiting: list[RecordedEvent] = []
        try:
            while True:
                is_room = len(waiting) < WAITING_MAX
                if is_room and not waiting:
                    await asyncio.wait([read], timeout=TICK_S)
                # One look for all events of a moment, while the read models fold them.
                await asyncio.sleep(LOOK_S)
                if read.done() and is_room:
                    batch = read.result()
                    taken_seq = batch[-1].seq
                    read = asyncio.create_task(feed.take())
                    self._fold_subscriptions(batch)
                    waiting += [event for event in batch if event.envelope.type in TYPES]
                # The read models have the outcome of an event: it waits until they have folded it.
                folded_seq = min(taken_seq, self.progress.seq)
                folded = [event for event in waiting if event.seq <= folded_seq]
                del waiting[: len(folded)]
                position, deliveries = await self._step(position, folded, folded_seq)
                age_s = (position.looked_at - stored_position.looked_at).total_seconds()
                if deliveries or (position.seq > stored_position.seq and age_s >= KEEP_AFTER_S):
                    await self.store.store_deliveries(stored_position.seq, position, deliveries)
                    stored_position = position
        finally:
            await _stop_reading(read, feed)

    def _fold_subscriptions(self, batch: Sequence[RecordedEvent]) -> None:
        for event in batch:
            if event.envelope.type in FOLDED and _is_readable(event):
                evolve(self.subscriptions, event)
        self.subscriptions.seq = max(self.subscriptions.seq, batch[-1].seq)

    async def _step(
        self, position: WatchPosition, batch: Sequence[RecordedEvent], seq: int
    ) -> tuple[WatchPosition, list[tuple[Webhook, Payload]]]:
        """The deliveries of a batch and of the time that passed, and the position after them.

        No event up to `seq` has others.
        """
        at = now()
        messages = await self._make_payloads(batch)
        deadlines_passed = self.subscriptions.deadlines_passed(position.looked_at, at)
        messages += [deadline_payload(slug, ended_at) for slug, ended_at in deadlines_passed]
        deliveries = [
            (hook, payload)
            for payload in messages
            for hook in self.subscriptions.recipients(payload, at)
        ]
        return WatchPosition(max(position.seq, seq), at), deliveries

    async def _make_payloads(self, batch: Sequence[RecordedEvent]) -> list[Payload]:
        if not self.subscriptions.hooks:
            return []
        readable = [
            event
            for event in batch
            if event.envelope.type in TYPES and is_genuine(event.envelope) and _is_readable(event)
        ]
        rows = await self._read_submissions(readable)
        messages: list[Payload] = []
        for event in readable:
            kind, id_ = event.envelope.type, last_token(event.envelope.aggregate)
            if kind in PROBLEM_TYPES:
                messages += problem_payloads(event)
            elif kind == REJUDGED:
                applied = await self.store.rows("rejudge", id=id_)
                messages += [rejudge_payload(event, row) for row in applied]
            elif id_ in rows and kind in SUBMISSION_TYPES:
                messages += await self._submission_payloads(event, rows[id_])
        return messages

    async def _read_submissions(self, batch: Iterable[RecordedEvent]) -> dict[str, Row]:
        ids = {
            last_token(event.envelope.aggregate)
            for event in batch
            if event.envelope.type in SUBMISSION_TYPES
        }
        rows = await self.store.rows("submissions", ids=list(ids)) if ids else []
        return {row["id"]: row for row in rows}

    async def _submission_payloads(self, event: RecordedEvent, row: Row) -> list[Payload]:
        messages: list[Payload] = []
        hidden = {board["problem"] for board in await self.reads.rows("boards_hidden", at=now())}
        for kind in kinds_for_event(event, row):
            # No rank leaves while a contest hides it, neither one's own nor another's.
            is_ranked = kind == RANKED and row["problem"] not in hidden
            if row["account"] in self.subscriptions.subscribers(kind):
                rank = await self._read_rank(row) if is_ranked else None
                messages.append(submission_payload(event, kind, row, rank))
            if is_ranked:
                messages += [
                    overtaken_payload(event, row, passed)
                    for passed in await self._find_overtaken(row)
                ]
        return messages

    async def _find_overtaken(self, row: Row) -> list[Row]:
        accounts = list(self.subscriptions.subscribers(ENTRY_OVERTAKEN))
        if not accounts:
            return []
        submission_key = {"submission": row["id"], "problem_number": row["problem_number"]}
        return await self.store.rows("passed", accounts=accounts, at=now(), **submission_key)

    async def _read_rank(self, row: Row) -> int | None:
        """The rank of an account's entry, None below the first hundred."""
        board = LeaderboardKey(row["problem"], row["gpu"], row["problem_number"])
        place = await read_standing(self.reads, board, row["account"], now())
        if place is not None:
            rank: int | None = place["rank"]
            return rank if rank is not None and rank <= RANK_MAX else None
        placed = await rank_top(self.reads, board, RANK_MAX, now())
        ranks = (entry.place.rank for entry in placed if entry.row["account"] == row["account"])
        return next(ranks, None)


def _is_readable(event: RecordedEvent) -> bool:
    try:
        _ = event.fact
    except (MsgspecError, UnknownEvent) as error:
        log.warning("event %s is not sent to webhooks: %s", event.seq, error)
        return False
    return True


async def _stop_reading(read: "asyncio.Task[list[RecordedEvent]]", feed: Feed) -> None:
    read.cancel()
    await asyncio.gather(read, return_exceptions=True)
    await feed.close()


POOL_MAX = 3
# Another instance sends: this one waits for it to end.
STANDBY_S = 5.0


async def run_webhooks(
    settings: Settings,
    event_log: BranchedLog,
    reads: Reads,
    progress: ProjectionProgress,
) -> None:
    """Send webhooks for ever. Gap stops the process."""
    client = WebhookClient(is_local=settings.webhooks_local)
    metrics, outage = HookMetrics(), Outage("webhooks")
    while True:
        try:
            async with create_pool(settings.postgres_dsn, 1, POOL_MAX, SCHEMA) as connections:
                store = WebhookStore(connections)
                watcher = WebhookWatcher(event_log, store, reads, progress)
                await watcher.load_subscriptions()
                outage.end()
                sender = WebhookSender(store, watcher.subscriptions, client.send, metrics)
                await run_until_first(watcher.run(), sender.run())
        except Failed as failed:
            await outage.wait(failed)
        except CheckpointConflict as fenced:
            log.warning("webhooks are standing by: %s", fenced)
            await asyncio.sleep(STANDBY_S)
