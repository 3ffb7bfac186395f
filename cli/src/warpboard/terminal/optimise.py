"""`warpboard optimise`: a loop that makes a kernel faster, on one machine."""

import asyncio
import hashlib
import tempfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import click
from click import Choice, FloatRange, IntRange

from harness.evaluations import Evaluation
from harness.evaluator import EvaluationMode, Evaluator, EvaluatorError, Source
from harness.vocabulary import CPU_TYPE, EVALUATION_LEVEL_MIN, LEVELS
from shared.api.fields import parse_response
from shared.api.submissions import FullSubmission, SubmissionRequest
from shared.checks.problem_files import ProblemFiles
from shared.errors import Failed, Refused
from shared.presentation.outcome import speedup_cell
from shared.presentation.report_parts import ProgressText
from shared.presentation.result_card import card_lines, make_result_card
from shared.presentation.units import NO_VALUE, count_text, seconds_text
from shared.problem_versions import load_problem, write_version
from shared.problems.submission_file import read_directives, suffix
from warpboard.api import Api, Response
from warpboard.context import AppContext
from warpboard.domain.output import FAILED, INFRASTRUCTURE, OK, Table, make_table
from warpboard.domain.tuning import Template, read_template
from warpboard.files import decode_source, find_named_problem, read_submission, write_file
from warpboard.local_run import check_torch
from warpboard.model_endpoint import open_endpoint
from warpboard.optimiser_files import BEST, TraceFile, TraceLine
from warpboard.screen import ShowProgress
from warpboard.service.answers import retry_until_available, wait_until_over
from warpboard.service.optimisation.loop import Budget, Duel, Optimiser, ProblemName
from warpboard.service.optimisation.pool import Candidate, Proposal
from warpboard.service.optimisation.proposers import (
    EvolutionProposer,
    ModelProposer,
    Proposer,
    SearchProposer,
    Task,
    declared_values,
)
from warpboard.service.optimisation.retrieval import read_kernels, search_kernels
from warpboard.settings import validate_url
from warpboard.terminal import options
from warpboard.terminal.local_runs import DuelRun
from warpboard.terminal.options import local_command
from warpboard.terminal.submissions import exit_code

SEARCH, EVOLUTION, MODEL = "search", "evolution", "model"
# The start twice, one proposal in each stage, and the confirmation.
EVALUATIONS_MIN, EVALUATIONS_MAX = 6, 100_000
SUBMIT_S_MAX, RANKED_S_MAX = 60.0, 900.0
STATEMENT, REFERENCE = "statement.md", "reference.py"


@dataclass(frozen=True)
class Run:
    """What a run of the optimiser works on, and how."""

    problem: ProblemFiles
    start: Proposal
    out: Path
    by: str
    budget: Budget
    population: int = 8
    seed: int = 0
    kernels: Path | None = None
    gpu: str | None = None
    devices: tuple[str, ...] = ()
    level_min: str = EVALUATION_LEVEL_MIN
    endpoint: str = ""
    model: str = ""
    tokens: int = 0
    total_tokens: int = 0


@dataclass(frozen=True)
class Outcome:
    """What a run found: the best kernel, and its line that confirms it over the start, if any."""

    start: Candidate
    best: Candidate | None
    confirmation: TraceLine | None
    evaluations: int
    elapsed_s: float
    parent: int = 0

    @property
    def is_confirmed(self) -> bool:
        """Whether the best is certainly faster than the start, or right where that is not."""
        line = self.confirmation
        if self.best is None or line is None or not line.has_passed or line.interval is None:
            return False
        return line.speedup_over != "start" or line.interval[0] > 1.0


