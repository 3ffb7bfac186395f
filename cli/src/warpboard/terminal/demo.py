"""The demo: start, publish, submit, wait, rank, replay and stop in one command."""

import asyncio
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import click

from shared.api.agents import Agents
from shared.api.leaderboards import Leaderboard
from shared.api.queues import Queues
from shared.api.submissions import FullSubmission, SubmissionRequest
from shared.clock import new_id
from shared.errors import Failed, Refused
from shared.presentation.units import NO_VALUE, count_text, seconds_text, time_text
from warpboard.domain.demand import Demand
from warpboard.domain.exit_codes import FAILED, INTERRUPTED, OK, TERMINATED
from warpboard.domain.solutions import NOT_PASSED, PASSED, Sample, Solutions, needed_gpus
from warpboard.domain.tables import Table
from warpboard.service.context import AppContext, PlatformTarget
from warpboard.service.machine import Platform, ReplayOptions
from warpboard.service.maintenance import replay_line
from warpboard.service.ports import Api, PublishApproval, Response, T
from warpboard.service.publication import publish, published_line
from warpboard.service.waiting import wait_until_over
from warpboard.terminal import options
from warpboard.terminal.command_types import local_command
from warpboard.terminal.leaderboards import leaderboard_table
from warpboard.terminal.platform import announce, resolve_demand, show_platform_progress

PARTICIPANTS = ("ada", "grace", "linus")
FIRST = "identity"
# The demo submits to at most this many problems; the known ones come first.
PROBLEMS_MAX = 6
KNOWN = (FIRST, "grayscale", "histogram", "matmul", "softmax", "vectoradd")
SLOW_LINES = (
    b"\n\nimport time\n\n_quick = custom_kernel\n\n\n"
    b"def custom_kernel(data):\n    time.sleep(0.1)\n    return _quick(data)\n"
)
CRASHING = b"import os\n\n\ndef custom_kernel(data):\n    os.abort()\n"
LOOPING = b"def custom_kernel(data):\n    while True:\n        pass\n"
MISSPELT = b"def custom_kernel(data:\n    return data\n"
# A ranked run times each case in fresh processes for as long as the machine's noise requires.
RUN_S_MAX = 120.0
SHIPPED = PublishApproval(unchecked="shipped with the platform: `make problems` checks them")


@local_command(
    "demo",
    parameters=(
        click.option(
            "--folder",
            type=options.NEW_FOLDER,
            default=".warpboard/demo",
            show_default=True,
            help="Its data.",
        ),
        click.option(
            "--problems",
            type=options.FOLDER,
            default="problems",
            show_default=True,
            help="The problems to publish.",
        ),
        click.option(
            "--keep", "is_kept", is_flag=True, help="Keep it running afterwards, until Ctrl-C."
        ),
        options.LEVEL_MIN,
    ),
)
def demo(
    context: AppContext, folder: Path, problems: Path, level_min: str | None, *, is_kept: bool
) -> int:
    """Demonstrate the platform: start, submit, rank, replay, stop.

    Three participants submit. Exit code 0 if all verdicts are as expected and the leaderboards
    equal those rebuilt from event 1.
    """
    demand = resolve_demand(context.harness, level_min)
    return asyncio.run(Demo(context, folder, problems, demand, is_kept).run())


@dataclass(frozen=True)
class Example:
    """One submission of the demo and the verdict that it must get."""

    participant: str
    problem: str
    sample: Sample
    mode: str
    expected: str


def plan_examples(solutions: Sequence[Solutions]) -> list[Example]:
    """Plan a correct file for each problem, rivals for two, and one file for each failure.

    Raises Refused if no problem has a correct and a wrong solution.
    """
    fitting = [
        replace(
            candidate,
            correct=tuple(sample for sample in candidate.correct if not needed_gpus(sample)),
        )
        for candidate in solutions
    ]
    complete = [candidate for candidate in fitting if candidate.correct and candidate.wrong]
    if not complete:
        raise Refused("bad_problem", "no problem here has solutions/correct and solutions/wrong")
    problems = sorted(
        complete,
        key=lambda candidate: (
            candidate.slug != FIRST,
            candidate.slug not in KNOWN,
            candidate.slug,
        ),
    )
    problems = problems[:PROBLEMS_MAX]
    examples = [
        _ranked_example(_pick_participant(index), problem, problem.correct[0])
        for index, problem in enumerate(problems)
    ]
    examples += [
        _ranked_example(_pick_participant(index + 1), problem, problem.correct[-1])
        for index, problem in enumerate(problems[:2])
    ]
    first = problems[0]
    slow = Sample("slow.py", first.correct[0].source + SLOW_LINES)
    return [
        *examples,
        _ranked_example(_pick_participant(2), first, slow),
        *_failing_examples(first),
    ]


