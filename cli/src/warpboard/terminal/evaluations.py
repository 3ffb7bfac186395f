"""`warpboard evaluate`: many sources for one problem, for programs that write kernels."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, get_args

import click
import msgspec
from click import Choice

from harness.evaluations import known_reward
from harness.evaluator import EvaluationMode, Evaluator, EvaluatorError
from harness.vocabulary import EVALUATION_LEVEL_MIN, LEVELS, PASSED
from shared.api.evaluations import (
    Evaluation,
    EvaluationItem,
    EvaluationRequest,
    EvaluationResult,
)
from shared.errors import Refused
from shared.presentation.outcome import speedup_text
from shared.presentation.report_parts import ProgressText
from warpboard.context import AppContext
from warpboard.domain.output import INFRASTRUCTURE, OK
from warpboard.evaluation_files import ResultFile, ResultLine, Run, SourceFile, as_source
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
ACCESS = (
    click.option(
        "--url", metavar="URL", help="Let the platform at URL evaluate; WARPBOARD_URL does not."
    ),
    *options.PLATFORM[1:],
)


class Tally:
    """How far the evaluations of this call are."""

    def __init__(self, total: int, known: int, show: ShowProgress, key: str) -> None:
        self.total, self.known, self.done = total, known, 0
        self.unjudged: list[str] = []
        self.evaluation = ""
        self._show, self._key = show, key
        self._began = time.monotonic()

    def accept(self, evaluation: Evaluation) -> None:
        """Note the platform's newest evaluation, and show why it may have to wait."""
        self.evaluation = evaluation.id
        for warning in evaluation.warnings:
            self._show(self._key, ProgressText(warning))

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
            "--no-cache",
            is_flag=True,
            help="Also check kernels again that are known. Times are always new.",
        ),
        options.CHECKOUT,
        options.DEVICES,
        click.option(
            "--level-min",
            type=Choice(LEVELS),
            help=f"Isolating less, a machine evaluates nothing; default: {EVALUATION_LEVEL_MIN}.",
        ),
        click.option("--gpu", metavar="TYPE", help="With --url, if the problem has several."),
    ),
    access=ACCESS,
)
async def evaluate(
    context: AppContext,
    *,
    problem: str,
    sources_path: Path,
    out: Path,
    mode: EvaluationMode,
    precision: float,
    no_cache: bool,
    checkout: Path | None,
    devices: tuple[str, ...],
    level_min: str | None,
    gpu: str | None,
) -> int:
    """Evaluate the kernels in SOURCES for PROBLEM.

    SOURCES has a line {"id": ..., "source": ...} for each kernel, RESULTS gets a line with id,
    verdict, reason, reward, speedup, interval and more, in the order in which the kernels end. A
    call that was interrupted or killed goes on when it is repeated. The exit code is 0 if every
    kernel got a verdict, whatever it is, and 3 if one did not; the next call tries that again.
    With --url, the platform there evaluates them, and PROBLEM is the slug of one of its problems.
    """
    is_remote = bool(context.place.url or context.place.folder)
    here = {"--checkout": checkout, "--device": devices, "--level-min": level_min}
    there = {"--gpu": gpu, "--as": context.place.participant}
    _check_unused(here if is_remote else there, is_remote=is_remote)
    sources = SourceFile(sources_path)
    path = Path(problem) if is_remote else find_named_problem(problem, checkout)
    with ResultFile(out) as results, context.screen.live([path.stem]) as show:
        waiting = _find_waiting(sources, results, mode)
        tally = Tally(len(sources.digests), len(sources.digests) - len(waiting), show, path.stem)
        if is_remote:
            request = EvaluationRequest(
                problem=problem,
                gpu=gpu,
                mode=mode,
                precision=precision,
                use_cache=not no_cache,
                items=[],
            )
            answers = _evaluate_there(context, request, sources, results, tally)
        else:
            check_torch()
            new = (source for source in sources if source.id in waiting)
            evaluator = Evaluator(
                devices or "auto",
                level_min=level_min or EVALUATION_LEVEL_MIN,
                is_caching=not no_cache,
            )
            answers = _evaluate_here(evaluator, path, new, mode, precision)
        try:
            if waiting:
                await _collect(answers, results, tally)
        except asyncio.CancelledError:
            count = f"{tally.known + tally.done} of {tally.total}"
            context.screen.note(f"{count} evaluated, in {out}; repeat the command to go on")
            if tally.evaluation:
                command = context.command(f"evaluation cancel {tally.evaluation}")
                context.screen.note(f"the platform goes on meanwhile; to end that: {command}")
            raise
        results.finish_run()
        return _report(context, results, sources, tally)


