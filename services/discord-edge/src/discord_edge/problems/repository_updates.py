"""Publishes the problems of a repository, however long that takes, and reports the progress."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from discord_edge.background import PAUSE_S_MIN, BackgroundTasks, retry_until_done
from discord_edge.notifications.messenger import DirectMessenger
from discord_edge.notifications.texts import Notice
from discord_edge.platform_api import PlatformApi
from discord_edge.postgres import PostgresRepositoryUpdates, RepositoryUpdate
from discord_edge.wording import CONTENT_MAX, escaped, refusal_text
from shared.api.problems import FullProblem, SolutionFound
from shared.errors import Failed, Refused

ANSWER_BYTES_MAX = 1024 * 1024
LOOK_EVERY_S = 4.0
# The number of problems whose versions are checked at a time.
LOOKED_MAX = 20
# Without progress for so long, the update ends; each attempt may fetch the whole repository.
QUIET_S_MAX, PAUSE_S_MAX = 900.0, 60.0
# Shows lines about the progress, or with True about the end. Returns whether the user still sees
# them; it never fails.
ShowProgress = Callable[[list[str], bool], Awaitable[bool]]
# The lines share a message with a heading and a summary.
LINES_MAX = CONTENT_MAX - 300

_log = logging.getLogger(__name__)


class SkippedProblem(msgspec.Struct, frozen=True):
    """A problem that is not published, and why."""

    name: str
    reason: str


class BrokenProblem(msgspec.Struct, frozen=True):
    """A problem that cannot be published, and its error."""

    name: str
    error: str


class RepositoryOutcome(msgspec.Struct, frozen=True):
    """What the publication of a repository did, or would do, for each problem."""

    created: list[str] = []
    updated: list[str] = []
    skipped: list[SkippedProblem] = []
    errors: list[BrokenProblem] = []


async def show_nothing(_: list[str], __: bool) -> bool:
    """Show no progress, because no user sees it any more."""
    return False


async def request_update(
    api: PlatformApi, body: Mapping[str, object], *, is_dry: bool
) -> RepositoryOutcome:
    """Publish a repository, or only plan it. Raises `Refused` and `Failed`."""
    path = "/admin/update-problems"
    data = await api.post_slow(path, ANSWER_BYTES_MAX, **body, dry_run=is_dry)
    try:
        return msgspec.json.decode(data, type=RepositoryOutcome)
    except msgspec.DecodeError as error:
        raise Failed(f"the platform's answer about the problems cannot be read: {error}") from error


async def read_version(api: PlatformApi, slug: str) -> int:
    """Return the newest version of a problem, 0 for none. Raises `Failed`."""
    try:
        return (await api.get(FullProblem, "problems", slug)).problem_version
    except Refused:
        return 0


@dataclass
class RepositoryPublisher:
    """Publishes repositories, each in a task of its own."""

    api: PlatformApi
    updates: PostgresRepositoryUpdates
    messenger: DirectMessenger
    tasks: BackgroundTasks = field(default_factory=BackgroundTasks)

    async def publish(self, update: RepositoryUpdate, show: ShowProgress) -> None:
        """Publish in the background. Raises `Failed`, and then nothing is published."""
        await self.updates.add(update)
        self._start(update, show)

    async def resume(self) -> None:
        """Continue the updates of the previous process. Raises `Failed`."""
        for update in await self.updates.list_open():
            self._start(update, show_nothing)

    def _start(self, update: RepositoryUpdate, show: ShowProgress) -> None:
        self.tasks.start(self._run(update, show), f"publish {update.key}")

    async def _run(self, update: RepositoryUpdate, show: ShowProgress) -> None:
        lines, summary = await _UpdateRun(self.api, update, show).run()
        if not await show(lines, True):
            await retry_until_done(
                lambda: self.messenger.sender.create_once(
                    f"errand:{update.key}", lambda: self._deliver(update, lines, summary)
                )
            )
        await retry_until_done(lambda: self.updates.remove(update.key))

    async def _deliver(self, update: RepositoryUpdate, lines: list[str], summary: str) -> str:
        """Send the result by direct message, or its summary to the channel of the command."""
        user_id, name = str(update.user.id), f"errand:{update.key}"
        head = f"`/admin update-problems` of {update.name}:"
        notice = Notice("\n".join([head, *fit_lines(lines[:-1]), lines[-1]]))
        try:
            return await self.messenger.send_directly(user_id, notice, name)
        except Refused as refused:
            _log.info("update %s is reported in the channel: %s", update.key, refused.reason)
        text = f"<@{user_id}> {head} {summary}"
        try:
            return await self.messenger.send(update.channel, user_id, Notice(text), name)
        except Refused as refused:
            _log.warning("update %s cannot be reported: %s", update.key, refused.reason)
            return ""


class _UpdateRun:
    def __init__(self, api: PlatformApi, update: RepositoryUpdate, show: ShowProgress) -> None:
        self._api, self._update, self._show = api.on_behalf_of(update.user), update, show
        self._published: list[str] = []
        self._progress_at = time.monotonic()

    async def run(self) -> tuple[list[str], str]:
        """Publish, and return the result in lines and in one line that names no problem."""
        if self._update.is_late:
            await self._find_published()
            text = f"The bot was away too long: {self._count()}. Repeat the command to continue."
            return [*self._published_lines(), text], text
        showing = asyncio.create_task(self._show_progress())
        try:
            answer = await self._request_until_done()
        except Refused as refused:
            text = refusal_text(refused, self._update.key)
            return [*self._published_lines(), text], f"{self._count()}; then it was refused"
        except Failed:
            text = f"The platform does not answer: {self._count()}. Repeat the command to continue."
            return [*self._published_lines(), text], text
        finally:
            showing.cancel()
            await asyncio.gather(showing, return_exceptions=True)
        await self._find_published()
        outcome = merge_attempts(answer, self._update.before, self._published)
        summary = f"published: {counts_text(outcome)}"
        return [*plan_lines(outcome), "Published."], summary

    async def _request_until_done(self) -> RepositoryOutcome:
        """Return the answer to the last of as many attempts as it takes."""
        update, pause_s = self._update, PAUSE_S_MIN
        while True:
            try:
                return await request_update(self._api, update.body, is_dry=False)
            except Failed as failed:
                # Published problems stay published, so the next attempt continues from there.
                _log.warning("update %s is tried again: %s", update.key, failed)
                await self._find_published()
                if time.monotonic() - self._progress_at > QUIET_S_MAX:
                    raise
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, PAUSE_S_MAX)

    async def _show_progress(self) -> None:
        """Show the progress as long as the user sees it, and keep checking the versions."""
        is_seen = await self._show([self._progress_line()], False)
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            if await self._find_published() and is_seen:
                is_seen = await self._show([self._progress_line()], False)

    async def _find_published(self) -> bool:
        """Whether more problems are published than at the last check."""
        before = self._update.before
        pending = [name for name in before if name not in self._published]
        published_count = len(self._published)
        for name in pending[:LOOKED_MAX]:
            try:
                version = await read_version(self._api, name)
            except Failed:
                break
            # The request and the progress look at the same time.
            if version > before[name] and name not in self._published:
                self._published.append(name)
                self._progress_at = time.monotonic()
        return len(self._published) > published_count

    def _published_lines(self) -> list[str]:
        outcome = merge_attempts(RepositoryOutcome(), self._update.before, self._published)
        return plan_lines(outcome)

    def _progress_line(self) -> str:
        return f"Publishing {self._update.name}: {self._count()} …"

    def _count(self) -> str:
        return f"{len(self._published)} of {len(self._update.before)} published"


def plan_lines(plan: RepositoryOutcome) -> list[str]:
    """Return a line per problem: created, updated, skipped with a reason, or an error.

    >>> plan_lines(RepositoryOutcome(created=["a"], skipped=[SkippedProblem("b", "no changes")]))
    ['🆕 created: a', '⏭️ skipped: b (no changes)']
    """
    return [
        *(f"🆕 created: {escaped(name)}" for name in plan.created),
        *(f"♻️ updated: {escaped(name)}" for name in plan.updated),
        *(f"⏭️ skipped: {escaped(it.name)} ({escaped(it.reason)})" for it in plan.skipped),
        *(f"❌ error: {escaped(it.name)} ({escaped(it.error)})" for it in plan.errors),
    ]


def merge_attempts(
    outcome: RepositoryOutcome, before: Mapping[str, int], published: Collection[str]
) -> RepositoryOutcome:
    """Add to the last attempt's outcome the problems that earlier attempts published.

    `before` are the problems' versions before the first attempt, 0 for none; `published` are the
    problems that have a newer version since.

    >>> outcome = RepositoryOutcome(skipped=[SkippedProblem("a", "no changes")])
    >>> merge_attempts(outcome, {"a": 0, "b": 2}, {"a"})
    RepositoryOutcome(created=['a'], updated=[], skipped=[], errors=[])
    """
    reported = {*outcome.created, *outcome.updated}
    earlier = [name for name in before if name in published and name not in reported]
    return RepositoryOutcome(
        created=[*(name for name in earlier if not before[name]), *outcome.created],
        updated=[*(name for name in earlier if before[name]), *outcome.updated],
        skipped=[problem for problem in outcome.skipped if problem.name not in earlier],
        errors=outcome.errors,
    )


def counts_text(outcome: RepositoryOutcome) -> str:
    """Count the problems by outcome, without their names.

    >>> counts_text(RepositoryOutcome(created=["a"], skipped=[SkippedProblem("b", "")]))
    '1 created, 0 updated, 1 skipped, 0 errors'
    """
    heads = ("created", "updated", "skipped", "errors")
    return ", ".join(f"{len(getattr(outcome, head))} {head}" for head in heads)


def fit_lines(lines: Sequence[str]) -> list[str]:
    """Return as many lines as fit into a message, and a count of the others.

    >>> fit_lines(["a", "b"]), fit_lines(["x" * 999, "y" * 999])[1]
    (['a', 'b'], '… and 1 more')
    """
    fitting: list[str] = []
    for line in lines:
        if sum(len(previous) + 1 for previous in fitting) + len(line) > LINES_MAX:
            return [*fitting, f"… and {len(lines) - len(fitting)} more"]
        fitting.append(line)
    return fitting


def solution_lines(solutions: Sequence[SolutionFound], kind: str) -> list[str]:
    """Return a line per solution of an author, of one kind or of `all`.

    >>> solution_lines([SolutionFound(name="a.py", kind="wrong", verdict="passed",
    ...     as_expected=False)], "all")
    ['❌ wrong a.py: passed, which is not expected']
    """
    lines = []
    for solution in solutions:
        if kind in ("all", solution.kind):
            line = f"{solution.kind} {escaped(solution.name)}: {escaped(solution.verdict)}"
            lines.append(
                f"✅ {line}" if solution.as_expected else f"❌ {line}, which is not expected"
            )
    return lines
