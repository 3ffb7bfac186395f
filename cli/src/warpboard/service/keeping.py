"""Keeping the books: replay, audit, export, import and the collection of blobs."""

from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from warpboard.domain import audits
from warpboard.domain.answers import Answer, read
from warpboard.domain.audits import Report
from warpboard.domain.outcome import FAILED, OK
from warpboard.domain.progress import News
from warpboard.service.machine import Auditing, Books, Repairing, Replaying
from warpboard.service.ports import Api, Screen

TARGET_LENGTH_MAX = 500


@dataclass(frozen=True)
class Keeping:
    """The books of the platform in a folder; each command returns its exit code."""

    books: Books
    screen: Screen
    folder: Path
    as_json: bool

    async def replay(self, asked: Replaying) -> int:
        """Compare a projection with one folded anew; 1 if they differ. Errors: Refused; Failed."""
        answer = await self._during("folding anew", self.books.replay(self.folder, asked))
        self._tell(answer, audits.replay_lines)
        return OK if answer["is_equal"] else FAILED

    async def audit(self, asked: Auditing) -> int:
        """Check a leaderboard and its log; 1 if anything is not as it must be."""
        answer = await self._during("deriving anew", self.books.audit(self.folder, asked))
        found = read(answer, Report)
        self._tell(answer, lambda _: audits.report_lines(found))
        return OK if found.is_clean else FAILED

    async def export(self, file: Path, left_out: Collection[str]) -> int:
        """Back everything up; 1 if a blob that an event names is not there any more."""
        written = self.books.export(self.folder, file, left_out)
        answer = await self._during("backing up", written)
        self._tell(answer, audits.export_lines)
        return FAILED if answer.get("blobs_missing") else OK

    async def import_(self, file: Path, actor: str, *, is_incomplete_allowed: bool) -> int:
        """Restore a backup into an empty log."""
        read_in = self.books.import_(
            self.folder, file, actor, is_incomplete_allowed=is_incomplete_allowed
        )
        self._tell(await self._during("restoring", read_in), audits.import_lines)
        return OK

    async def scrub(self) -> int:
        """Compare the log with its archive; 1 if events are missing, or differ."""
        answer = await self._during("comparing with the archive", self.books.scrub(self.folder))
        self._tell(answer, audits.scrub_lines)
        return OK if answer["is_clean"] else FAILED

    async def repair(self, asked: Repairing) -> int:
        """Put back what the log lacks."""
        repaired = self.books.repair(self.folder, asked)
        self._tell(await self._during("repairing the log", repaired), audits.repair_lines)
        return OK

    async def collect(self) -> int:
        """Say which blobs that no event names would be removed."""
        found = self.books.collect(self.folder, is_trial=True)
        answer = await self._during("looking for blobs", found)
        self._tell(answer, audits.collection_lines)
        return OK

    async def remove(self, api: Api, reason: str) -> int:
        """Remove blobs that no event names, once it is in the log who wanted it, and why."""
        target = str(self.folder)[-TARGET_LENGTH_MAX:]
        said = {"command": "gc --apply", "target": target, "reason": reason}
        await api.act("POST", "admin", "acted", said=said)
        removed = self.books.collect(self.folder, is_trial=False)
        answer = await self._during("removing blobs", removed)
        self._tell(answer, audits.collection_lines)
        return OK

    async def _during(self, what: str, doing: Awaitable[Answer]) -> Answer:
        """Wait, and show that it goes on."""
        with self.screen.live([self.folder.name]) as live:
            live.show(self.folder.name, News(what))
            return await doing

    def _tell(self, answer: Answer, lines: Callable[[Answer], Iterable[str]]) -> None:
        if self.as_json:
            self.screen.json(answer)
            return
        for line in lines(answer):
            self.screen.say(line)