def _pick_participant(index: int) -> str:
    return PARTICIPANTS[index % len(PARTICIPANTS)]


def _ranked_example(participant: str, problem: Solutions, sample: Sample) -> Example:
    return Example(participant, problem.slug, sample, "ranked", PASSED)


def _failing_examples(problem: Solutions) -> list[Example]:
    samples = (
        (problem.wrong[0], "ranked", NOT_PASSED),
        (Sample("misspelt.py", MISSPELT), "ranked", "compile_error"),
        (Sample("crashing.py", CRASHING), "test", "crashed"),
        (Sample("looping.py", LOOPING), "test", "timed_out"),
    )
    return [
        Example(_pick_participant(index), problem.slug, sample, mode, expected)
        for index, (sample, mode, expected) in enumerate(samples)
    ]


def is_expected(example: Example, submission: FullSubmission) -> bool:
    """Return whether a submission ended as it must; a platform failure is never expected."""
    if example.expected == NOT_PASSED:
        return submission.outcome == "failed"
    is_ranked = submission.is_eligible or example.mode != "ranked" or example.expected != PASSED
    return submission.verdict == example.expected and is_ranked


def verdict_table(pairs: Sequence[tuple[Example, FullSubmission]]) -> Table:
    """List every submission of the demo with its verdict and the expected one."""
    rows = [
        (
            str(submission.number),
            example.participant,
            example.problem,
            example.sample.name,
            example.mode,
            submission.verdict or submission.outcome or NO_VALUE,
            "as expected" if is_expected(example, submission) else f"NOT {example.expected}",
            time_text(submission.score_us),
        )
        for example, submission in pairs
    ]
    columns = ("number", "participant", "problem", "file", "mode", "verdict", "expected", "score")
    return Table("verdicts", columns, rows)


def verdict_document(pairs: Sequence[tuple[Example, FullSubmission]]) -> list[dict[str, object]]:
    """Return the same as a JSON document."""
    return [
        {
            "number": submission.number,
            "participant": example.participant,
            "problem": example.problem,
            "file": example.sample.name,
            "mode": example.mode,
            "verdict": submission.verdict or submission.outcome,
            "expected": example.expected,
            "is_expected": is_expected(example, submission),
            "score_us": submission.score_us,
        }
        for example, submission in pairs
    ]


@dataclass(frozen=True)
class OwnerApis:
    """Reads each submission as its owner, who alone sees all of it."""

    apis: Mapping[int, Api]

    async def get(
        self, expected_type: type[T], /, *path: str | int, **query: str | float
    ) -> Response[T]:
        """Read a submission as its owner. Raises the errors of the Api."""
        _, number, *_ = path
        return await self.apis[int(number)].get(expected_type, *path, **query)


