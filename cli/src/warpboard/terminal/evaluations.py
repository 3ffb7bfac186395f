"""`warpboard evaluate`: many sources for one problem, for programs that write kernels."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, get_args

import click
import msgspec
from click import Choice

from harness.evaluations import known_reward
from harness.evaluator import EvaluationMode, Evaluator, EvaluatorError, Source
from harness.vocabulary import EVALUATION_LEVEL_MIN, LEVELS
from shared.api.evaluations import EvaluationItem, EvaluationRequest, EvaluationResult
from shared.errors import Refused
from shared.presentation.outcome import speedup_text
from shared.presentation.report_parts import ProgressText
from warpboard.context import AppContext
from warpboard.domain.output import INFRASTRUCTURE, OK
from warpboard.evaluation_files import ResultFile, ResultLine, SourceFile
from warpboard.files import find_named_problem
from warpboard.local_run import check_torch
from warpboard.screen import ShowProgress
from warpboard.service.evaluations import batch_key, evaluate_judged
from warpboard.terminal import options
from warpboard.terminal.options import local_command

MODES = get_args(EvaluationMode)
# Outside of a terminal, so many lines say how far it is.
STEPS = 10
# The most sources of one evaluation by a platform.
BATCH = 256
UNJUDGED_SHOWN_MAX = 10


class Tally:
    """How far the evaluations of this call are."""

    def __init__(self, total: int, known: int, show: ShowProgress, key: str) -> None:
        self.total, self.known, self.done = total, known, 0
        self.unjudged: list[str] = []
        self._show, self._key = show, key
        self._began = time.monotonic()

    @property
    def took_s(self) -> float:
        """The seconds since the start."""
        return time.monotonic() - self._began

    def take(self, id_: str, verdict: str, reason: str) -> None:
        """Count a source that ended, and show how far all are."""
        self.done += 1
        if not verdict:
            self.unjudged.append(f"{id_}: {reason}")
        ended = self.known + self.done
        percent = 100 * (ended * STEPS // self.total) // STEPS
        rate = f", {self.done / self.took_s * 3600:,.0f} an hour"
        text = ProgressText(f"{percent} % evaluated", ended, self.total, estimate=rate)
        self._show(self._key, text)


@local_command(
    "evaluate problems/softmax sources.jsonl --out results.jsonl",
    "evaluate level1/19_ReLU sources.jsonl --out results.jsonl --checkout KernelBench",
    parameters=(
        click.argument("problem"),
        click.argument("sources_path", metavar="SOURCES", type=options.FILE),
        click.option(
            *("--out", "out"),
            type=options.NEW_FILE,
            required=True,
            metavar="RESULTS",
            help="Append the results to this file; sources that have one there are skipped.",
        ),
        click.option(
            "--mode",
            type=Choice(MODES),
            default=MODES[0],
            show_default=True,
            help="test: is it right; benchmark: how fast.",
        ),
        options.PRECISION,
        click.option(
            "--checkout",
            type=options.FOLDER,
            metavar="DIR",
            help="A checkout of KernelBench or FlashInfer-Trace, in which PROBLEM is a name.",
        ),
        click.option(
            "--device",
            "devices",
            multiple=True,
            metavar="NAME",
            help="Such as cpu or cuda:0; may be repeated. Default: every GPU here, else the CPU.",
        ),
        click.option(
            "--level-min",
            type=Choice(LEVELS),
            default=EVALUATION_LEVEL_MIN,
            show_default=True,
            help="A machine that isolates less evaluates nothing.",
        ),
        click.option("--gpu", metavar="TYPE", help="With --url, if the problem has several."),
    ),
    access=options.PLATFORM,
)
async def evaluate(
    context: AppContext,
    *,
    problem: str,
    sources_path: Path,
    out: Path,
    mode: EvaluationMode,
    precision: float,
    checkout: Path | None,
    devices: tuple[str, ...],
    level_min: str,
    gpu: str | None,
) -> int:
    """Evaluate the kernels in SOURCES for PROBLEM.

    SOURCES has a line {"id": ..., "source": ...} for each kernel, RESULTS gets a line with id,
    verdict, reason, reward, speedup, interval and more, in the order in which the kernels end. A
    call that was interrupted or killed goes on when it is repeated. The exit code is 0 if every
    kernel got a verdict, whatever it is, and 3 if one did not; the next call tries that again.
    With --url, the platform there evaluates them, and PROBLEM is the slug of one of its problems.
    """
    sources = SourceFile(sources_path)
    is_remote = bool(context.place.url or context.place.folder)
    path = Path(problem) if is_remote else find_named_problem(problem, checkout)
    with ResultFile(out) as results, context.screen.live([path.stem]) as show:
        waiting = _find_waiting(sources, results, mode)
        tally = Tally(len(sources.digests), len(sources.digests) - len(waiting), show, path.stem)
        if is_remote:
            request = EvaluationRequest(
                problem=problem, gpu=gpu, mode=mode, precision=precision, items=[]
            )
            answers = _evaluate_there(context, request, sources, waiting)
        else:
            check_torch()
            new = (source for source in sources if source.id in waiting)
            answers = _evaluate_here(
                *(path, new, mode), devices=devices, precision=precision, level_min=level_min
            )
        try:
            if waiting:
                await _collect(answers, results, tally)
        except asyncio.CancelledError:
            count = f"{tally.known + tally.done} of {tally.total}"
            context.screen.note(f"{count} evaluated, in {out}; repeat the command to go on")
            raise
        return _report(context, results, sources, tally)


def _find_waiting(sources: SourceFile, results: ResultFile, mode: str) -> set[str]:
    """Return the ids of sources without a result. Raises Refused for results of something else."""
    for id_, result in results.results.items():
        if result.mode != mode:
            reason = f"the results are of mode {result.mode}, not {mode}: choose another --out"
            raise Refused("other_results", reason, "--out")
        if sources.digests.get(id_, result.source_digest) != result.source_digest:
            reason = f"{id_} has a result for another source: choose another id or --out"
            raise Refused("other_results", reason, "--out")
    return sources.digests.keys() - results.results.keys()


async def _evaluate_here(
    problem: Path,
    sources: Iterator[EvaluationItem],
    mode: EvaluationMode,
    *,
    devices: tuple[str, ...],
    precision: float,
    level_min: str,
) -> AsyncIterator[ResultLine]:
    """Yield results as they end on this machine. Raises Refused."""
    items = ((source.id, Source(source.source, source.name)) for source in sources)
    try:
        async with Evaluator(devices or "auto", level_min=level_min) as evaluator:
            async for result in evaluator.map(problem, items, mode, precision=precision):
                fields = {name: getattr(result, name) for name in _EVALUATION_FIELDS}
                reward = known_reward(result)
                yield msgspec.convert(fields | {"reward": reward}, ResultLine, from_attributes=True)
    except EvaluatorError as error:
        raise Refused("cannot_evaluate", str(error)) from error


async def _evaluate_there(
    context: AppContext, request: EvaluationRequest, sources: SourceFile, waiting: set[str]
) -> AsyncIterator[ResultLine]:
    """Yield results as they end on a platform. Raises Refused and Failed.

    The batches are those of the file: a call that goes on gets the evaluations of the one before.
    """
    remaining = iter(sources)
    async with context.api() as api:
        while batch := list(islice(remaining, BATCH)):
            if waiting.isdisjoint(source.id for source in batch):
                continue
            full_request = msgspec.structs.replace(request, items=batch)
            async for result in evaluate_judged(api, full_request, batch_key(full_request)):
                if result.id in waiting:
                    yield _make_line(result, request.mode, sources.digests[result.id])


def _make_line(result: EvaluationResult, mode: str, source_digest: str) -> ResultLine:
    fields = {name: getattr(result, name) for name in _EVALUATION_FIELDS if hasattr(result, name)}
    # The platform's digest of a source also covers its language.
    known = {"mode": mode, "verdict": result.verdict or "", "source_digest": source_digest}
    values = fields | known | {"reward": None}
    line = msgspec.convert(values, ResultLine, from_attributes=True)
    return msgspec.structs.replace(line, reward=known_reward(line))


_EVALUATION_FIELDS = tuple(name for name in ResultLine.__struct_fields__ if name != "reward")


async def _collect(answers: AsyncIterator[ResultLine], results: ResultFile, tally: Tally) -> None:
    """Keep each result that is a verdict. Raises Refused if all are of another problem."""
    known = next(iter(results.results.values()), None)
    async for result in answers:
        if known and result.problem_digest != known.problem_digest:
            reason = "the results are of another problem or version: choose another --out"
            raise Refused("other_results", reason, "--out")
        if result.verdict:
            results.append(result)
        tally.take(result.id, result.verdict, result.reason)


def _report(context: AppContext, results: ResultFile, sources: SourceFile, tally: Tally) -> int:
    """Print how all sources ended, and return the exit code."""
    ended = [results.results[id_] for id_ in sources.digests if id_ in results.results]
    verdicts = Counter(result.verdict for result in ended)
    timed = [result for result in ended if result.speedup]
    best = max(timed, key=lambda result: result.speedup or 0.0, default=None)
    counts = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.most_common())
    lines = [f"{len(ended)} of {tally.total} have a verdict{f': {counts}' if counts else ''}"]
    if best is not None:
        lines.append(f"best: {best.id}, {speedup_text(best.speedup, best.interval)}")
    lines += [f"no verdict: {text}" for text in tally.unjudged[:UNJUDGED_SHOWN_MAX]]
    document: dict[str, Any] = {
        "sources": tally.total,
        "evaluated": tally.done,
        "verdicts": dict(verdicts),
        "best": best.id if best else None,
        "took_s": tally.took_s,
    }
    context.show(document, lines)
    return OK if len(ended) == tally.total else INFRASTRUCTURE
