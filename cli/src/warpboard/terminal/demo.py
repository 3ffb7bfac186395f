"""The demo: start, publish, submit, wait, rank, replay and stop in one command."""

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.vocabulary import PASSED
from shared.api.agents import Agents
from shared.api.leaderboards import Leaderboard
from shared.api.queues import Queues
from shared.api.submissions import FullSubmission, SubmissionRequest
from shared.checks.findings import needed_gpus
from shared.checks.problem_files import Sample, Solutions
from shared.clock import new_id
from shared.errors import Failed, Refused
from shared.presentation.units import count_text, seconds_text, time_text
from shared.problem_versions import load_problem
from warpboard.api import Api
from warpboard.context import AppContext, PlatformTarget
from warpboard.domain.checks import NOT_PASSED
from warpboard.domain.demand import Demand, choose_demand
from warpboard.domain.output import FAILED, INTERRUPTED, OK, TERMINATED, Table, make_table
from warpboard.files import load_all_solutions
from warpboard.processes.maintenance import run_beside_platform
from warpboard.service.answers import wait_until_over
from warpboard.service.publication import publish, published_line
from warpboard.terminal import optimise_demo, options
from warpboard.terminal.leaderboards import leaderboard_table
from warpboard.terminal.maintenance import replay_line
from warpboard.terminal.options import local_command
from warpboard.terminal.platform import (
    announce,
    read_offer,
    show_platform_progress,
    supervise_platform,
)

if TYPE_CHECKING:
    from warpboard.processes.platform import Platform

# Its verdicts count, and not its times: it does not wait for a quiet machine.
TIMED_AT_ONCE = {"WARPBOARD_GPU_AGENT_QUIET_WAIT_S": "0"}
PARTICIPANTS = ("ada", "grace", "linus")
FIRST = "identity"
# The full demo submits to at most this many problems; the known ones come first.
PROBLEMS_MAX = 6
KNOWN = (FIRST, "grayscale", "histogram", "matmul", "softmax", "vectoradd")
SLOW_LINES = (
    b"\n\nimport time\n\n_quick = custom_kernel\n\n\n"
    b"def custom_kernel(data):\n    time.sleep(0.01)\n    return _quick(data)\n"
)
CRASHING = b"import os\n\n\ndef custom_kernel(data):\n    os.abort()\n"
LOOPING = b"def custom_kernel(data):\n    while True:\n        pass\n"
MISSPELT = b"def custom_kernel(data:\n    return data\n"
# A ranked run times each case in fresh processes for as long as the machine's noise requires.
RUN_S_MAX = 120.0
SHIPPED = {"unchecked": "shipped with the platform: `make problems` checks them"}


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
            "--full",
            "is_full",
            is_flag=True,
            help="Publish every problem, and show each way to fail; takes minutes.",
        ),
        click.option(
            "--optimise",
            "is_optimising",
            is_flag=True,
            help="Instead, make a kernel faster by search and by evolution, and rank the results.",
        ),
        click.option(
            "--keep", "is_kept", is_flag=True, help="Keep it running afterwards, until Ctrl-C."
        ),
        options.LEVEL_MIN,
        options.WIDE,
    ),
)
def demo(
    context: AppContext,
    folder: Path,
    problems: Path,
    level_min: str | None,
    *,
    is_full: bool,
    is_optimising: bool,
    is_kept: bool,
) -> int:
    """Demonstrate the platform: start, submit, rank, replay, stop.

    Three participants submit a file each for one problem. Exit code 0 if all verdicts are as
    expected and the leaderboards equal those rebuilt from event 1; with --optimise, if each result
    is ranked and at least 1.3 times as fast as the kernel that it began with.
    """
    context = context.at(PlatformTarget(folder=folder))
    context = replace(context, overrides=TIMED_AT_ONCE | dict(context.overrides))
    if is_optimising:
        context = replace(context, overrides=optimise_demo.SETTINGS | dict(context.overrides))

        async def optimise(api: Api, url: str, demand: Demand) -> int:
            gpu = await _find_gpu(api, demand)
            return await optimise_demo.run_optimise_demo(context, url, gpu, problems, folder)

        return asyncio.run(_run_demo(context, optimise, level_min, is_kept=is_kept))
    solutions = load_all_solutions(problems)
    examples = plan_full_examples(solutions) if is_full else plan_examples(solutions)
    slugs = {example.problem for example in examples}
    published = [own.slug for own in solutions if is_full or own.slug in slugs]
    folders = [problems / slug for slug in published]

    async def run_examples(api: Api, url: str, demand: Demand) -> int:
        await _publish(context, folders)
        return await _run_examples(context, api, url, examples, demand)

    return asyncio.run(_run_demo(context, run_examples, level_min, is_kept=is_kept))


