"""Commands for problems: show, write, check and publish them, baselines and rejudges."""

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import click
from click import IntRange
from click import Path as PathType

from warpboard.service import (
    baselines,
    checks,
    contests,
    local_run,
    moderation,
    publication,
    starters,
)
from warpboard.service import problems as problems_service
from warpboard.service.compilation import ProblemOptions
from warpboard.service.ports import Api
from warpboard.service.starters import DRAFT_FILES
from warpboard.terminal import leaderboards, options
from warpboard.terminal.command_types import ActionCommand, ApiCommand
from warpboard.terminal.context import AppContext, PlatformTarget, run

FOLDERS = click.argument(
    "folders", metavar="PATH...", nargs=-1, required=True, type=options.PROBLEM_PATH
)
SLUG = click.argument("slug", type=options.SLUG, metavar="PROBLEM")
ID = click.argument("id_", metavar="ID")
UNCHECKED = click.option(
    "--unchecked", metavar="REASON", default="", help="Publish without a check, as an operator."
)


@click.command()
@click.argument("folder", metavar="NAME", type=PathType(path_type=Path))
@click.option(
    "--form",
    type=click.Choice(list(DRAFT_FILES)),
    default="python",
    show_default=True,
    help="python: a task.yml directory; cpp: C++ and CUDA; single: one Python file.",
)
@options.as_json
@options.pass_app
def new(context: AppContext, /, folder: Path, *, form: str, as_json: bool) -> int:
    """Write a problem draft, small and complete, to start from.

    It is a folder NAME with comments in its files. It passes `problem check` unchanged. Adapt it
    file by file: the reference and the statement, the sizes in task.yml, then the solutions that
    show what its check accepts.

    \b
    Example:
      warpboard problem new fast-silu
      warpboard problem new problems/scan --form cpp
    """
    return run(
        starters.write_draft(
            context.disk, context.screen, starters.DraftOptions(folder, form, as_json)
        )
    )


list_problems = ApiCommand(
    problems_service.list_problems,
    "List every problem in its newest version.",
    "problem list",
    access=options.viewer_options,
)

show_problem = ApiCommand(
    problems_service.show_problem,
    "Show a PROBLEM: what to compute, how it is checked and ranked.",
    "problem show matmul",
    (SLUG,),
    access=options.viewer_options,
)

consent = ApiCommand(
    problems_service.update_consent,
    "Show the text that a PROBLEM asks you to accept.\n\n"
    "You must accept it before you submit to the problem.",
    "problem consent matmul --accept",
    (
        click.argument("problem", type=options.SLUG),
        click.option(
            "--accept",
            "action",
            flag_value=problems_service.ACCEPT,
            default="",
            help="Accept the text.",
        ),
        click.option(
            "--withdraw",
            "action",
            flag_value=problems_service.WITHDRAW,
            help="Withdraw your consent.",
        ),
    ),
)


@click.command()
@FOLDERS
@options.gpus("A GPU type; default: those that the files name.")
@click.option("--strict", "is_strict", is_flag=True, help="Treat every warning as an error.")
@options.as_json
@options.pass_app
def check(context: AppContext, /, folders: tuple[Path, ...], **values: Any) -> int:
    """Inspect each problem's own code and run its solutions here.

    Nothing is published. A PATH is a directory with a task.yml, a problem in a single Python file,
    or a contest file, which stands for all its problems. Inputs must depend on the seed and be hard
    to guess, and the check must reject answers that nobody computed. Each file in solutions/correct
    must pass; each in solutions/wrong must run and fail. Exit code 1 if there is an error.

    Everything runs on the processor, even for problems for GPUs. A file that names GPU types other
    than CPU does not run. If a problem names only GPUs, a failure that a missing GPU may explain is
    reported as not shown here, or as a warning, and does not change the exit code.

    \b
    Example:
      warpboard problem check problems/matmul
      warpboard problem check problems/contest.yaml
    """
    return run(checks.check(context.tools, ProblemOptions(folders, None, **values)))


@click.command()
@click.argument("path", metavar="PATH", type=options.PROBLEM_PATH)
@options.as_json
@options.pass_app
def eval_code(context: AppContext, /, path: Path, *, as_json: bool) -> int:
    """Show which harness runs submissions to a problem.

    It also shows what the harness does, and how to run it here. PATH is a problem's directory or
    file, such as the folder `problem` that `init` writes. The harness's SHA-256 covers all its
    code: agents report theirs with each run, as `harness_code`, and the platform has the files
    under /v1/harnesses.

    \b
    Example:
      warpboard problem eval-code problems/matmul
    """
    return run(
        local_run.explain_evaluation(
            context.disk, context.harness, context.screen, path, as_json=as_json
        )
    )


