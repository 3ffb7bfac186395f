"""The background scrub: slowly compares the whole log with the archive, over and over.

What it finds wrong with the log is stored for the monitor of every service, which then serves
nothing. Damage of the archive does no harm to readers; it is only reported.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from ranker.archive.comparison import RANGES_MAX, ScrubReport, Stretch, compare
from ranker.archive.postgres import Archive, open_archive
from ranker.service.decisions import Metrics
from shared.clock import now
from shared.errors import Failed
from shared.health import (
    HealthReporter,
    Outage,
    Range,
    ScrubState,
    describe_scrub,
    name_ranges,
)
from shared.nats.repair import LogRepair
from shared.nats.scrub import NEWEST_EVENTS

# Compared at once: about 0.1 s of work.
STRETCH_EVENTS = 2000
# The share of time in which it works, and so of a processor and of the disk.
SHARE_MAX = 0.05
# How often it looks whether a pass is due, or whether damage has been repaired.
LOOK_S = 5.0
# A new leader of a cluster may lack for a moment what the old one acknowledged last.
CONFIRM_S = 3.0
# A pass that is interrupted continues from where it was stored last.
STORE_S = 60.0

_log = logging.getLogger(__name__)


@dataclass
class Scrubber:
    """Compares the newest events at its start, and all of them every `pass_s`.

    Of several rankers one does the passes, whoever has the claim. `newest_compared` is set once the
    newest events were found to be right.
    """

    log: LogRepair
    dsn: str
    pass_s: float
    report: HealthReporter
    metrics: Metrics = field(default_factory=Metrics)
    state: ScrubState = field(default_factory=ScrubState)
    newest_compared: asyncio.Event = field(default_factory=asyncio.Event)
    _stored_at: float = 0.0
    _busy_s: float = 0.0

    async def run(self) -> None:
        """Scrub for ever; after an outage go on."""
        outage = Outage("scrub", self.report)
        while True:
            try:
                async with open_archive(self.dsn) as copy:
                    outage.end()
                    await self._run_connected(copy)
            except Failed as failed:
                await outage.wait(failed)

    async def _run_connected(self, copy: Archive) -> None:
        is_first = not self.newest_compared.is_set()
        while not self.newest_compared.is_set():
            await self._compare_newest(copy)
        while not await copy.claim_scrub():
            await self._load()
            await asyncio.sleep(LOOK_S)
        while True:
            await self._load()
            self._busy_s = 0.0
            if self.state.damaged or self.state.archive_damaged:
                await self._compare_again(copy)
            # The log may have been damaged while everything was stopped.
            if not self._is_under_way() and (is_first or self._is_due()):
                await self._store(replace(self.state, began_at=now(), seq=0))
            is_first = False
            if self._is_under_way():
                await self._continue_pass(copy)
            pause_s = self._busy_s * (1 / SHARE_MAX - 1)
            await asyncio.sleep(pause_s if self._is_under_way() else max(pause_s, LOOK_S))

    async def _load(self) -> None:
        """Read what was stored, keeping this process's place in a pass that is under way."""
        stored, state = await self.log.read_scrub_state(), self.state
        if (stored.began_at, stored.ended_at) == (state.began_at, state.ended_at):
            stored = replace(stored, seq=max(stored.seq, state.seq))
        self._set(stored)

    def _set(self, state: ScrubState) -> None:
        self.state = state
        self.metrics.scrubbed(state)

    async def _store(self, state: ScrubState) -> None:
        await self.log.write_scrub_state(state)
        self._stored_at = time.monotonic()
        self._set(state)

    async def _compare_newest(self, copy: Archive) -> None:
        """Compare the newest events without a pause; wait and repeat it while they are wrong."""
        await self._load()
        last_seq = await copy.checkpoint()
        findings = await self._compare(copy, max(0, last_seq - NEWEST_EVENTS), last_seq)
        await self._note(findings)
        if findings.is_log_whole:
            self.newest_compared.set()
        else:
            await asyncio.sleep(LOOK_S)

    def _is_under_way(self) -> bool:
        state = self.state
        if state.began_at is None:
            return False
        return state.ended_at is None or state.ended_at < state.began_at

    def _is_due(self) -> bool:
        began_at = self.state.began_at
        return began_at is None or (now() - began_at).total_seconds() >= self.pass_s

    async def _continue_pass(self, copy: Archive) -> None:
        """Compare the next stretch of the pass that is under way."""
        after, last_seq = self.state.seq, await copy.checkpoint()
        until = min(after + STRETCH_EVENTS, last_seq)
        await self._note(await self._compare(copy, after, until))
        state = replace(self.state, seq=until)
        if until >= last_seq:
            await self._store(replace(state, ended_at=now(), ended_seq=until))
        elif time.monotonic() - self._stored_at > STORE_S:
            await self._store(state)
        else:
            self._set(state)

    async def _compare(self, copy: Archive, after: int, until: int) -> ScrubReport:
        """Compare the events after one sequence and up to another; twice if something is wrong."""
        findings = await self._compare_once(copy, after, until)
        if not findings.is_clean:
            await asyncio.sleep(CONFIRM_S)
            findings = await self._compare_once(copy, after, until)
        return findings

    async def _compare_once(self, copy: Archive, after: int, until: int) -> ScrubReport:
        started_at, archive_last_seq = time.monotonic(), await copy.checkpoint()
        stretch = Stretch(after, until, await self.log.last_seq(), archive_last_seq)
        findings = await compare(self.log, copy, stretch)
        self._busy_s += time.monotonic() - started_at
        return findings

    async def _note(self, findings: ScrubReport) -> None:
        """Store what is wrong, in addition to what is known."""
        state, new = self.state, _without(findings.damaged, self.state.damaged)
        archive_new = _without(findings.archive_damaged, state.archive_damaged)
        if not (new or archive_new):
            return
        state = replace(
            state,
            damaged_events=state.damaged_events + sum(last - first + 1 for first, last in new),
            damaged=sorted([*state.damaged, *new])[:RANGES_MAX],
            archive_damaged=sorted([*state.archive_damaged, *archive_new])[:RANGES_MAX],
        )
        if new:
            _log.critical("%s", describe_scrub(state))
        if archive_new:
            _log.error("the archive is damaged at events %s", name_ranges(archive_new))
        await self._store(state)

    async def _compare_again(self, copy: Archive) -> None:
        """Forget damage that was repaired: all events that were wrong are right."""
        state = self.state
        if await self._are_right(copy, state.damaged, lambda findings: findings.is_log_whole):
            state = replace(state, damaged=[], damaged_events=0)
        if await self._are_right(
            copy, state.archive_damaged, lambda findings: not findings.archive_findings
        ):
            state = replace(state, archive_damaged=[])
        if state != self.state:
            # Only the first ranges are known, so a new pass looks for others.
            await self._store(replace(state, began_at=now(), seq=0))

    async def _are_right(
        self, copy: Archive, ranges: Sequence[Range], is_right: Callable[[ScrubReport], bool]
    ) -> bool:
        for first, last in ranges:
            until = min(last, first + STRETCH_EVENTS)
            if not is_right(await self._compare_once(copy, first - 1, until)):
                return False
        return True


def _without(ranges: Sequence[Range], known: Sequence[Range]) -> list[Range]:
    """The ranges that are not inside known ones."""
    return [
        (first, last)
        for first, last in ranges
        if not any(begin <= first and last <= end for begin, end in known)
    ]
