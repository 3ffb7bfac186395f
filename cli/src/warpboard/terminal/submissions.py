"""Commands for submissions: submit, list, show, compare, cancel, withdraw and appeal."""

import sys
from pathlib import Path
from typing import Any

import click
from click import IntRange
from click import Path as PathType

from warpboard.domain.exit_codes import FAILED
from warpboard.service import leaderboards, queues, results, submission_logs, submissions
from warpboard.service.answers import ActionRequest, send_action
from warpboard.terminal import options
from warpboard.terminal.command_types import ActionCommand, ApiCommand
from warpboard.terminal.context import AppContext, PlatformTarget

LIMIT_MAX = 200


@click.command()
@click.argument("file", type=options.FILE)
@click.option(
    "--leaderboard",
    type=options.SLUG,
    metavar="SLUG",
    help="Default: the file's #!POPCORN leaderboard line.",
)
@options.submission_gpus
@options.mode("ranked")
@click.option(
    "--case",
    type=click.IntRange(0),
    default=0,
    metavar="N",
    help="With mode profile: the only timed case, from 1 on; 0 is every one.",
)
@click.option(
    "--wait/--no-wait", "is_waiting", default=True, show_default=True, help="Wait for the verdict."
)
@click.option(
    "--output",
    type=PathType(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Also write the whole answer as JSON into FILE.",
)
@click.option("--note", default="", metavar="TEXT", help="A note that only you see.")
@click.option(
    "--tag", default="", metavar="TAG", help="A word to list it by: submission list --tag TAG."
)
@options.timeout
@options.as_json
@options.platform_options
@options.pass_app
def submit(context: AppContext, /, place: PlatformTarget, **values: Any) -> int:
    """Submit FILE and wait for its verdict.

    The exit code tells how it ended: 0 passed, 1 not passed, 2 refused, 3 infrastructure,
    4 your quota is used up, 5 passed but not eligible for the leaderboard.

    \b
    Example:
      warpboard submit kernel.py --leaderboard matmul --gpu CPU --mode ranked
      warpboard submit kernel.py --mode test --json --output verdict.json
    """
    submit_options = submissions.SubmitOptions(**values)
    return context.ask(
        place, lambda api: submissions.submit(api, context.disk, context.screen, submit_options)
    )


@click.command()
@click.option("--problem", type=options.SLUG, metavar="SLUG", help="Only those for a problem.")
@click.option("--tag", metavar="TAG", help="Only yours with this tag.")
@click.option("--all", "is_all", is_flag=True, help="List everybody's that you may see.")
@click.option(
    "--limit", type=click.IntRange(1, LIMIT_MAX), default=50, show_default=True, help="How many."
)
@options.as_json
@options.viewer_options
@options.pass_app
def list_submissions(context: AppContext, /, place: PlatformTarget, **values: Any) -> int:
    """List your newest submissions.

    \b
    Example:
      warpboard submission list --problem matmul
    """
    query = submissions.SubmissionListQuery(**values)
    return context.ask(place, lambda api: submissions.list_submissions(api, context.screen, query))


@click.command()
@options.number
@click.option("--wait", "is_waiting", is_flag=True, help="Wait until it is over.")
@options.save
@options.timeout
@options.as_json
@options.viewer_options
@options.pass_app
def show_submission(
    context: AppContext, /, place: PlatformTarget, number: int, **values: Any
) -> int:
    """Show submission NUMBER: verdict, cases, history and output.

    \b
    Example:
      warpboard submission show 12 --save twelve
    """
    wait_s = values["timeout_s"] if values["is_waiting"] else None
    query = submissions.SubmissionQuery(number, wait_s, values["save"], values["as_json"])
    return context.ask(
        place, lambda api: submissions.show_submission(api, context.disk, context.screen, query)
    )


show_status = ApiCommand(
    submission_logs.show_state,
    "Show where submission NUMBER is, in one line.",
    "submission status 12",
    (options.number,),
    access=options.viewer_options,
)


@click.command()
@options.number
@click.option("--follow", "is_followed", is_flag=True, help="Follow it until it is over.")
@click.option("--after", type=click.IntRange(min=0), default=0, help="Only events after this one.")
@options.timeout
@options.as_json
@options.viewer_options
@options.pass_app
def show_logs(context: AppContext, /, place: PlatformTarget, number: int, **values: Any) -> int:
    """Show the events and output of submission NUMBER.

    With --follow, it shows them as they happen. If a connection is cut, it continues where it
    stopped: no event is missed or shown twice. With --follow --json each event is a document on its
    own line.

    \b
    Example:
      warpboard submission logs 12 --follow
    """
    within_s = values["timeout_s"] if values["is_followed"] else None
    log_options = submission_logs.LogOptions(number, within_s, values["after"], values["as_json"])
    return context.ask(
        place, lambda api: submission_logs.show_logs(api, context.screen, log_options)
    )


diff = ApiCommand(
    results.diff,
    "Compare submissions A and B: sources, and times by case.",
    "submission diff 12 15",
    (click.argument("a", type=IntRange(min=1)), click.argument("b", type=IntRange(min=1))),
    access=options.viewer_options,
)

trace = ApiCommand(
    submissions.trace,
    "Show every event of submission NUMBER, its jobs and runs.\n\nEach has its time and its actor.",
    "submission trace 12",
    (options.number,),
    access=options.viewer_options,
)

queue = ApiCommand(
    queues.queue,
    "Show who waits for each GPU type, how long, and why.",
    "submission queue --gpu H200",
    (click.option("--gpu", metavar="TYPE", help="Only this GPU type."),),
    access=options.viewer_options,
)


@click.command()
@click.option("--problem", type=options.SLUG, metavar="SLUG", help="Only those for a problem.")
@click.option(
    *("--format", "format_"),
    type=click.Choice(["json", "csv"]),
    default="json",
    show_default=True,
    help="A JSON document, or a CSV table.",
)
@click.option(
    "--output",
    type=PathType(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write to FILE; default: stdout.",
)
@options.as_json
@options.platform_options
@options.pass_app
def export(
    context: AppContext, /, place: PlatformTarget, problem: str | None, **values: Any
) -> int:
    """Export all your results, newest first.

    \b
    Example:
      warpboard submission export --format csv --output results.csv
    """
    export_options = results.ExportOptions(values["format_"], values["output"], values["as_json"])
    return context.ask(
        place,
        lambda api: results.export(api, context.disk, context.screen, problem, export_options),
    )


@click.command()
@click.argument("problem", required=False, type=options.SLUG)
@click.option("--gpu", metavar="TYPE", help="GPU type; default: all of the problem's.")
@options.as_json
@options.platform_options
@options.pass_app
def quota(
    context: AppContext,
    /,
    place: PlatformTarget,
    problem: str | None,
    *,
    gpu: str | None,
    as_json: bool,
) -> int:
    """Show what is left of your quotas.

    With a PROBLEM, only of those that count for it.

    \b
    Example:
      warpboard submission quota matmul --gpu CPU
    """
    if gpu and not problem:
        raise click.UsageError("--gpu needs a PROBLEM")
    query = leaderboards.LeaderboardQuery(problem, gpu) if problem else None
    return context.ask(place, lambda api: queues.quota(api, context.screen, query, as_json=as_json))


cancel = ActionCommand(
    "POST submissions/{number}/cancel",
    "Cancel submission NUMBER and refund its quota.",
    'submission cancel 12 --reason "the wrong file"',
    (
        options.number,
        click.option("--reason", default="", metavar="TEXT", help="The reason, for the record."),
    ),
    access=options.platform_options,
)


@click.command()
@options.number
@click.option("--yes", "is_sure", is_flag=True, help="Do not ask for confirmation.")
@options.as_json
@options.platform_options
@options.pass_app
def delete(
    context: AppContext, /, place: PlatformTarget, number: int, *, is_sure: bool, as_json: bool
) -> int:
    """Take submission NUMBER off its leaderboard for good.

    It must be yours; its quota is not refunded.

    \b
    Example:
      warpboard submission delete 12 --yes
    """
    if not is_sure:
        if not (sys.stdin and sys.stdin.isatty() and sys.stderr.isatty()):
            raise click.UsageError("cannot ask for confirmation without a terminal: add --yes")
        if not click.confirm(f"withdraw submission {number} for good?", err=True):
            context.screen.note("nothing was done")
            return FAILED
    request = ActionRequest("DELETE", ("submissions", number), {})
    return context.ask(
        place, lambda api: send_action(api, context.screen, request, as_json=as_json)
    )


appeal = ActionCommand(
    "POST submissions/{number}/appeal",
    "Appeal a decision about your submission NUMBER.\n\n`auth appeal` appeals your ban.",
    'submission appeal 12 "it reads the input once; line 4 shows where"',
    (options.number, click.argument("text")),
    access=options.platform_options,
)