@click.command()
@FOLDERS
@click.option("--slug", metavar="NAME", help="The problem's name; default: the directory's.")
@options.gpus("A GPU type; default: those that the files name.")
@leaderboards.publish_options
@UNCHECKED
@click.option(
    *("--rejudge", "is_rejudged"),
    is_flag=True,
    help="Rejudge the entries of the previous version, as an operator.",
)
@click.option(
    "--dry-run", "is_dry", is_flag=True, help="Print what would be done, and change nothing."
)
@leaderboards.FORCE
@options.as_json
@options.platform_options
@options.pass_app
def publish(
    context: AppContext,
    /,
    place: PlatformTarget,
    folders: tuple[Path, ...],
    *,
    is_dry: bool,
    is_forced: bool,
    **values: Any,
) -> int:
    """Publish each PATH as its problem's newest version.

    A PATH is a directory with a task.yml, or a file. A contest file stands for all its problems,
    each with its deadline and GPU types; problems that need no change are skipped. All problems are
    checked first, as with `problem check`, unless they have not changed since their last check; if
    there is an error, none is published.

    Options that describe the problem apply from the start. `leaderboard edit` changes deadline, GPU
    types, quotas and visibility later; changing the others makes a new version.

    \b
    Example:
      warpboard problem publish problems/matmul problems/softmax
      warpboard problem publish contest.yaml --dry-run
      warpboard problem publish problems/matmul --deadline "2026-12-24 18:00" --gpu H100 \\\\
        --quota ranked=10/day --source-visible after_close --licence-submissions Apache-2.0
    """
    problem_options, publish_options = (
        ProblemOptions(folders, **values),
        contests.PublishOptions(is_dry, is_forced),
    )
    return _run_publishing(
        context,
        place,
        problem_options,
        lambda api: contests.publish_paths(api, context.tools, problem_options, publish_options),
    )


@click.command()
@click.argument("checkout", metavar="DIR", type=options.FOLDER)
@click.option("--level", type=IntRange(1, 3), required=True, help="The level.")
@options.gpus("A GPU type.", is_required=True)
@UNCHECKED
@options.as_json
@options.platform_options
@options.pass_app
def import_kernelbench(
    context: AppContext, /, place: PlatformTarget, checkout: Path, level: int, **values: Any
) -> int:
    """Publish a level of a KernelBench checkout.

    Each of its files becomes a problem. Submissions define ModelNew. Each problem is checked first,
    with its model as the solution. Level 4 needs weights that no machine here has.

    \b
    Example:
      warpboard problem import-kernelbench KernelBench --level 1 --gpu H100
    """
    problem_options = ProblemOptions((checkout,), None, **values)
    return _run_publishing(
        *(context, place, problem_options),
        lambda api: publication.publish_kernelbench(api, context.tools, level, problem_options),
    )


def _run_publishing(
    context: AppContext,
    place: PlatformTarget,
    problem_options: ProblemOptions,
    command: Callable[[Api], Coroutine[Any, Any, int]],
) -> int:
    """Run a publishing command, as an operator if the problems are unchecked."""
    return (context.operate if problem_options.unchecked else context.ask)(place, command)


list_baselines = ApiCommand(
    baselines.list_baselines,
    "List a PROBLEM's baselines and their state.\n\nIts author and operators see why one failed.",
    "problem baseline list matmul",
    (SLUG,),
    access=options.viewer_options,
)


@click.command()
@click.argument("problems", type=options.SLUG, nargs=-1, required=True)
@options.reason
@options.as_json
@options.operator_options
@options.pass_app
def run_baselines(
    context: AppContext,
    /,
    place: PlatformTarget,
    problems: tuple[str, ...],
    reason: str,
    *,
    as_json: bool,
) -> int:
    """Run the baselines of PROBLEMS again.

    They run behind all other jobs, for example after a driver update.

    \b
    Example:
      warpboard problem baseline run matmul softmax --reason "driver 580 on all H200"
    """
    run_options = baselines.BaselineRunOptions(problems, reason, as_json)
    return context.operate(
        place, lambda api: baselines.run_baselines(api, context.screen, run_options)
    )


@click.command()
@click.argument("problem", type=options.SLUG)
@click.option("--gpu", metavar="TYPE", help="Only this GPU type.")
@click.option(
    "--select",
    type=click.Choice(["best", "all"]),
    default="best",
    show_default=True,
    help="The entries of the leaderboard, or every ranked submission.",
)
@click.option("--from-version", type=IntRange(min=1), help="Default: the newest but one.")
@click.option("--to-version", type=IntRange(min=1), help="Default: the newest.")
@options.reason
@options.as_json
@options.operator_options
@options.pass_app
def start_rejudge(
    context: AppContext, /, place: PlatformTarget, *, as_json: bool, **fields: Any
) -> int:
    """Rejudge submissions to a PROBLEM.

    Nothing counts until it is applied.

    \b
    Example:
      warpboard problem rejudge start matmul --reason "version 2 checks odd sizes"
    """
    return context.operate(
        place, lambda api: moderation.start_rejudge(api, context.screen, fields, as_json=as_json)
    )


list_rejudges = ApiCommand(
    moderation.list_rejudges,
    "List the rejudges, newest first.",
    "problem rejudge list",
    access=options.operator_options,
)

show_rejudge = ApiCommand(
    moderation.show_rejudge,
    "Show rejudge ID and what it would change.\n\nThe changes are listed by submission.",
    "problem rejudge show 01HZX3",
    (ID,),
    access=options.operator_options,
)

apply_rejudge = ActionCommand(
    "POST admin/rejudges/{id_}/apply",
    "Apply rejudge ID: its results count from then on.",
    'problem rejudge apply 01HZX3 --reason "the preview is as meant"',
    (ID, options.reason),
)

discard_rejudge = ActionCommand(
    "POST admin/rejudges/{id_}/discard",
    "Discard rejudge ID: its results never count.",
    'problem rejudge discard 01HZX3 --reason "version 2 was wrong"',
    (ID, options.reason),
)
