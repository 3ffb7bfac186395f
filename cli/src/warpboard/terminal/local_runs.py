"""Commands for work on this machine: start on a problem, run a file, and time two of them."""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from string import Template

import click
import msgspec
from click import Path as PathType

from harness.ranking_rules import score_us
from harness.vocabulary import CPU_TYPE
from shared.agent_guide import render_agent_guide
from shared.api.agents import Agents
from shared.api.fields import parse_response
from shared.api.problems import FullProblem
from shared.api.submissions import Progress, SubmissionRequest
from shared.errors import Refused
from shared.presentation.failure import describe_failure, failure_lines
from shared.presentation.outcome import Run
from shared.presentation.report_parts import run_progress
from shared.presentation.units import difference_text, one_line
from shared.problem_versions import load_problem
from shared.problems.submission_file import choose_precision, read_directives
from shared.run_values import DuelResult
from warpboard.api import Api
from warpboard.context import AppContext
from warpboard.domain.output import FAILED, INFRASTRUCTURE, OK
from warpboard.files import (
    READ_FOLDER,
    decode_source,
    read_submission,
    read_template,
    write_files,
)
from warpboard.screen import ShowProgress
from warpboard.service.answers import (
    choose_gpus,
    choose_starter,
    local_lines,
    run_heading,
    starter_files,
    with_roofline,
    with_speedups,
)
from warpboard.terminal import options
from warpboard.terminal.options import api_command, local_command
from warpboard.terminal.submissions import case_table

FILES_MAX = 64
AGENTS = "AGENTS.md"
# The folder of the problem's own files, which are there to be read, not changed.
# Where the problems of a checkout are.
PROBLEMS_FOLDER = "problems"


@api_command(
    "init matmul --gpu H200",
    parameters=(
        click.argument("problem", type=options.SLUG),
        click.argument("folder_", metavar="[DIR]", required=False, type=PathType(path_type=Path)),
        options.SUBMISSION_GPUS,
        click.option(
            "--language",
            metavar="NAME",
            help="Such as cuda; default: Python, if there is a template.",
        ),
        click.option("--force", "is_forced", is_flag=True, help="Overwrite existing files."),
    ),
)
async def init(
    context: AppContext,
    api: Api,
    *,
    problem: str,
    folder_: Path | None,
    gpus: Sequence[str],
    language: str | None,
    is_forced: bool,
) -> int:
    """Start on a PROBLEM: create a folder with a file to improve.

    The folder also has the problem to read, and AGENTS.md, which tells a program that writes
    kernels how to proceed.
    """
    folder = folder_ or Path(problem)
    details = (await api.get(FullProblem, "problems", problem)).value
    agents = (await api.get(Agents, "agents")).value.items
    types = choose_gpus(details, gpus, {agent.gpu for agent in agents if agent.is_alive})
    starter = choose_starter(details, language)
    text = await api.file("problems", details.slug, "templates", starter.language, gpu=types)
    problem_files = starter_files(details, await _fetch_files(api, details), types)
    values = {
        "slug": details.slug,
        "title": one_line(details.title, 100) or details.slug,
        "version": str(details.problem_version),
        "kernel": starter.name,
        "gpu": types[0] if types else "GPU",
        "gpus": ", ".join(types),
        "url": context.url,
        "bytes_max": f"{details.source_bytes_max or 1_000_000:,}",
    }
    guide = render_agent_guide(
        context.url, slug=details.slug, kernel=starter.name, gpu=values["gpu"]
    )
    page = f"{Template(read_template('agents.md')).substitute(values)}\n{guide}"
    files = {starter.name: text, AGENTS: page.encode()}
    files |= {f"{READ_FOLDER}/{name}": data for name, data in problem_files.items()}
    names = sorted(files)
    existing = [name for name in names if (folder / name).exists()]
    if existing and not is_forced:
        reason = f"{folder} has {', '.join(existing[:4])} already: --force overwrites them"
        raise Refused("exists", reason, "--force")
    write_files(folder, files)
    return context.show(
        {"folder": str(folder), "kernel": starter.name, "files": names},
        [str(folder / name) for name in names],
        f"next: warpboard submit {folder / starter.name} --mode test",
    )


async def _fetch_files(api: Api, problem: FullProblem) -> dict[str, bytes]:
    names = [file.name for file in problem.files if _is_inside(file.name)][:FILES_MAX]
    files = {name: await api.file("problems", problem.slug, "files", name) for name in names}
    if "statement.md" not in files:
        files["statement.md"] = (problem.statement or problem.description or problem.title).encode()
    return files


def _is_inside(name: str) -> bool:
    """Return whether a name from the platform stays inside the folder."""
    parts = Path(name).parts
    return bool(parts) and not Path(name).is_absolute() and ".." not in parts


def find_problem(file: Path, source: bytes) -> Path:
    """Return the folder of the problem that a file is for. Raises Refused if none is here."""
    folders = [file.parent / READ_FOLDER]
    if leaderboard := read_directives(decode_source(source)).leaderboard:
        folders.append(Path(PROBLEMS_FOLDER, leaderboard))
    for folder in folders:
        if folder.is_dir():
            return folder
    tried = " or ".join(map(str, folders))
    reason = f"say which problem: --problem PATH; there is no folder {tried}"
    raise Refused("unknown_problem", reason, "--problem")