@dataclass(frozen=True)
class Demo:
    """A demo of the problems of one folder, on a platform in another."""

    context: AppContext
    folder: Path
    problems: Path
    demand: Demand
    is_kept: bool

    async def run(self) -> int:
        """Run the demo; return 0 if all verdicts are as expected and the rebuild is equal.

        Raises Refused and Failed.
        """
        solutions = self.context.disk.solutions(self.problems)
        examples = plan_examples(solutions)
        exit_codes: list[int] = []
        starting = ExitStack()

        async def work(platform: Platform) -> None:
            starting.close()
            await announce(self.context, platform, self.demand)
            self.context.report(f"started ({seconds_text(time.monotonic() - began)})")
            exit_codes.append(await self._run_steps(platform.url, solutions, examples))
            if self.is_kept:
                self.context.report(f"the platform stays up: {platform.url}; Ctrl-C stops it")
                await asyncio.Event().wait()

        began = time.monotonic()
        with starting:
            starting.enter_context(show_platform_progress(self.context.screen, "starting"))
            signal_received = await self.context.machine.supervise(self.folder, self.demand, work)
        if not exit_codes:
            self.context.screen.note("warpboard: interrupted; everything is stopped")
            return INTERRUPTED if signal_received == signal.SIGINT else TERMINATED
        self.context.report(f"stopped; the demo took {seconds_text(time.monotonic() - began)}")
        return exit_codes[0]

    async def _run_steps(
        self, url: str, solutions: list[Solutions], examples: list[Example]
    ) -> int:
        async with self.context.connect(url) as api:
            with self._step(f"published {count_text(len(solutions), 'problem')}"):
                await self._publish(solutions)
            left_count = await self._count_left(api)
            with self._step(f"submitted {count_text(len(examples), 'file')}"):
                gpu = await self._find_gpu(api)
                numbers = [await self._submit(url, gpu, example) for example in examples]
            with self._step("every submission is over"):
                wait_s = (len(examples) + left_count) * RUN_S_MAX
                answers = await self._wait_for_all(url, examples, numbers, wait_s)
            pairs = [
                (example, answer.value) for example, answer in zip(examples, answers, strict=True)
            ]
            self.context.report(verdict_table(pairs))
            slugs = dict.fromkeys(example.problem for example in examples)
            boards = [await api.get(Leaderboard, "leaderboards", slug, gpu) for slug in slugs]
            for board in boards:
                self.context.report(leaderboard_table(board.value))
        is_equal = await self._replay()
        is_good = is_equal and all(is_expected(*pair) for pair in pairs)
        document = {
            "is_good": is_good,
            "is_replay_equal": is_equal,
            "verdicts": verdict_document(pairs),
            "leaderboards": [board.document for board in boards],
        }
        self.context.show(document, [])
        return OK if is_good else FAILED

    async def _publish(self, solutions: list[Solutions]) -> None:
        async with self.context.office(PlatformTarget(folder=self.folder)) as api:
            for own in solutions:
                problem = self.context.disk.problem(self.problems / own.slug, own.slug)
                answer = await publish(api, self.context.screen, problem, SHIPPED)
                self.context.report(published_line(answer.value))

    async def _wait_for_all(
        self, url: str, examples: list[Example], numbers: list[int], wait_s: float
    ) -> list[Response[FullSubmission]]:
        """Wait for every submission and return it as its owner sees it."""
        async with AsyncExitStack() as stack:
            apis = {
                name: await stack.enter_async_context(self.context.connect(url, name))
                for name in PARTICIPANTS
            }
            owners = {
                number: apis[example.participant]
                for number, example in zip(numbers, examples, strict=True)
            }
            return await wait_until_over(OwnerApis(owners), self.context.screen, numbers, wait_s)

    async def _count_left(self, api: Api) -> int:
        """Count the submissions of an interrupted demo, which run first."""
        waiting = (await api.get(Queues, "queue")).value.items
        left_count = sum(count.submissions for count in waiting)
        if left_count:
            self.context.report(
                f"an earlier demo left {count_text(left_count, 'submission')}: they go first"
            )
        return left_count

    async def _find_gpu(self, api: Api) -> str:
        """Return the GPU type of an agent that takes ranked jobs.

        Raises Refused if there are only other agents, and Failed if none is alive.
        """
        alive = [agent for agent in (await api.get(Agents, "agents")).value.items if agent.is_alive]
        for agent in alive:
            if "ranked" in agent.modes:
                return agent.gpu
        if not alive:
            raise Failed("no agent is alive: its log is in the folder's logs")
        raise Refused(
            "not_ranked_level",
            f"nothing can be ranked here, where isolation {self.demand.level_min} is demanded: "
            "fix what is missing, or demand less by --level-min",
        )

    async def _submit(self, url: str, gpu: str, example: Example) -> int:
        request = SubmissionRequest(
            example.sample.name, example.sample.source, example.problem, example.mode, (gpu,)
        )
        async with self.context.connect(url, example.participant) as api:
            receipts = (await api.submit(request, new_id())).value
        return receipts.submissions[0].number

    async def _replay(self) -> bool:
        with self._step("compared with leaderboards folded again"):
            answer = await self.context.books.replay(self.folder, ReplayOptions())
        self.context.report(replay_line(answer))
        return bool(answer["is_equal"])

    @contextmanager
    def _step(self, description: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        self.context.report(f"{description} ({seconds_text(time.monotonic() - began)})")
