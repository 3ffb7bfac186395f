"""Commands for single submissions: follow, trace, compare, export and delete them."""

import asyncio
import csv
import io
import json
import time
from itertools import chain
from pathlib import Path
from typing import Any

import click
import msgspec
from click import IntRange

from shared.api.fields import JsonObject
from shared.api.leaderboards import Comparison
from shared.api.lineage import Lineage, LineageParent
from shared.api.problems import FullProblem
from shared.api.submissions import FullSubmission, OwnSubmissions
from shared.api_client import Unavailable
from shared.errors import Failed, Refused
from shared.presentation.outcome import printed_lines, speedup_cell
from shared.presentation.report_parts import ProgressText
from shared.presentation.result_card import card_lines, make_result_card
from shared.presentation.units import (
    NO_VALUE,
    count_text,
    first_line,
    mark_diff_lines,
    one_line,
    seconds_text,
    time_text,
)
from warpboard.api import Api
from warpboard.context import AppContext, send_action
from warpboard.domain.output import FAILED, OK, Table, make_table
from warpboard.files import write_file
from warpboard.screen import ShowProgress
from warpboard.service.answers import END, event_line, notice_progress
from warpboard.terminal import options
from warpboard.terminal.options import api_command, can_ask, confirm
from warpboard.terminal.submissions import exit_code

SILENCE_S_MAX = 60.0
PAUSE_S_MIN, PAUSE_S_MAX = 0.2, 4.0
PAGE = 200
PAGES_MAX = 500
COLUMNS = (
    *("number", "problem", "problem_version", "gpu", "mode", "name", "state", "outcome"),
    *("verdict", "code", "is_eligible", "result_version", "score_us", "is_withdrawn"),
    "received_at",
)


@api_command(
    "submission logs 12 --follow",
    parameters=(
        options.NUMBER,
        click.option("--follow", "is_followed", is_flag=True, help="Follow it until it is over."),
        click.option(
            "--after", type=IntRange(min=0), default=0, help="Only events after this one."
        ),
        options.TIMEOUT,
    ),
    access=options.VIEWER,
)
async def show_logs(
    context: AppContext, api: Api, number: int, after: int, timeout_s: float, *, is_followed: bool
) -> int:
    """Show the events and output of submission NUMBER.

    With --follow, it shows them as they happen. If a connection is cut, it continues where it
    stopped: no event is missed or shown twice. With --follow --json each event is a document on its
    own line.
    """
    if is_followed:
        follower = Follower(context, api, number, after)
        try:
            async with asyncio.timeout(timeout_s):
                await follower.follow()
        except TimeoutError as late:
            raise Failed(
                f"submission {number} is not over after {seconds_text(timeout_s)}; continue with "
                + context.command(f"submission logs {number} --follow --after {follower.place}")
            ) from late
    submission = (await api.get(FullSubmission, "submissions", number)).value
    if is_followed:
        if not context.as_json:
            context.show(None, card_lines(make_result_card(submission)))
        return exit_code(submission)
    events = [event for event in await api.history(number) if int(event.get("id", 0)) > after]
    document = {
        "number": number,
        "events": events,
        "log_head": submission.log_head,
        "log_tail": submission.log_tail,
    }
    follow = context.command(f"submission logs {number} --follow")
    note = "" if submission.is_over else f"it is still running: {follow}"
    return context.show(document, chain(map(event_line, events), printed_lines(submission)), note)


class Follower:
    """Prints each event once, in order, and reconnects when a connection is cut."""

    def __init__(self, context: AppContext, api: Api, number: int, after: int) -> None:
        self._context = context
        self._api = api
        self._number = number
        self.place = after
        self._heard_at = time.monotonic()

    async def follow(self) -> None:
        """Follow until the platform reports the end. Raises Refused, Unavailable and Failed."""
        pause_s, key = PAUSE_S_MIN, f"submission {self._number}"
        with self._context.screen.live([key]) as show:
            while True:
                began_at = self.place
                try:
                    if await self._read_connection(show, key):
                        return
                    reason = "the connection was closed"
                except Unavailable as trouble:
                    if time.monotonic() - self._heard_at > SILENCE_S_MAX:
                        raise
                    reason = str(trouble)
                pause_s = PAUSE_S_MIN if self.place > began_at else min(2 * pause_s, PAUSE_S_MAX)
                show(key, ProgressText(f"{reason}; asking on from {self.place}"))
                await asyncio.sleep(pause_s)

    async def _read_connection(self, show: ShowProgress, key: str) -> bool:
        """Print the events of one connection; return whether it reached the end."""
        async for message in self._api.events(self._number, self.place):
            self._heard_at = time.monotonic()
            if message.kind == END:
                return True
            if progress := notice_progress(message.kind, message.data):
                show(key, progress)
            elif message.place is not None and message.place > self.place:
                self.place = message.place
                if self._context.as_json:
                    self._context.screen.json_line(message.data)
                else:
                    self._context.screen.say(event_line(message.data))
        return False