@local_command(
    "run kernel.py --problem problems/matmul --mode benchmark",
    parameters=(
        click.argument(
            "files", metavar="FILES...", nargs=-1, required=True, type=options.SOURCE_PATH
        ),
        click.option(
            "--problem",
            type=options.PROBLEM_PATH,
            help="Its directory, or file. Default: the folder `problem` beside them, as init makes "
            "it, else problems/NAME by the entry file's #!POPCORN leaderboard line.",
        ),
        options.mode("test"),
        options.PRECISION,
        options.LEVEL_MIN,
        options.SAVE,
        options.WIDE,
    ),
)
async def run_file(
    context: AppContext,
    *,
    files: tuple[Path, ...],
    problem: Path | None,
    mode: str,
    precision: float,
    level_min: str | None,
    save: Path | None,
) -> int:
    """Run FILES here, in the agents' own harness, without a server.

    They are those of `submit`: the entry file, and others beside it, or a folder.
    """
    entry, *others = read_submission(*files)
    folder = files[0] if files[0].is_dir() else files[0].parent
    problem_path = problem or find_problem(folder / entry.name, entry.data)
    problem_files = load_problem(problem_path, None, (CPU_TYPE,))
    directives = read_directives(decode_source(entry.data))
    precision = choose_precision(precision, mode, directives)
    request = SubmissionRequest(
        *(entry.name, entry.data, problem_files.slug, mode),
        precision=precision,
        others=tuple(others),
    )
    with context.screen.live([entry.name]) as show:
        show_progress = _show_on(show, entry.name)
        answer = await context.harness.run(
            problem_files, request, show_progress, level_min=level_min or "none", save=save
        )
    answer = with_speedups(with_roofline(answer, problem_files.manifest))
    run_result = parse_response(answer, Run)
    timed = [case for case in run_result.cases if case.stage == "time"]
    is_scored = run_result.verdict == "passed" and bool(timed)
    times_us = [case.time_us or 0.0 for case in timed]
    weights = [case.weight for case in timed]
    score = score_us(problem_files.ranking_by, times_us, weights) if is_scored else None
    lines = local_lines(entry.name, mode, run_result, score)
    tables = [case_table(run_result.cases)] if run_result.cases else []
    context.show(
        answer | {"score_us": score},
        [*tables, *lines, *_saved_lines(save, run_result)],
    )
    return local_exit_code(run_result)


def _show_on(show: ShowProgress, key: str) -> Callable[[Progress], Awaitable[None]]:
    async def show_progress(progress: Progress) -> None:
        show(key, run_progress(progress))

    return show_progress


def _saved_lines(folder: Path | None, run: Run) -> list[str]:
    if folder is None or not run.files:
        return []
    return [f"{folder} holds {', '.join(file.name for file in run.files)}"]


def local_exit_code(run: Run) -> int:
    """Return the exit code for a run without a server; a missing verdict is our failure."""
    if not run.verdict:
        return INFRASTRUCTURE
    return OK if run.verdict == "passed" else FAILED


@local_command(
    "duel problems/matmul old.py new.py",
    parameters=(
        click.argument("problem", type=options.PROBLEM_PATH),
        click.argument("first", type=options.SOURCE_PATH),
        click.argument("second", type=options.SOURCE_PATH),
        options.LEVEL_MIN,
        options.SAVE,
    ),
)
async def duel(
    context: AppContext,
    *,
    problem: Path,
    first: Path,
    second: Path,
    level_min: str | None,
    save: Path | None,
) -> int:
    """Time two files or folders in alternation here: which is faster?

    PROBLEM is the problem's directory, or file. Every call of both is checked. Differences count
    from 0.15 % on, if the interval allows. The exit code tells how it ended: 0 both passed, 1 one
    did not, 3 infrastructure.
    """
    files = load_problem(problem, None, (CPU_TYPE,))
    submission, rival = (
        SubmissionRequest(entry.name, entry.data, files.slug, "duel", others=tuple(others))
        for entry, *others in map(read_submission, (first, second))
    )
    with context.screen.live([files.slug]) as show:
        show_progress = _show_on(show, files.slug)
        answer = await context.harness.run(
            *(files, submission, show_progress),
            rival=rival,
            level_min=level_min or "none",
            save=save,
        )
    run_result = parse_response(answer, DuelRun)
    lines = duel_lines(distinct_names(first, second), run_result)
    context.show(answer, [*lines, *_saved_lines(save, run_result)])
    return local_exit_code(run_result)


def distinct_names(first: Path, second: Path) -> tuple[str, str]:
    """Return the names of two files, with their folders if the names are the same.

    >>> distinct_names(Path("a.py"), Path("b.py")), distinct_names(Path("old/a.py"),
    ...     Path("new/a.py"))
    (('a.py', 'b.py'), ('old/a.py', 'new/a.py'))
    """
    if first.name != second.name:
        return first.name, second.name
    return str(first), str(second)


class Duel(DuelResult, frozen=True, kw_only=True):
    """The result of a local duel, with the times of each pair of blocks."""

    pairs_us: list[tuple[float, float]] = msgspec.field(default_factory=list)


class DuelRun(Run, frozen=True, kw_only=True):
    """The end of a local duel; `duel` is missing if there was no verdict."""

    duel: Duel | None = None


def duel_lines(names: tuple[str, str], run: DuelRun) -> list[str]:
    """Describe the end of a duel of two files, A and B."""
    duel, head = run.duel, run_heading(f"A {names[0]}, B {names[1]}", "duel", run)
    if duel is None or duel.ratio is None or duel.interval is None:
        return [head, *failure_lines(describe_failure(run))]
    if duel.winner == "equal":
        result = f"no measurable difference between {names[0]} and {names[1]}"
    else:
        first, second = names if duel.winner == "A" else names[::-1]
        difference = difference_text(duel.ratio, duel.interval)
        result = f"{first} is faster than {second}: {difference}"
    low, high = duel.interval
    ratio = f"time of A over time of B {duel.ratio:.4f} ({low:.4f} to {high:.4f}, 95 %)"
    return [head, result, f"{ratio}, {len(duel.pairs_us)} pairs of blocks"]