@local_command(
    "optimise problems/life kernel.py --out tuned",
    "optimise problems/life kernel.py --out bred --by evolution --kernels kernels",
    "optimise problems/life module.py --out written --by model --model NAME --endpoint URL",
    parameters=(
        click.argument("problem"),
        click.argument("start", type=options.FILE),
        click.option(
            "--out",
            type=options.NEW_FOLDER,
            required=True,
            metavar="DIR",
            help="For the trace and the best kernel; a call with the same DIR goes on.",
        ),
        click.option(
            "--by",
            type=Choice((SEARCH, EVOLUTION, MODEL)),
            default=SEARCH,
            show_default=True,
            help="What proposes kernels: values of the constants that START declares, parents and "
            "their constants and functions, or a language model.",
        ),
        click.option(
            "--evaluations",
            type=IntRange(EVALUATIONS_MIN, EVALUATIONS_MAX),
            default=100,
            show_default=True,
            help="The most evaluations of all calls.",
        ),
        click.option(
            "--seconds",
            type=FloatRange(min=0, min_open=True),
            default=600.0,
            show_default=True,
            help="The most seconds of all calls; confirming and submitting the best come after.",
        ),
        click.option(
            "--population",
            type=IntRange(1, 256),
            default=8,
            show_default=True,
            help="How many kernels to propose at once.",
        ),
        click.option("--seed", type=int, default=0, show_default=True, help="Of random choices."),
        click.option(
            "--kernels",
            type=options.FOLDER,
            metavar="DIR",
            help="Kernels to take parts of, or to show to the model. Default: with --url, those "
            "that the archive there finds.",
        ),
        click.option("--endpoint", metavar="URL", help="An OpenAI-compatible API, up to /v1."),
        click.option("--model", metavar="NAME", help="The model to ask there."),
        click.option(
            "--tokens",
            type=IntRange(min=1),
            default=8192,
            show_default=True,
            help="The most tokens of one answer.",
        ),
        click.option(
            "--total-tokens",
            type=IntRange(min=1),
            default=1_000_000,
            show_default=True,
            help="Ask the model nothing more once so many tokens were used.",
        ),
        click.option(
            "--submit", "is_submitted", is_flag=True, help="Submit the best as ranked, and wait."
        ),
        click.option(
            "--leaderboard",
            type=options.SLUG,
            metavar="SLUG",
            help="Where to submit and to search. Default: START's #!POPCORN leaderboard line, else "
            "the problem's name.",
        ),
        click.option("--gpu", metavar="TYPE", help="The GPU type to submit for and to search."),
        options.CHECKOUT,
        options.DEVICES,
        click.option(
            "--level-min",
            type=Choice(LEVELS),
            default=EVALUATION_LEVEL_MIN,
            show_default=True,
            help="A machine that isolates less evaluates nothing.",
        ),
    ),
    access=options.PLATFORM,
)
async def optimise(
    context: AppContext,
    *,
    problem: str,
    start: Path,
    out: Path,
    by: str,
    evaluations: int,
    seconds: float,
    population: int,
    seed: int,
    kernels: Path | None,
    endpoint: str | None,
    model: str | None,
    tokens: int,
    total_tokens: int,
    is_submitted: bool,
    leaderboard: str | None,
    gpu: str | None,
    checkout: Path | None,
    devices: tuple[str, ...],
    level_min: str,
) -> int:
    """Make a kernel faster: propose, evaluate and submit the best.

    It begins with the file START, and evaluates every proposal in the agents' harness on this
    machine. DIR gets trace.jsonl, a line for each evaluation, and the best kernel. A call that was
    interrupted or killed goes on when it is repeated. The exit code is 0 if the best kernel is
    faster than START when both are timed in alternation, and 1 if none is.
    """
    check_torch()
    files = load_problem(find_named_problem(problem, checkout), None, (CPU_TYPE,))
    ((name, source),) = ((file.name, file.data) for file in read_submission(start))
    text = decode_source(source)
    slug = leaderboard or read_directives(text).leaderboard or files.slug
    run = Run(
        files,
        Proposal("start", name, text, values=declared_values(name, text)),
        out,
        by,
        Budget(evaluations, seconds),
        population=population,
        seed=seed,
        kernels=kernels,
        gpu=gpu,
        devices=devices,
        level_min=level_min,
        endpoint=validate_url(endpoint, "--endpoint") if endpoint else "",
        model=model or "",
        tokens=tokens,
        total_tokens=total_tokens,
    )
    outcome = await run_optimiser(context, run, slug)
    submission = None
    if is_submitted and outcome.is_confirmed and outcome.best is not None:
        async with context.api() as api:
            submission = await submit_best(context, api, outcome, slug, gpu)
    return show_outcome(context, run, outcome, submission)