@api_command(
    "submission trace 12", parameters=(options.NUMBER, options.WIDE), access=options.VIEWER
)
async def trace(context: AppContext, api: Api, number: int) -> int:
    """Show every event of submission NUMBER, its jobs and runs.

    Each has its time and its actor.
    """
    answer = await api.get(FullSubmission, "submissions", number)
    submission, items = answer.value, answer.document["timeline"]
    document = {"number": number, "state": submission.state, "items": items}
    rows: list[dict[str, Any]] = []
    previous = None
    for moment in submission.timeline:
        rows.append(
            {
                "seq": moment.seq,
                "when": moment.at,
                # Clocks of several machines may disagree.
                "after": f"+{(moment.at - previous.at).total_seconds():.3f} s" if previous else "",
                "event": moment.type,
                "actor": one_line(moment.actor) or None,
                "note": first_line(moment.note),
            }
        )
        previous = moment
    title = f"trace of submission {submission.number}"
    return context.show(document, [make_table(title, rows, extra=("when",))])


@api_command(
    "submission diff 12 15",
    parameters=(
        click.argument("a", type=IntRange(min=1)),
        click.argument("b", type=IntRange(min=1)),
        options.WIDE,
    ),
    access=options.VIEWER,
)
async def diff(context: AppContext, api: Api, a: int, b: int) -> int:
    """Compare submissions A and B: sources, and times by case."""
    answer = await api.get(Comparison, "compare", a=a, b=b)
    compared = answer.value
    parts: list[str | Table] = []
    if not compared.diff:
        parts += [
            "the sources are equal" if compared.diff == "" else "you may not see both sources"
        ]
    elif not context.as_json:
        context.screen.marked(mark_diff_lines(compared.diff))
    score = compared.score
    is_scored = score is not None and (score.a_us is not None or score.b_us is not None)
    rows = [
        (
            one_line(delta.name),
            time_text(delta.a_us),
            time_text(delta.b_us),
            _ratio_text(delta.ratio),
            " to ".join(map(_ratio_text, delta.ci95)) if delta.ci95 else NO_VALUE,
            one_line(delta.outcome) or NO_VALUE,
        )
        for delta in [*compared.cases, *([score] if score is not None and is_scored else [])]
    ]
    columns = ("case", f"number {a}", f"number {b}", "ratio", "95 %", "outcome")
    table = Table(f"submission {a} against {b}", columns, rows, extra=("95 %",))
    return context.show(answer.document, [*parts, table] if rows else parts)


@api_command(
    "submission lineage 12", parameters=(options.NUMBER, options.WIDE), access=options.VIEWER
)
async def lineage(context: AppContext, api: Api, number: int) -> int:
    """Show what submission NUMBER comes from, and what comes from it."""
    answer = await api.get(Lineage, "submissions", number, "lineage")
    members = answer.value.items
    rows = [
        {
            "generation": member.generation,
            "number": member.number,
            "participant": member.participant,
            "GPU type": member.gpu,
            "time": time_text(member.score_us),
            "gained": speedup_cell(member.speedup, member.speedup_interval),
            "over": member.speedup_over,
            "parent": "; ".join(map(_parent_text, member.parents)) or None,
            "more children": member.more_children or None,
        }
        for member in members
    ]
    optional = ("gained", "over", "parent", "more children")
    table = make_table(f"lineage of {number}", rows, optional=optional, extra=("GPU type", "over"))
    is_complete = answer.value.is_complete
    note = "" if is_complete else "the newest sources are still being compared: ask again"
    return context.show(answer.document, [table], note)


def _parent_text(parent: LineageParent) -> str:
    alike = "" if parent.similarity is None else f", {parent.similarity:.0%} alike"
    return f"{parent.number} {parent.kind}{alike}"


