"""What authors do: look at a problem, check it, publish it, judge submissions again."""

from pathlib import Path
from typing import Any

import click

from warpboard.service import checking, publishing, reading, running
from warpboard.terminal import options
from warpboard.terminal.completion import PROBLEM
from warpboard.terminal.desk import Desk, Place, run
from warpboard.terminal.rejudges import rejudges

FOLDERS = click.argument(
    "folders", metavar="PATH...", nargs=-1, required=True, type=options.PROBLEM
)
GPUS = click.option(
    "--gpu", "gpus", metavar="NAME", multiple=True, help="A GPU type, if the problem names none."
)


@click.group(cls=options.Group)
def problems() -> None:
    """Look at problems, check and publish them, judge submissions to them again."""


@problems.command()
@click.argument("problem", type=PROBLEM)
@options.as_json
@options.seen
@click.pass_obj
def show(desk: Desk, /, place: Place, problem: str, *, as_json: bool) -> int:
    """Show a PROBLEM whole: what is to be computed, how it is checked and ranked.

    \b
    Example:
      warpboard problem show matmul
    """
    return desk.ask(place, lambda api: reading.problem(api, desk.screen, problem, as_json=as_json))


@problems.command()
@FOLDERS
@GPUS
@options.as_json
@click.pass_obj
def check(desk: Desk, /, folders: tuple[Path, ...], gpus: tuple[str, ...], *, as_json: bool) -> int:
    """Compile each problem here and run its solutions; nothing is published.

    A PATH is a directory with a task.yml, a problem that is one file of Python, or a contest
    file, which stands for all its problems. Each file of solutions/correct must pass, each of
    solutions/wrong must run and not. Exit code 1 if one of them is otherwise. One that names
    GPU types, CPU not among them, is not shown here, and is no reason for 1.

    \b
    Example:
      warpboard problem check problems/matmul
      warpboard problem check problems/contest.yaml
    """
    wanted = publishing.Asked(folders, None, as_json, gpus)
    return run(checking.check(desk.disk, desk.harness, desk.screen, wanted))


@problems.command("eval-code")
@click.argument("path", metavar="PATH", type=options.PROBLEM)
@options.as_json
@click.pass_obj
def eval_code(desk: Desk, /, path: Path, *, as_json: bool) -> int:
    """Say which harness runs submissions to a problem, what it does, and how to run it here.

    PATH is a problem's directory or file, such as the folder `problem` that `init` writes.

    \b
    Example:
      warpboard problem eval-code problems/matmul
    """
    return run(running.explain(desk.disk, desk.harness, desk.screen, path, as_json=as_json))


@problems.command()
@FOLDERS
@click.option("--slug", metavar="NAME", help="The problem's name; else the directory's.")
@GPUS
@options.as_json
@options.place
@click.pass_obj
def publish(desk: Desk, /, place: Place, folders: tuple[Path, ...], **asked: Any) -> int:
    """Publish each directory with a task.yml, or file, as its problem's newest version.

    \b
    Example:
      warpboard problem publish problems/matmul problems/softmax
    """
    wanted = publishing.Asked(folders, **asked)
    return desk.ask(place, lambda api: publishing.add(api, desk.disk, desk.screen, wanted))


@problems.command("import-kernelbench")
@click.argument("checkout", metavar="DIR", type=options.FOLDER)
@click.option("--level", type=click.IntRange(1, 3), required=True, help="Which level of it.")
@click.option("--gpu", "gpus", metavar="NAME", multiple=True, required=True, help="A GPU type.")
@options.as_json
@options.place
@click.pass_obj
def import_kernelbench(
    desk: Desk, /, place: Place, checkout: Path, level: int, **asked: Any
) -> int:
    """Publish a level of a KernelBench checkout, a problem for each of its files.

    A submission to one defines ModelNew. Level 4 needs weights that no machine here has.

    \b
    Example:
      warpboard problem import-kernelbench KernelBench --level 1 --gpu H100
    """
    wanted = publishing.Asked((checkout,), None, **asked)
    return desk.ask(
        place, lambda api: publishing.add_kernelbench(api, desk.disk, desk.screen, level, wanted)
    )


def problem() -> click.Group:
    """The group of problems."""
    group = options.Group("problem", dict(problems.commands), help=problems.help)
    group.add_command(rejudges())
    return group