async def run_optimiser(context: AppContext, run: Run, slug: str) -> Outcome:
    """Run or go on with a run, and write the best kernel into its folder.

    `slug` is the problem's name on a platform. Raises Refused and Failed.
    """
    start = run.start
    template = check_run(run)
    run.out.mkdir(parents=True, exist_ok=True)
    async with AsyncExitStack() as stack:
        trace = stack.enter_context(TraceFile(run.out))
        trace.check_run(run.problem.slug, run.problem.digest, start.source)
        show = stack.enter_context(context.screen.live([run.problem.slug]))
        report = _report_on(show, run.problem.slug)
        name = ProblemName(run.problem.slug, run.problem.digest)
        try:
            evaluator = _Machine(run)
            optimiser = Optimiser(trace, name, run.budget, evaluator.evaluate, report)
            await stack.enter_async_context(evaluator)
            is_new = optimiser.is_beginning and not optimiser.is_over
            retrieved = await _retrieve(context, run, slug) if is_new else []
            first = await optimiser.begin(start, retrieved)
            _check_start(run, first)
            proposer = await _open_proposer(context, run, template, evaluator, stack)
            await optimiser.improve(proposer, run.population)
            return await _finish(context, run, optimiser, evaluator)
        except asyncio.CancelledError:
            count = count_text(len(trace.lines), "evaluation")
            context.screen.note(f"{count} so far, in {run.out}; repeat the command to go on")
            raise


def check_run(run: Run) -> Template:
    """Return the template of a run; refuse what its proposer cannot work with. Raises Refused."""
    template = read_template(run.start.name, run.start.source)
    if run.by == SEARCH and not template.tunables:
        mark = "#" if suffix(run.start.name) == ".py" else "//"
        line = f"{mark}!WARPBOARD tune BLOCK 16 32 64"
        reason = f"START: {run.start.name} declares no constant to tune"
        fix = f"begin it with lines like `{line}`, or choose --by {EVOLUTION} or {MODEL}"
        raise Refused("bad_template", f"{reason}: {fix}", "START")
    if run.by == MODEL:
        missing = {"--endpoint": run.endpoint, "--model": run.model}
        for option, value in missing.items():
            if not value:
                raise Refused("usage", f"{option}: name it, for --by {MODEL}", option)
    return template