def _check_unused(given: Mapping[str, object], *, is_remote: bool) -> None:
    """Raise Refused for options that would have no effect."""
    option = next((name for name, value in given.items() if value), None)
    if option is not None:
        where = "this machine, not by a platform" if is_remote else "a platform, which --url names"
        raise Refused("bad_option", f"{option} is for evaluations on {where}", option)


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
    evaluator: Evaluator,
    problem: Path,
    sources: Iterator[EvaluationItem],
    mode: EvaluationMode,
    precision: float,
) -> AsyncIterator[ResultLine]:
    """Yield results as they end on this machine. Raises Refused."""
    items = ((source.id, as_source(source)) for source in sources)
    try:
        async with evaluator:
            async for result in evaluator.map(problem, items, mode, precision=precision):
                fields = _shared_fields(result)
                reward = known_reward(result)
                yield msgspec.convert(fields | {"reward": reward}, ResultLine, from_attributes=True)
    except EvaluatorError as error:
        raise Refused("cannot_evaluate", str(error)) from error


async def _evaluate_there(
    context: AppContext,
    request: EvaluationRequest,
    sources: SourceFile,
    results: ResultFile,
    tally: Tally,
) -> AsyncIterator[ResultLine]:
    """Yield results as they end on a platform. Raises Refused and Failed.

    A call that goes on sends the batches of the one before, and gets its evaluations.
    """
    ended_before, run = set(results.results), results.open_run()
    async with context.api() as api:
        for batch in _make_batches(sources, results, run):
            if ended_before.issuperset(source.id for source in batch):
                continue
            full_request = msgspec.structs.replace(request, items=batch)
            key = batch_key(full_request, run.id)
            async for result in evaluate_judged(api, full_request, key, tally.accept):
                if result.id not in ended_before:
                    known = {"mode": request.mode, "evaluation": tally.evaluation}
                    # The platform's digest of a source also covers its language.
                    known["source_digest"] = sources.digests[result.id]
                    yield _make_line(result, known)


def _make_batches(
    sources: SourceFile, results: ResultFile, run: Run
) -> Iterator[list[EvaluationItem]]:
    """Yield the sources of a run: those that had no result when it began."""
    known = set(islice(results.results, run.known))
    remaining = (source for source in sources if source.id not in known)
    while batch := list(islice(remaining, BATCH)):
        yield batch


def _make_line(result: EvaluationResult, known: Mapping[str, str]) -> ResultLine:
    reason = result.reason or f"the item was {result.outcome}"
    missing = {"verdict": result.verdict or "", "reason": reason, "reward": None}
    values = _shared_fields(result) | dict(known) | missing
    line = msgspec.convert(values, ResultLine, from_attributes=True)
    return msgspec.structs.replace(line, reward=known_reward(line))


def _shared_fields(result: object) -> dict[str, Any]:
    """Return the fields of a result that a line has, too."""
    names = [name for name in ResultLine.__struct_fields__ if hasattr(result, name)]
    return {name: getattr(result, name) for name in names}


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
    timed = [result for result in ended if result.verdict == PASSED and result.interval]
    best = max(timed, key=lambda result: result.interval or (), default=None)
    counts = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.most_common())
    cached = sum(result.is_cached for result in ended)
    counts = (f": {counts}" if counts else "") + (f"; {cached} cached" if cached else "")
    lines = [f"{len(ended)} of {tally.total} have a verdict{counts}"]
    if best is not None:
        lines.append(f"best: {best.id}, {speedup_text(best.speedup, best.interval)}")
    lines += [f"no verdict: {text}" for text in tally.unjudged[:UNJUDGED_SHOWN_MAX]]
    document: dict[str, Any] = {
        "sources": tally.total,
        "evaluated": tally.done,
        "verdicts": dict(verdicts),
        "cached": cached,
        "best": best.id if best else None,
        "took_s": tally.took_s,
    }
    context.show(document, lines)
    if best is not None and best.evaluation:
        command = context.command(f"evaluation submit {best.evaluation} {best.item}")
        context.screen.note(f"submit it: {command}")
    return OK if len(ended) == tally.total else INFRASTRUCTURE