def _ratio_text(ratio: float | None) -> str:
    return NO_VALUE if ratio is None else f"{ratio:.3f}"


@api_command(
    "submission export --format csv --output results.csv",
    parameters=(
        click.option(
            "--problem", type=options.SLUG, metavar="SLUG", help="Only those for a problem."
        ),
        click.option(
            *("--format", "format_"),
            type=click.Choice(["json", "csv"]),
            default="json",
            show_default=True,
            help="A JSON document, or a CSV table.",
        ),
        click.option(
            "--output",
            type=options.NEW_FILE,
            metavar="FILE",
            help="Write to FILE; default: stdout.",
        ),
    ),
)
async def export(
    context: AppContext, api: Api, problem: str | None, format_: str, output: Path | None
) -> int:
    """Export all your results, newest first."""
    items: list[JsonObject] = []
    cursor: str | None = None
    with context.screen.live(["export"]) as show:
        for _ in range(PAGES_MAX):
            page = await api.get(
                *(OwnSubmissions, "me", "submissions"), limit=PAGE, problem=problem, cursor=cursor
            )
            items += page.document["items"]
            cursor = page.value.next_cursor
            if not cursor:
                break
            count = count_text(len(items), "submission")
            show("export", ProgressText("exporting", estimate=f": {count}"))
    if format_ == "csv":
        text = format_csv(items)
    else:
        encoded = msgspec.json.encode({"submissions": items})
        text = msgspec.json.format(encoded, indent=2).decode() + "\n"
    if output is None:
        context.screen.text(text)
        return OK
    write_file(output, text.encode())
    written = {"file": str(output), "submissions": len(items)}
    return context.show(written, [f"{output} holds {count_text(len(items), 'submission')}"])


@api_command(
    "submission flashinfer-trace 12 --output traces.jsonl",
    parameters=(
        options.NUMBER,
        click.option(
            "--output",
            type=options.NEW_FILE,
            metavar="FILE",
            help="Write to FILE; default: stdout.",
        ),
    ),
    access=options.VIEWER,
)
async def flashinfer_trace(context: AppContext, api: Api, number: int, output: Path | None) -> int:
    """Export the run of submission NUMBER as FlashInfer-Trace traces.

    There is one for each workload of the definition, a JSON document on its own line.
    """
    from shared.problems.flashinfer_schema import DEFINITION, WORKLOADS
    from shared.problems.flashinfer_solutions import make_traces

    submission = (await api.get(FullSubmission, "submissions", number)).value
    path = "problems", submission.problem
    version = submission.problem_version
    problem = (await api.get(FullProblem, *path, version=version)).value
    if WORKLOADS not in [file.name for file in problem.files]:
        reason = f"{problem.slug} is not a definition of FlashInfer-Trace"
        raise Refused("not_supported", f"{reason}: only their runs are traces", "NUMBER")
    definition, workloads = [
        await api.file(*path, "files", name, version=[str(version)])
        for name in (DEFINITION, WORKLOADS)
    ]
    traces = make_traces(definition, workloads, submission)
    text = "".join(f"{json.dumps(trace)}\n" for trace in traces)
    if output is None:
        context.screen.text(text)
        return OK
    write_file(output, text.encode())
    written = {"file": str(output), "traces": len(traces)}
    return context.show(written, [f"{output} holds {count_text(len(traces), 'trace')}"])


def format_csv(items: list[JsonObject]) -> str:
    r"""Format results as CSV, one line each; unknown values are empty.

    >>> format_csv([{"number": 3, "problem": "p"}]).splitlines()[1]
    '3,p,,,,,,,,,,,,,'
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows([item.get(name) for name in COLUMNS] for item in items)
    return text.getvalue()


@api_command("submission delete 12 --yes", parameters=(options.NUMBER, options.YES))
async def delete(context: AppContext, api: Api, number: int, *, is_sure: bool) -> int:
    """Take submission NUMBER off its leaderboard for good.

    It must be yours; its quota is not refunded.
    """
    if not is_sure:
        if not can_ask():
            raise click.UsageError("cannot ask for confirmation without a terminal: add --yes")
        if not await confirm(f"withdraw submission {number} for good?"):
            context.screen.note("nothing was done")
            return FAILED
    return await send_action(context, api, "DELETE", "submissions", number)