class _Machine:
    """The evaluator of this machine, for one problem; use it as an async context manager."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._evaluator = Evaluator(run.devices or "auto", level_min=run.level_min)
        self._folder = tempfile.TemporaryDirectory(prefix="warpboard-optimise-")

    async def __aenter__(self) -> Self:
        write_version(self._run.problem, Path(self._folder.name))
        try:
            await self._evaluator.__aenter__()
        except EvaluatorError as error:
            self._folder.cleanup()
            raise Refused("cannot_evaluate", str(error)) from error
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            await self._evaluator.__aexit__()
        finally:
            self._folder.cleanup()

    @property
    def device(self) -> str:
        """The first device."""
        return self._evaluator.device_names[0]

    async def evaluate(
        self, candidates: Sequence[Candidate], mode: EvaluationMode, precision: float
    ) -> AsyncGenerator[tuple[Candidate, Evaluation], None]:
        """Yield how each kernel ended."""
        by_id = {candidate.id: candidate for candidate in candidates}
        sources = [
            (kernel.id, Source(kernel.proposal.source, kernel.proposal.name))
            for kernel in candidates
        ]
        results = self._evaluator.map(self._folder.name, sources, mode, precision=precision)
        try:
            async for result in results:
                yield by_id[int(result.id)], result
        finally:
            results.close()


def _report_on(show: ShowProgress, key: str) -> Any:
    def report(optimiser: Optimiser) -> None:
        lows = [kernel.low for kernel in optimiser.pool.fastest() if kernel.low]
        low = f", best at least {lows[0]:.3g} times the yardstick" if lows else ""
        sentence = f"{count_text(len(optimiser.pool.candidates), 'kernel')}{low}"
        total = optimiser.budget.evaluations
        show(key, ProgressText(sentence, min(optimiser.evaluations, total), total))

    return report


async def _retrieve(context: AppContext, run: Run, slug: str) -> list[Proposal]:
    """Return kernels of the folder, or of the archive of the platform that is named."""
    if run.by == SEARCH:
        return []
    if run.kernels is not None:
        return read_kernels(run.kernels, run.start.name)
    if not (context.place.url or context.place.folder or context.settings.url):
        return []
    # A model learns from kernels of other problems, too, which are no parents for evolution.
    async with context.api() as api:
        kernels = search_kernels(api, run.start, slug, run.gpu, is_own_only=run.by == EVOLUTION)
        return [kernel async for kernel in kernels]


def _check_start(run: Run, start: Candidate) -> None:
    """Refuse a start that is wrong, unless a model may translate it. Raises Refused and Failed."""
    if start.has_passed or not start.lines or run.by == MODEL:
        return
    line = start.lines[-1]
    if not line.verdict:
        raise Failed(f"START could not be evaluated: {line.reason}")
    reason = f"START: {run.start.name} does not pass ({line.verdict}): {line.reason}"
    raise Refused("bad_start", f"{reason}; fix it, or let --by {MODEL} translate it", "START")


async def _open_proposer(
    context: AppContext, run: Run, template: Template, machine: _Machine, stack: AsyncExitStack
) -> Proposer:
    if run.by == SEARCH:
        return SearchProposer(template, run.seed)
    if run.by == EVOLUTION:
        return EvolutionProposer(run.seed)
    endpoint = await stack.enter_async_context(
        open_endpoint(run.endpoint, run.model, run.tokens, context.settings.model_key)
    )
    return ModelProposer(endpoint, _describe_task(run.problem, machine.device), run.total_tokens)


def _describe_task(problem: ProblemFiles, device: str) -> Task:
    manifest = problem.parse_manifest()
    statement = problem.version_files.get(STATEMENT, b"").decode(errors="replace")
    return Task(
        title=manifest["title"] or problem.slug,
        statement=f"{manifest['description']}\n\n{statement}".strip(),
        reference=problem.version_files.get(REFERENCE, b"").decode(errors="replace"),
        device=device,
    )


async def _finish(
    context: AppContext, run: Run, optimiser: Optimiser, machine: _Machine
) -> Outcome:
    """Confirm the best kernel and write it into the folder."""

    async def compare(best: Candidate, start: Candidate) -> Duel:
        requests = [
            SubmissionRequest(
                kernel.proposal.name, kernel.proposal.source.encode(), run.problem.slug, "duel"
            )
            for kernel in (best, start)
        ]
        answer = await context.harness.run(
            *(run.problem, requests[0]),
            rival=requests[1],
            level_min=run.level_min,
            device=machine.device,
        )
        ended = parse_response(answer, DuelRun)
        duel, took_s = ended.duel, ended.took_s or 0.0
        if duel is None or duel.ratio is None or duel.interval is None:
            return Duel(ended.verdict or "", ended.reason or "", took_s=took_s)
        low, high = duel.interval
        interval = (1 / high, 1 / low)
        return Duel(ended.verdict or "", ended.reason or "", 1 / duel.ratio, interval, took_s)

    start, best = optimiser.pool.start, optimiser.pool.best()
    confirmation = None
    if best is not None and best is not start:
        confirmation = await optimiser.confirm(best, compare)
        name = f"{BEST}{suffix(best.proposal.name)}"
        write_file(run.out / name, best.proposal.source.encode())
    return Outcome(
        start,
        best,
        confirmation,
        optimiser.evaluations,
        optimiser.elapsed_s,
        optimiser.pool.submitted_parent(best) if best else 0,
    )


async def submit_best(
    context: AppContext, api: Api, outcome: Outcome, slug: str, gpu: str | None
) -> Response[FullSubmission]:
    """Submit the best kernel as ranked, with its parent, and wait until it is over.

    A repeated call waits for the same submission. Raises Refused and Failed.
    """
    assert outcome.best is not None
    proposal = outcome.best.proposal
    request = SubmissionRequest(
        f"{BEST}{suffix(proposal.name)}",
        proposal.source.encode(),
        slug,
        "ranked",
        (gpu,) if gpu else (),
        parent=outcome.parent,
    )
    key = hashlib.sha256(f"{slug} {gpu} {proposal.source}".encode()).hexdigest()
    with context.screen.live([slug]) as show:
        answer = await retry_until_available(
            lambda: api.submit(request, key), SUBMIT_S_MAX, lambda trouble: show(slug, trouble)
        )
    (receipt, *_) = answer.value.submissions
    context.screen.note(f"submission {receipt.number} received: {slug} on {receipt.gpu}")
    (over,) = await wait_until_over({receipt.number: api}, context.screen, RANKED_S_MAX)
    return over


def show_outcome(
    context: AppContext, run: Run, outcome: Outcome, submission: Response[FullSubmission] | None
) -> int:
    """Print what a run found, and return the exit code."""
    best, line = outcome.best, outcome.confirmation
    document = {
        "problem": run.problem.slug,
        "by": run.by,
        "evaluations": outcome.evaluations,
        "elapsed_s": outcome.elapsed_s,
        "best": best.id if best else None,
        "values": dict(best.proposal.values) if best else {},
        "speedup": line.speedup if line else None,
        "interval": line.interval if line else None,
        "speedup_over": line.speedup_over if line else "",
        "is_confirmed": outcome.is_confirmed,
        "submission": submission.document if submission else None,
    }
    file = f"{BEST}{suffix(run.start.name)}"
    notes = [f"the trace is in {run.out / 'trace.jsonl'}"]
    if outcome.is_confirmed:
        notes.insert(0, f"the best kernel is {run.out / file}")
    else:
        notes.insert(0, _failure_text(outcome))
    cards = card_lines(make_result_card(submission.value)) if submission else []
    context.show(document, [outcome_table([(run.by, outcome, submission)]), *notes, *cards])
    if submission:
        return exit_code(submission.value)
    if line is not None and not line.verdict:
        return INFRASTRUCTURE
    return OK if outcome.is_confirmed else FAILED


def _failure_text(outcome: Outcome) -> str:
    line = outcome.confirmation
    if outcome.best is None:
        return "no kernel that passed has a time that counts: see `grade` in the trace"
    if line is None:
        return "no kernel is faster than the start, as far as the budget reached"
    if not line.verdict:
        return f"the best kernel could not be confirmed: {line.reason}"
    if not line.has_passed:
        return f"the best kernel did not pass beside the start: {line.verdict}: {line.reason}"
    return "no measurable difference between the best kernel and the start"


def outcome_table(
    rows: Sequence[tuple[str, Outcome, Response[FullSubmission] | None]], title: str = "optimised"
) -> Table:
    """The best of each run from the same start, with the speed-up and what it took."""
    cells = []
    for by, outcome, answer in rows:
        line, submission = outcome.confirmation, answer.value if answer else None
        rank = submission.ranking.rank if submission and submission.ranking else None
        over = " the yardstick" if line and line.speedup_over == "yardstick" else ""
        cells.append(
            {
                "by": by,
                "best": _kernel_text(outcome.best),
                "speed-up": f"{speedup_cell(line.speedup, line.interval)}{over}"
                if line and line.speedup
                else NO_VALUE,
                "evaluations": outcome.evaluations,
                "took": seconds_text(outcome.elapsed_s),
                "submission": submission.number if submission else None,
                "rank": rank,
            }
        )
    title = f"{title}, from {_kernel_text(rows[0][1].start)}"
    return make_table(title, cells, optional=("submission", "rank"), extra=("took",))


def _kernel_text(candidate: Candidate | None) -> str:
    """Describe a kernel by the values that it declares, else by its number in the trace."""
    if candidate is None:
        return NO_VALUE
    values = {name: value.strip("'\"") for name, value in candidate.proposal.values.items()}
    words = " ".join(f"{name}={value}" for name, value in values.items())
    return words or f"kernel {candidate.id}"