@dataclass(frozen=True)
class Example:
    """One submission of the demo and the verdict that it must get."""

    participant: str
    problem: str
    sample: Sample
    mode: str
    expected: str


def plan_examples(solutions: Sequence[Solutions]) -> list[Example]:
    """Plan a correct, a slow and a wrong file for one problem, the first of the known ones.

    Raises Refused if no problem has a correct and a wrong solution.
    """
    first = _choose_problems(solutions)[0]
    samples = (
        (first.correct[0], PASSED),
        (_make_slow(first), PASSED),
        (first.wrong[0], NOT_PASSED),
    )
    return [
        Example(participant, first.slug, sample, "ranked", expected)
        for participant, (sample, expected) in zip(PARTICIPANTS, samples, strict=True)
    ]


def plan_full_examples(solutions: Sequence[Solutions]) -> list[Example]:
    """Plan a correct file for each problem, rivals for two, and one file for each failure.

    Raises Refused if no problem has a correct and a wrong solution.
    """
    problems = _choose_problems(solutions)
    first = problems[0]
    # The participant by number, the problem, the file, the mode and the expected end.
    plans = [
        *((index, own, own.correct[0], "ranked", PASSED) for index, own in enumerate(problems)),
        *(
            (index + 1, own, own.correct[-1], "ranked", PASSED)
            for index, own in enumerate(problems[:2])
        ),
        (2, first, _make_slow(first), "ranked", PASSED),
        (0, first, first.wrong[0], "ranked", NOT_PASSED),
        (1, first, Sample("misspelt.py", MISSPELT), "ranked", "compile_error"),
        (2, first, Sample("crashing.py", CRASHING), "test", "crashed"),
        (3, first, Sample("looping.py", LOOPING), "test", "timed_out"),
    ]
    return [
        Example(PARTICIPANTS[number % len(PARTICIPANTS)], own.slug, sample, mode, expected)
        for number, own, sample, mode, expected in plans
    ]


def _choose_problems(solutions: Sequence[Solutions]) -> list[Solutions]:
    """Return the problems to submit to, with the correct solutions that need no GPU."""
    problems = []
    for candidate in solutions:
        correct = tuple(sample for sample in candidate.correct if not needed_gpus(sample))
        if correct and candidate.wrong:
            problems.append(replace(candidate, correct=correct))
    if not problems:
        raise Refused("bad_problem", "no problem here has solutions/correct and solutions/wrong")
    problems.sort(key=lambda own: (own.slug != FIRST, own.slug not in KNOWN, own.slug))
    return problems[:PROBLEMS_MAX]


def _make_slow(problem: Solutions) -> Sample:
    return Sample("slow.py", problem.correct[0].source + SLOW_LINES)


def is_expected(example: Example, submission: FullSubmission) -> bool:
    """Return whether a submission ended as it must; a platform failure is never expected."""
    if example.expected == NOT_PASSED:
        return submission.outcome == "failed"
    is_ranked = submission.is_eligible or example.mode != "ranked" or example.expected != PASSED
    return submission.verdict == example.expected and is_ranked


def describe_verdicts(pairs: Sequence[tuple[Example, FullSubmission]]) -> list[dict[str, object]]:
    """Return every submission of the demo with its verdict and the expected one, for JSON."""
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


def verdict_table(pairs: Sequence[tuple[Example, FullSubmission]]) -> Table:
    """List the same as a table."""
    rows = []
    for row, (example, submission) in zip(describe_verdicts(pairs), pairs, strict=True):
        end = "as expected" if row.pop("is_expected") else f"NOT {example.expected}"
        del row["score_us"]
        rows.append(row | {"expected": end, "score": time_text(submission.score_us)})
    return make_table("verdicts", rows, extra=("score", "mode", "participant"))


