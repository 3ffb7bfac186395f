"""Commands about evaluations of a platform: many sources for one problem, sent in one request."""

from collections.abc import Iterator, Sequence

import click
import msgspec
from click import Choice, IntRange

from harness.vocabulary import SUBMISSION_MODES
from shared.api.evaluations import Evaluation, EvaluationResult, Evaluations
from shared.clock import new_id
from shared.presentation.outcome import speedup_cell
from shared.presentation.units import NO_VALUE, instant_text, one_line, seconds_text, time_text
from warpboard.api import Api
from warpboard.context import AppContext
from warpboard.domain.output import OK, Table, make_table
from warpboard.service.answers import retry_until_available
from warpboard.terminal import options
from warpboard.terminal.options import api_command
from warpboard.terminal.program import NAME

LIMIT_MAX = 200
REPEAT_S_MAX = 30.0
REASON_LENGTH_MAX = 80
BEST = "best"
BATCH = click.argument("id_", metavar="BATCH")


class Item(click.ParamType[str]):
    """An item of an evaluation: its place, or `best`."""

    name = "item"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the place, or `best`."""
        if value != BEST and not (value.isascii() and value.isdecimal()):
            self.fail(f"{value!r}: expected the number of an item, or {BEST}", param, ctx)
        return value


@api_command(
    "evaluation list --problem matmul",
    parameters=(
        click.option("--problem", type=options.SLUG, metavar="SLUG", help="Only this problem."),
        click.option(
            "--limit", type=IntRange(1, LIMIT_MAX), default=50, show_default=True, help="How many."
        ),
        options.WIDE,
    ),
    access=options.VIEWER,
)
async def list_evaluations(context: AppContext, api: Api, problem: str | None, limit: int) -> int:
    """List your evaluations, newest first."""
    answer = await api.get(Evaluations, "evaluations", problem=problem, limit=limit)
    return context.show(answer.document, [evaluation_table(answer.value.items)])


@api_command(
    "evaluation show 01a1fe70-a804-7827-b3a0-39e1f99403c8",
    parameters=(BATCH, options.WIDE),
    access=options.VIEWER,
)
async def show_evaluation(context: AppContext, api: Api, id_: str) -> int:
    """Show evaluation BATCH and the results that it has so far."""
    answer = await api.get(Evaluation, "evaluations", id_)
    results = [result async for result in api.evaluation_results(id_, 0, wait=False)]
    document = answer.document | {"results": msgspec.to_builtins(results)}
    return context.show(document, list(_evaluation_parts(answer.value, results)))


@api_command(
    "evaluation submit 01a1fe70-a804-7827-b3a0-39e1f99403c8 best",
    parameters=(
        BATCH,
        click.argument("item", type=Item(), default=BEST),
        click.option(
            "--mode",
            type=Choice(SUBMISSION_MODES),
            default="ranked",
            show_default=True,
            help="The mode of the submission.",
        ),
    ),
)
async def submit_item(context: AppContext, api: Api, id_: str, item: str, mode: str) -> int:
    """Submit ITEM of evaluation BATCH, by default the best one.

    ITEM is the number that `evaluation show` lists. The best item is the one that passed with the
    highest lower bound of its speed-up; without times, the first one that passed.
    """
    key = new_id()
    with context.screen.live([NAME]) as show:
        answer = await retry_until_available(
            lambda: api.submit_item(id_, item, mode, key),
            REPEAT_S_MAX,
            lambda trouble: show(NAME, trouble),
        )
    if context.as_json:
        context.screen.json(answer.document)
        return OK
    for receipt in answer.value.submissions:
        context.screen.say(f"submission {receipt.number} received: {mode} on {receipt.gpu}")
        command = context.command(f"submission show {receipt.number} --wait")
        context.screen.note(f"wait for its verdict: {command}")
    return OK


def evaluation_table(evaluations: Sequence[Evaluation]) -> Table:
    """List evaluations and how far they are."""
    rows = [
        {
            "evaluation": evaluation.id,
            "participant": evaluation.participant,
            "problem": evaluation.problem,
            "GPU type": evaluation.gpu,
            "mode": evaluation.mode,
            "state": evaluation.outcome or evaluation.state,
            "ended": f"{evaluation.ended} of {evaluation.items}",
            "failed": evaluation.failed or None,
            "device": seconds_text(evaluation.device_s),
            "when": evaluation.requested_at,
        }
        for evaluation in evaluations
    ]
    is_of_several = len({evaluation.participant for evaluation in evaluations}) > 1
    people = () if is_of_several else ("participant",)
    return make_table(
        "evaluations", rows, optional=("failed",), extra=(*people, "device", "when", "mode")
    )


def _evaluation_parts(
    evaluation: Evaluation, results: Sequence[EvaluationResult]
) -> Iterator[str | Table]:
    yield (
        f"evaluation {evaluation.id} by {evaluation.participant or NO_VALUE}, {evaluation.mode} "
        f"for {evaluation.problem} version {evaluation.problem_version} on {evaluation.gpu}, "
        f"requested {instant_text(evaluation.requested_at)}"
    )
    yield (
        f"{evaluation.outcome or evaluation.state}: {evaluation.ended} of {evaluation.items} items "
        f"ended, {evaluation.completed} with a verdict ({evaluation.cached} cached), "
        f"{evaluation.failed} failed, {evaluation.cancelled} cancelled; "
        f"{seconds_text(evaluation.device_s)} of device time"
    )
    if results:
        yield _result_table(results)


def _result_table(results: Sequence[EvaluationResult]) -> Table:
    rows = [
        {
            "item": result.item,
            "id": one_line(result.id, 40),
            "verdict": result.verdict or result.outcome,
            "cached": "yes" if result.is_cached else None,
            "speed-up": speedup_cell(result.speedup, result.interval),
            "time": time_text(result.time_us),
            "reason": one_line(result.reason, REASON_LENGTH_MAX) or None,
        }
        for result in results
    ]
    return make_table(
        "results", rows, optional=("cached", "speed-up", "time", "reason"), extra=("reason", "time")
    )
