"""What authors do: look at a problem, check it, publish it, judge submissions again."""

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import click

from warpboard.service import checking, contests, publishing, reading, running
from warpboard.service.compiling import Asked
from warpboard.service.ports import Api
from warpboard.terminal import boards, options
from warpboard.terminal.completion import PROBLEM
from warpboard.terminal.desk import Desk, Place, run
from warpboard.terminal.drafts import new
from warpboard.terminal.rejudges import rejudges

FOLDERS = click.argument(
    "folders", metavar="PATH...", nargs=-1, required=True, type=options.PROBLEM
)
GPUS = click.option(
    *("--gpu", "gpus"),
    type=options.GPU,
    metavar="NAME",
    multiple=True,
    help="A GPU type; else those the files name.",
)
UNCHECKED = click.option(
    "--unchecked", metavar="REASON", default="", help="Publish without a check, as an operator."
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
@click.option("--strict", "is_strict", is_flag=True, help="Take every warning for an error.")
@options.as_json
@click.pass_obj
def check(desk: Desk, /, folders: tuple[Path, ...], **asked: Any) -> int:
    """Look at each problem's own code and run its solutions here; nothing is published.

    A PATH is a directory with a task.yml, a problem that is one file of Python, or a contest
    file, which stands for all its problems. Inputs must follow from the seed and be hard to
    guess, the check must take no answer that nobody computed. Each file of solutions/correct
    must pass, each of solutions/wrong must run and not. Exit code 1 if there is an error.

    All of it runs on the processor, of a problem for GPUs, too. A file that names GPU types, CPU
    not among them, does not run. Where a problem names none but GPUs, what fails here and may need
    one of them is said not to be shown, or is a warning. Neither is a reason for 1.

    \b
    Example:
      warpboard problem check problems/matmul
      warpboard problem check problems/contest.yaml
    """
    return run(checking.check(desk.tools, Asked(folders, None, **asked)))


@problems.command("eval-code")
@click.argument("path", metavar="PATH", type=options.PROBLEM)
@options.as_json
@click.pass_obj
def eval_code(desk: Desk, /, path: Path, *, as_json: bool) -> int:
    """Say which harness runs submissions to a problem, what it does, and how to run it here.

    PATH is a problem's directory or file, such as the folder `problem` that `init` writes. The
    harness's SHA-256 is of all its code: agents say theirs with each run, as `harness_code`, and
    the platform has the files under /v1/harnesses.

    \b
    Example:
      warpboard problem eval-code problems/matmul
    """
    return run(running.explain(desk.disk, desk.harness, desk.screen, path, as_json=as_json))


@problems.command()
@FOLDERS
@click.option("--slug", metavar="NAME", help="The problem's name; else the directory's.")
@GPUS
@boards.of_publishing
@UNCHECKED
@click.option(
    *("--rejudge", "is_rejudged"),
    is_flag=True,
    help="Run what stands under the version before again, as an operator.",
)
@click.option("--dry-run", "is_dry", is_flag=True, help="Say what would be done, and do nothing.")
@boards.FORCE
@options.as_json
@options.place
@click.pass_obj
def publish(
    desk: Desk,
    /,
    place: Place,
    folders: tuple[Path, ...],
    *,
    is_dry: bool,
    is_forced: bool,
    **asked: Any,
) -> int:
    """Publish each directory with a task.yml, or file, as its problem's newest version.

    A contest file stands for all its problems, each with its deadline and GPU types; what is
    published so already is skipped. All of them are checked first, as by `problem check`, unless
    they were since they changed; where there is an error, none is published.

    What is said beside the files is so from the first moment on; `problem set` changes deadline,
    GPU types, quotas and who sees it later, the rest of it is another version.

    \b
    Example:
      warpboard problem publish problems/matmul problems/softmax
      warpboard problem publish contest.yaml --dry-run
      warpboard problem publish problems/matmul --deadline "2026-12-24 18:00" --gpu H100 \\
        --quota ranked=10/day --source-visible after_close --licence-submissions Apache-2.0
    """
    wanted, how = Asked(folders, **asked), contests.How(is_dry, is_forced)
    return _put(desk, place, wanted, lambda api: contests.add(api, desk.tools, wanted, how))


@problems.command("import-kernelbench")
@click.argument("checkout", metavar="DIR", type=options.FOLDER)
@click.option("--level", type=click.IntRange(1, 3), required=True, help="Which level of it.")
@click.option(
    *("--gpu", "gpus"),
    type=options.GPU,
    metavar="NAME",
    multiple=True,
    required=True,
    help="A GPU type.",
)
@UNCHECKED
@options.as_json
@options.place
@click.pass_obj
def import_kernelbench(
    desk: Desk, /, place: Place, checkout: Path, level: int, **asked: Any
) -> int:
    """Publish a level of a KernelBench checkout, a problem for each of its files.

    A submission to one defines ModelNew. Each is checked first, with its model as the solution.
    Level 4 needs weights that no machine here has.

    \b
    Example:
      warpboard problem import-kernelbench KernelBench --level 1 --gpu H100
    """
    wanted = Asked((checkout,), None, **asked)
    return _put(
        *(desk, place, wanted),
        lambda api: publishing.add_kernelbench(api, desk.tools, level, wanted),
    )


def _put(
    desk: Desk, place: Place, wanted: Asked, command: Callable[[Api], Coroutine[Any, Any, int]]
) -> int:
    """What is not checked is an operator's to publish."""
    return (desk.operate if wanted.unchecked else desk.ask)(place, command)


def problem() -> click.Group:
    """The group of problems."""
    group = options.Group("problem", dict(problems.commands), help=problems.help)
    for one in (new, boards.show_settings, boards.change_settings):
        group.add_command(one)
    group.add_command(rejudges())
    return group