async def _run_demo(
    context: AppContext,
    show: Callable[[Api, str, Demand], Awaitable[int]],
    level_min: str | None,
    *,
    is_kept: bool,
) -> int:
    """Start a platform, show something on it, and stop it; return the exit code of `show`.

    Raises Refused and Failed.
    """
    demand = choose_demand(read_offer(context), level_min)
    exit_codes: list[int] = []
    starting = ExitStack()

    async def work(platform: "Platform") -> None:
        starting.close()
        await announce(context, platform, demand)
        context.report(f"started ({seconds_text(time.monotonic() - began)})")
        async with context.connect(platform.url) as api:
            exit_codes.append(await show(api, platform.url, demand))
        if is_kept:
            context.report(f"the platform stays up: {platform.url}; Ctrl-C stops it")
            await asyncio.Event().wait()

    began = time.monotonic()
    with starting:
        starting.enter_context(show_platform_progress(context.screen, "starting"))
        signal_received = await supervise_platform(context, context.folder, demand, work)
    if not exit_codes:
        context.screen.note("warpboard: interrupted; everything is stopped")
        return INTERRUPTED if signal_received == signal.SIGINT else TERMINATED
    context.report(f"stopped; the demo took {seconds_text(time.monotonic() - began)}")
    return exit_codes[0]


async def _publish(context: AppContext, problems: Sequence[Path]) -> None:
    with _report_step(context, f"published {count_text(len(problems), 'problem')}"):
        async with context.operator_api() as operator_api:
            for folder in problems:
                problem = load_problem(folder, folder.name)
                answer = await publish(operator_api, context.screen, problem, SHIPPED)
                context.report(published_line(answer.value))


async def _run_examples(
    context: AppContext, api: Api, url: str, examples: Sequence[Example], demand: Demand
) -> int:
    # What an interrupted demo left runs first.
    left_count = sum(count.submissions for count in (await api.get(Queues, "queue")).value.items)
    if left_count:
        count = count_text(left_count, "submission")
        context.report(f"an earlier demo left {count}: they go first")
    async with AsyncExitStack() as stack:
        # Only its owner sees all of a submission.
        owners = {
            name: await stack.enter_async_context(context.connect(url, name))
            for name in PARTICIPANTS
        }
        with _report_step(context, f"submitted {count_text(len(examples), 'file')}"):
            gpu = await _find_gpu(api, demand)
            numbers = [
                await _submit(owners[example.participant], gpu, example) for example in examples
            ]
        with _report_step(context, "every submission is over"):
            apis = {
                number: owners[example.participant]
                for number, example in zip(numbers, examples, strict=True)
            }
            wait_s = (len(examples) + left_count) * RUN_S_MAX
            answers = await wait_until_over(apis, context.screen, wait_s)
    pairs = [(example, answer.value) for example, answer in zip(examples, answers, strict=True)]
    slugs = dict.fromkeys(example.problem for example in examples)
    boards = [await api.get(Leaderboard, "leaderboards", slug, gpu) for slug in slugs]
    context.report(verdict_table(pairs), *(leaderboard_table(board.value) for board in boards))
    with _report_step(context, "compared with leaderboards folded again"):
        arguments = ("replay", "--projection", "ranker", "--source", "stream")
        comparison = await run_beside_platform(context.folder, *arguments)
    context.report(replay_line(comparison))
    is_equal = bool(comparison["is_equal"])
    is_good = is_equal and all(is_expected(*pair) for pair in pairs)
    document = {
        "is_good": is_good,
        "is_replay_equal": is_equal,
        "verdicts": describe_verdicts(pairs),
        "leaderboards": [board.document for board in boards],
    }
    context.show(document, [])
    return OK if is_good else FAILED


async def _find_gpu(api: Api, demand: Demand) -> str:
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
        f"nothing can be ranked here, where isolation {demand.level_min} is demanded: "
        "fix what is missing, or demand less by --level-min",
    )


async def _submit(api: Api, gpu: str, example: Example) -> int:
    sample = example.sample
    name = sample.name.rpartition("/")[2]
    request = SubmissionRequest(
        name, sample.source, example.problem, example.mode, (gpu,), others=sample.others
    )
    return (await api.submit(request, new_id())).value.submissions[0].number


@contextmanager
def _report_step(context: AppContext, description: str) -> Iterator[None]:
    began = time.monotonic()
    yield
    context.report(f"{description} ({seconds_text(time.monotonic() - began)})")
