"""The whole path in one command: start, publish, submit, wait, rank, replay, stop."""

import asyncio
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from shared.clock import new_id
from shared.errors import Failed, Refused
from warpboard.domain import demo, tables
from warpboard.domain.answers import Agents, Answer, Leaderboard, Receipts, Submission, read
from warpboard.domain.audits import replay_line
from warpboard.domain.demand import Demand
from warpboard.domain.demo import Example, Solutions
from warpboard.domain.outcome import FAILED, INTERRUPTED, OK, TERMINATED
from warpboard.domain.oversight import Queues
from warpboard.domain.problems import Published
from warpboard.domain.units import count_text, seconds_text
from warpboard.service.machine import Books, Machine, Platform, Replaying
from warpboard.service.operating import announce, begun
from warpboard.service.ports import Api, Connect, Disk, Screen, Voucher, Wish
from warpboard.service.publishing import added, publish
from warpboard.service.waiting import until_over

# A ranked run times each case in fresh processes, as long as the machine's noise asks for.
RUN_S_MAX = 120.0
SHIPPED = Voucher(unchecked="shipped with the platform: `make problems` checks them")


@dataclass(frozen=True)
class Owners:
    """Asks for each submission as its owner, whom alone the platform shows all of it."""

    apis: Mapping[int, Api]

    async def get(self, *path: str | int, **query: str | float) -> Answer:
        """What a read of a submission answers. Errors: those of the Api."""
        _, number, *_ = path
        return await self.apis[int(number)].get(*path, **query)


@dataclass(frozen=True)
class Demo:
    """A platform in a folder, the problems of another, and what becomes of them."""

    machine: Machine
    books: Books
    connect: Connect
    office: Callable[[], AbstractAsyncContextManager[Api]]
    disk: Disk
    screen: Screen
    as_json: bool
    folder: Path
    problems: Path
    demand: Demand
    is_kept: bool

    async def run(self) -> int:
        """Do all of it; 0 if each verdict is the expected one and the rebuild is equal.

        Errors: Refused; Failed.
        """
        solutions = self.disk.solutions(self.problems)
        examples = demo.plan(solutions)
        ended: list[int] = []
        starting = ExitStack()

        async def work(platform: Platform) -> None:
            starting.close()
            await announce(self.connect, self.screen, platform, self.demand)
            self.screen.say(f"started ({seconds_text(time.monotonic() - began)})")
            ended.append(await self._work(platform.url, solutions, examples))
            if self.is_kept:
                self.screen.say(f"the platform stays up: {platform.url}; Ctrl-C stops it")
                await asyncio.Event().wait()

        began = time.monotonic()
        with starting:
            starting.enter_context(begun(self.screen, "starting"))
            number = await self.machine.supervise(self.folder, self.demand, work)
        if not ended:
            self.screen.note("warpboard: interrupted; everything is stopped")
            return INTERRUPTED if number == signal.SIGINT else TERMINATED
        self.screen.say(f"stopped; the demo took {seconds_text(time.monotonic() - began)}")
        return ended[0]

    async def _work(self, url: str, solutions: list[Solutions], examples: list[Example]) -> int:
        async with self.connect(url) as api:
            with self._step(f"published {count_text(len(solutions), 'problem')}"):
                await self._publish(solutions)
            left = await self._left(api)
            with self._step(f"submitted {count_text(len(examples), 'file')}"):
                gpu = await self._gpu(api)
                numbers = [await self._submit(url, gpu, example) for example in examples]
            with self._step("every submission is over"):
                wait_s = (len(examples) + left) * RUN_S_MAX
                answers = await self._over(url, examples, numbers, wait_s)
            pairs = [
                (example, read(answer, Submission))
                for example, answer in zip(examples, answers, strict=True)
            ]
            self.screen.table(demo.verdicts(pairs))
            slugs = dict.fromkeys(example.problem for example in examples)
            boards = [await api.get("leaderboards", slug, gpu) for slug in slugs]
            for board in boards:
                self.screen.table(tables.leaderboard(read(board, Leaderboard)))
        is_equal = await self._replay()
        is_good = is_equal and all(demo.is_expected(*pair) for pair in pairs)
        if self.as_json:
            told = {"is_good": is_good, "is_replay_equal": is_equal}
            self.screen.json(told | {"verdicts": demo.document(pairs), "leaderboards": boards})
        return OK if is_good else FAILED

    async def _publish(self, solutions: list[Solutions]) -> None:
        async with self.office() as api:
            for one in solutions:
                problem = self.disk.problem(self.problems / one.slug, one.slug)
                answer = await publish(api, self.screen, problem, SHIPPED)
                self.screen.say(added(read(answer, Published)))

    async def _over(
        self, url: str, examples: list[Example], numbers: list[int], wait_s: float
    ) -> list[Answer]:
        """Each submission whole once it is over, as its owner sees it."""
        async with AsyncExitStack() as stack:
            apis = {
                name: await stack.enter_async_context(self.connect(url, name))
                for name in demo.PARTICIPANTS
            }
            owners = {
                number: apis[one.participant] for number, one in zip(numbers, examples, strict=True)
            }
            return await until_over(Owners(owners), self.screen, numbers, wait_s)

    async def _left(self, api: Api) -> int:
        """How many submissions an interrupted demo left; they go first."""
        waiting = read(await api.get("queue"), Queues).items
        left = sum(one.submissions for one in waiting)
        if left:
            self.screen.say(f"an earlier demo left {count_text(left, 'submission')}: they go first")
        return left

    async def _gpu(self, api: Api) -> str:
        """The GPU type of an agent that takes ranked jobs.

        Errors: Refused if there are only others; Failed if none lives.
        """
        alive = [one for one in read(await api.get("agents"), Agents).items if one.is_alive]
        for agent in alive:
            if "ranked" in agent.modes:
                return agent.gpu
        if not alive:
            raise Failed("no agent is alive: its log is in the folder's logs")
        raise Refused(
            "not_ranked_level",
            f"nothing can be ranked here, where isolation {self.demand.level_min} is demanded: "
            "mend what is missing, or demand less by --level-min",
        )

    async def _submit(self, url: str, gpu: str, example: Example) -> int:
        wish = Wish(
            example.sample.name, example.sample.source, example.problem, example.mode, (gpu,)
        )
        async with self.connect(url, example.participant) as api:
            receipts = read(await api.submit(wish, new_id()), Receipts)
        return receipts.submissions[0].number

    async def _replay(self) -> bool:
        with self._step("compared with leaderboards folded anew"):
            said = await self.books.replay(self.folder, Replaying())
        self.screen.say(replay_line(said))
        return bool(said["is_equal"])

    @contextmanager
    def _step(self, what: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        self.screen.say(f"{what} ({seconds_text(time.monotonic() - began)})")
