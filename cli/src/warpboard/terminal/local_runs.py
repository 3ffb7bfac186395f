"""Commands for work on this machine: start on a problem, run a file, and time two of them."""

from pathlib import Path
from typing import Any

import click
from click import Path as PathType

from warpboard.service import local_run, starters
from warpboard.terminal import options
from warpboard.terminal.context import AppContext, PlatformTarget, run


@click.command()
@click.argument("problem", type=options.SLUG)
@click.argument("folder_", metavar="[DIR]", required=False, type=PathType(path_type=Path))
@options.submission_gpus
@click.option(
    "--language", metavar="NAME", help="Such as cuda; default: Python, if there is a template."
)
@click.option("--force", "is_forced", is_flag=True, help="Overwrite existing files.")
@options.as_json
@options.platform_options
@options.pass_app
def init(context: AppContext, /, place: PlatformTarget, problem: str, **values: Any) -> int:
    """Start on a PROBLEM: create a folder with a file to improve.

    The folder also has the problem to read, and AGENTS.md, which tells a program that writes
    kernels how to proceed.

    \b
    Example:
      warpboard init matmul --gpu H200
    """
    folder = values["folder_"] or Path(problem)
    starter_options = starters.StarterOptions(
        problem, folder, values["gpus"], values["language"], values["is_forced"], values["as_json"]
    )
    url = context.url(place)
    return context.ask(
        place,
        lambda api: starters.write_starter(api, context.disk, context.screen, url, starter_options),
    )


@click.command()
@click.argument("file", type=options.FILE)
@click.option("--problem", type=options.PROBLEM_PATH, required=True, help="Its directory, or file.")
@options.mode("test")
@options.level_min
@options.save
@options.as_json
@options.pass_app
def run_file(context: AppContext, /, *, as_json: bool, **values: Any) -> int:
    """Run FILE here, in the agents' own harness, without a server.

    \b
    Example:
      warpboard run kernel.py --problem problems/matmul --mode benchmark
    """
    run_options = local_run.LocalRunOptions(**values | {"level_min": values["level_min"] or "none"})
    return run(
        local_run.run_locally(
            context.disk, context.harness, context.screen, run_options, as_json=as_json
        )
    )


@click.command()
@click.argument("problem", type=options.PROBLEM_PATH)
@click.argument("first", type=options.FILE)
@click.argument("second", type=options.FILE)
@options.level_min
@options.save
@options.as_json
@options.pass_app
def duel(context: AppContext, /, *, as_json: bool, **values: Any) -> int:
    """Time two files in alternation here: which is faster?

    PROBLEM is the problem's directory, or file. Every call of both is checked. Differences count
    from 0.15 % on, if the interval allows. The exit code tells how it ended: 0 both passed, 1 one
    did not, 3 infrastructure.

    \b
    Example:
      warpboard duel problems/matmul old.py new.py
    """
    duel_options = local_run.LocalDuelOptions(
        **values | {"level_min": values["level_min"] or "none"}
    )
    return run(
        local_run.duel_locally(
            context.disk, context.harness, context.screen, duel_options, as_json=as_json
        )
    )
