"""Commands for authors of problems: draft, check, explain and publish them."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Any

import click
from click import IntRange
from click import Path as PathType

from harness.ranking_rules import describe_ranking, timed_cases
from harness.vocabulary import CPU_TYPE, MODES, SUBMISSION_MODES
from shared.api.fields import JsonObject
from shared.checks.problem_files import ProblemFiles
from shared.errors import Failed, Refused
from shared.presentation.units import count_text
from shared.problem_versions import SLUG_LENGTH_MAX, load_problem
from shared.problems.evaluation import evaluation_files, render_evaluation
from warpboard.api import Api
from warpboard.context import AppContext
from warpboard.files import find_level, read_template, write_files
from warpboard.service import checks, publication
from warpboard.service.creation import Creation, CreationOptions
from warpboard.service.publication import ProblemOptions
from warpboard.terminal import options, problems
from warpboard.terminal.options import api_command, ask, can_ask, confirm, local_command

FOLDERS = click.argument(
    "folders", metavar="PATH...", nargs=-1, required=True, type=options.PROBLEM_PATH
)
UNCHECKED = click.option(
    "--unchecked", metavar="REASON", default="", help="Publish without a check, as an operator."
)
DRAFT_SLUG = re.compile(rf"[a-z0-9][a-z0-9_-]{{0,{SLUG_LENGTH_MAX - 1}}}\Z")
# The folder of the page templates, one folder per form, and their suffix.
TEMPLATE_FOLDER, DRAFT_SUFFIX = "problem", ".txt"
_TASK_FILES = ("task.yml", "warpboard.yml", "statement.md")
DRAFT_FILES: Mapping[str, Sequence[str]] = {
    "python": (
        *_TASK_FILES,
        *("task.py", "reference.py", "template.py", "baselines/plain.py"),
        *("solutions/correct/plain.py", "solutions/correct/in_place.py"),
        *("solutions/wrong/float16.py", "solutions/wrong/nan.py", "solutions/wrong/no_tail.py"),
    ),
    "cpp": (
        *_TASK_FILES,
        *("task.h", "reference.cuh", "template.cu"),
        *("solutions/correct/plain.cpp", "solutions/correct/by_tanh.cpp"),
        *("solutions/wrong/nan.cpp", "solutions/wrong/no_tail.cpp", "solutions/wrong/rounded.cpp"),
    ),
    "single": (
        *("reference.py", "warpboard.yml", "statement.md"),
        *("solutions/correct/plain.py", "solutions/correct/in_place.py"),
        *("solutions/wrong/float16.py", "solutions/wrong/nan.py"),
    ),
}
SCHEMAS = {"task.yml": "task.json", "warpboard.yml": "warpboard.json"}
_ENTRIES = {"kernelbench": "class ModelNew", "": "custom_kernel(data)"}
_CALLS = 2
OURS = (
    "the supervisor draws the seed of each call from a key of the run, makes the input, starts its"
    " clock, shows the input, waits, copies the answer, stops its clock, and judges the copy"
)
THEIRS = (
    "the problem's own {main} runs in the submission's process and says the verdict and the times:"
    " tier G0, which ranks nowhere but where an operator says so"
)


@local_command(
    "problem new fast-silu",
    "problem new problems/scan --form cpp",
    parameters=(
        click.argument("folder", metavar="NAME", type=PathType(path_type=Path)),
        click.option(
            "--form",
            type=click.Choice(list(DRAFT_FILES)),
            default="python",
            show_default=True,
            help="python: a task.yml directory; cpp: C++ and CUDA; single: one Python file.",
        ),
    ),
)
def new(context: AppContext, folder: Path, form: str) -> int:
    """Write a problem draft, small and complete, to start from.

    It is a folder NAME with comments in its files. It passes `problem check` unchanged. Adapt it
    file by file: the reference and the statement, the sizes in task.yml, then the solutions that
    show what its check accepts. If a platform is known (WARPBOARD_URL, or one that runs here), the
    YAML files name its schemas, so that an editor completes and checks their keys.
    """
    slug, names = checked_slug(folder.name), DRAFT_FILES[form]
    if folder.exists():
        reason = f"{folder} is there already: take another name, or remove it first"
        raise Refused("exists", reason, "NAME")
    title = slug.replace("-", " ").replace("_", " ").strip().capitalize() or slug
    files = {}
    for name in names:
        page = read_template(f"{TEMPLATE_FOLDER}/{form}/{name}{DRAFT_SUFFIX}")
        text = schema_comment(context, name) + Template(page).substitute(title=title)
        files[name] = text.encode()
    write_files(folder, files, is_private=False)
    return context.show(
        {"folder": str(folder), "slug": slug, "files": sorted(names)},
        [str(folder / name) for name in names],
        f"next: warpboard problem check {folder}",
    )


def schema_comment(context: AppContext, name: str) -> str:
    """Return the line with which a YAML file names its schema, "" if no platform is known."""
    if name not in SCHEMAS:
        return ""
    try:
        return f"# yaml-language-server: $schema={context.url}/schemas/{SCHEMAS[name]}\n"
    except Failed:
        return ""


def checked_slug(name: str) -> str:
    """Return a folder's name as a slug. Raises Refused and suggests a valid one.

    >>> checked_slug("fast-silu")
    'fast-silu'
    """
    if DRAFT_SLUG.match(name):
        return name
    words = re.findall(r"[a-z0-9_]+", name.lower())
    suggestion = "-".join(words).lstrip("_-")[:SLUG_LENGTH_MAX]
    hint = f": {suggestion} would do" if suggestion else ""
    reason = f"{name!r} names no problem: a-z 0-9 _ -, at most {SLUG_LENGTH_MAX}{hint}"
    raise Refused("bad_problem", reason, "NAME")


@api_command(
    "problem create sums reference.py --deadline 2026-12-24",
    "problem create sums reference.cu --gpu H100 --gpu B200 --yes",
    parameters=(
        click.argument("name", metavar="NAME"),
        click.argument("path", metavar="FILE", type=options.PROBLEM_PATH),
        problems.DEADLINE,
        options.gpus("A GPU type; default: those that the file names, or that have an agent."),
        problems.VISIBILITY,
        click.option(
            "--description", metavar="TEXT", default="", help="What to compute, as Markdown."
        ),
        problems.FORCE,
        problems.ALLOW_UNTESTED,
        click.option("--yes", "is_sure", is_flag=True, help="Publish it without asking."),
        options.TIMEOUT,
    ),
)
async def create(
    context: AppContext,
    api: Api,
    *,
    name: str,
    path: Path,
    gpus: tuple[str, ...],
    description: str,
    is_sure: bool,
    timeout_s: float,
    **fields: Any,
) -> int:
    """Let an agent check a problem in one file, then publish it as NAME.

    FILE is one reference (.py, .cu, .cuh, .cpp): generate_input, ref_kernel, check_implementation.
    The reference is its own first correct solution. A directory with a task.yml will do, too.
    Nothing of it runs here.

    It shows what the agent does and finds, then asks whether to publish; --yes publishes if there
    is no error. Ctrl-C ends the wait only: the same command with the same file continues. Without a
    terminal, GPU types are those with an agent, and only --yes publishes.

    Exit code 1: the check found an error, or nothing was published.
    """

    async def choose_gpus(served: Sequence[str]) -> tuple[str, ...]:
        if is_sure or len(served) < 2 or context.as_json or not can_ask():
            return tuple(served)
        answer = await ask(f"GPU types of its leaderboards [{' '.join(served)}]: ")
        return tuple(map(options.GPU, re.split(r"[,\s]+", answer))) if answer else tuple(served)

    async def confirm_publication(question: str) -> bool:
        if is_sure or context.as_json or not can_ask():
            return is_sure
        return await confirm(question)

    given_fields = {
        "allow_untested": fields.pop("allows_untested"),
        "force": fields.pop("is_forced"),
        **{name: value for name, value in fields.items() if value},
    }
    creation = Creation(context, api, path, choose_gpus, confirm_publication)
    return await creation.run(
        checked_slug(name), CreationOptions(gpus, description, given_fields, timeout_s)
    )


@local_command(
    "problem check problems/matmul",
    "problem check problems/contest.yaml",
    "problem check problems/matmul --watch",
    parameters=(
        FOLDERS,
        options.gpus("A GPU type; default: those that the files name."),
        click.option(
            "--strict", "is_strict", is_flag=True, help="Treat every warning as an error."
        ),
        click.option(
            "--watch",
            "is_watching",
            is_flag=True,
            help="Check again whenever a file of the problem changes, until Ctrl-C.",
        ),
        options.WIDE,
    ),
)
async def check(
    context: AppContext,
    folders: tuple[Path, ...],
    gpus: tuple[str, ...],
    *,
    is_strict: bool,
    is_watching: bool,
) -> int:
    """Inspect each problem's own code and run its solutions here.

    Nothing is published. A PATH is a directory with a task.yml, a problem in one file (Python, C++
    or CUDA), or a competition file or a level of KernelBench, which stand for all their problems.
    Inputs must depend on the seed and be hard to guess, and the check must reject answers that
    nobody computed. Each file in solutions/correct must pass; each in solutions/wrong must run and
    fail. Exit code 1 if there is an error.

    Everything runs on the processor, even for problems for GPUs. A file that names GPU types other
    than CPU does not run. If a problem names only GPUs, a failure that a missing GPU may explain is
    reported as not shown here, or as a warning, and does not change the exit code.

    With --watch, Ctrl-C ends it with the exit code of the last check that was complete. With
    --watch --json, each check is a document on its own line.
    """
    run_checks = checks.watch if is_watching else checks.check
    return await run_checks(context, folders, gpus, is_strict=is_strict)


@local_command(
    "problem eval-code problems/matmul",
    "problem eval-code problem --output problem",
    parameters=(
        click.argument("path", metavar="PATH", type=options.PROBLEM_PATH),
        click.option(
            "--output",
            type=options.NEW_FOLDER,
            metavar="FOLDER",
            help="Also write eval.py or eval.cu, and its utilities, into FOLDER.",
        ),
    ),
)
def eval_code(context: AppContext, path: Path, output: Path | None) -> int:
    """Show which harness runs submissions to a problem.

    It also shows what the harness does, and how to run it here. PATH is a problem's directory or
    file, such as the folder `problem` that `init` writes. The harness's SHA-256 covers all its
    code: agents report theirs with each run, as `harness_code`, and the platform has the files
    under /v1/harnesses.

    With --output, it writes a short program that states the procedure, with the cases of the
    problem. Put your submission beside it and the problem's files, and run it.
    """
    problem = load_problem(path, None, (CPU_TYPE,))
    parts = describe_evaluation(problem.slug, problem.manifest, context.harness.code(), path)
    if output is not None:
        parts["written"] = ", ".join(write_evaluation(problem, path, output))
    document = {name.replace(" ", "_").replace("'", ""): text for name, text in parts.items()}
    return context.show(document, [f"{name + ':':<15}{text}" for name, text in parts.items()])


def write_evaluation(problem: ProblemFiles, path: Path, folder: Path) -> list[str]:
    """Write the program that states the procedure, and return the paths.

    Raises Refused if only the harness can run the problem.
    """
    manifest = problem.parse_manifest()
    names = evaluation_files(manifest)
    if not names:
        reason = "only the harness runs this problem: use `warpboard run`"
        raise Refused("not_found", reason, "--output")
    files = {name: render_evaluation(name, manifest, problem.version_files) for name in names}
    own_folder = path if path.is_dir() else path.parent
    # Files of the version that the author did not write, such as the types of a single file.
    files |= {
        name: data
        for name, data in problem.version_files.items()
        if not (own_folder / name).exists()
    }
    write_files(folder, files, is_private=False)
    return [str(folder / name) for name in files]


def describe_evaluation(slug: str, manifest: bytes, code: JsonObject, path: Path) -> dict[str, str]:
    """Describe a run: who calls what, how often, and how to run it here.

    `code` describes the harness; `path` is the problem's folder.
    """
    problem: dict[str, Any] = json.loads(manifest)
    main, form = problem.get("main", ""), problem.get("form", "")
    is_native = problem["lang"] == "cu"
    entry_point = (
        "output_t custom_kernel(input_t)" if is_native else _ENTRIES.get(form, _ENTRIES[""])
    )
    timed = timed_cases(problem["ranking_by"], problem["benchmarks"])
    weights = [case.get("weight", 1.0) for case in timed]
    scored_by = describe_ranking(problem["ranking_by"], weights)
    calls = problem.get("calls", _CALLS)
    parts = {
        "problem": slug,
        "defines": f"what {main} calls" if main else entry_point,
        "called by": THEIRS.format(main=main) if main else OURS,
        "checked": f"{count_text(len(problem['tests'] or timed), 'case')}, {calls} calls each",
        "timed": f"{count_text(len(timed), 'case')}, scored by {scored_by}",
        "budgets": ", ".join(f"{key} {value} s" for key, value in problem["budgets_s"].items()),
        "stages": "; ".join(
            f"{mode}: {', '.join(MODES[mode].stages)}" for mode in SUBMISSION_MODES
        ),
        "author's code": ", ".join(sorted(problem["files"])),
        "harness": f"version {code['version']}, SHA-256 {code['digest']}",
        "its code": code["folder"],
        "the same here": f"warpboard run FILE --problem {path} --mode ranked",
    }
    if main:
        count = count_text(len(problem["tests"]), "case")
        parts["checked"] = f"{count}, as {main} calls them"
    return parts


@local_command(
    "problem publish problems/matmul problems/softmax",
    "problem publish contest.yaml --dry-run",
    "problem publish reference.cu --slug heat --gpu H100 --allow-untested",
    "problem publish KernelBench/level1 --gpu H100 --allow-untested",
    'problem publish problems/matmul --deadline "2026-12-24 18:00" --gpu CPU --gpu H100 \\\\\n'
    "    --quota ranked=10/day --source-visible after_close --licence-submissions Apache-2.0",
    parameters=(
        FOLDERS,
        click.option(
            "--slug", metavar="NAME", help="The problem's name; default: the directory's."
        ),
        options.gpus("A GPU type; default: those that the files name."),
        *problems.PUBLISH_OPTIONS,
        UNCHECKED,
        click.option(
            *("--rejudge", "is_rejudged"),
            is_flag=True,
            help="Rejudge the entries of the previous version, as an operator.",
        ),
        click.option(
            *("--dry-run", "is_dry"),
            is_flag=True,
            help="Print what would be done, and change nothing.",
        ),
        problems.FORCE,
        problems.ALLOW_UNTESTED,
    ),
    access=options.PLATFORM,
)
async def publish(context: AppContext, folders: tuple[Path, ...], **values: Any) -> int:
    """Publish each PATH as its problem's newest version.

    A PATH is a directory with a task.yml, or a problem in one file: Python, C++ or CUDA. A contest
    file stands for all its problems, each with its deadline and GPU types; problems that need no
    change are skipped. All problems are checked first, as with `problem check`, unless they have
    not changed since their last check; if there is an error, none is published.

    A level of KernelBench, such as KernelBench/level1, stands for its models. Each is published as
    soon as it was checked, and one with an error stops no other. After an interruption, the same
    command continues with those that are not published yet.

    The check runs on the processor. If no GPU type of the leaderboards is CPU, nothing was run on
    them: --allow-untested publishes them all the same, and their pages say so.

    Options that describe the problem apply from the start. `leaderboard edit` changes deadline, GPU
    types, quotas and visibility later; changing the others makes a new version.
    """
    problem_options = ProblemOptions(folders, **problems.split_publish_options(values))
    # Only operators publish without a check.
    async with context.operator_api() if problem_options.unchecked else context.api() as api:
        return await publication.publish_paths(api, context, problem_options)


@local_command(
    "problem import-kernelbench KernelBench --level 1 --gpu H100 --allow-untested",
    parameters=(
        click.argument("checkout", metavar="DIR", type=options.FOLDER),
        click.option("--level", type=IntRange(1, 3), required=True, help="The level."),
        options.gpus("A GPU type.", is_required=True),
        UNCHECKED,
        problems.ALLOW_UNTESTED,
    ),
    access=options.PLATFORM,
)
async def import_kernelbench(context: AppContext, checkout: Path, level: int, **values: Any) -> int:
    """Publish a level of a KernelBench checkout.

    It is the same as `problem publish DIR/levelN`: each file becomes a problem, whose submissions
    define ModelNew. Level 4 needs weights that no machine here has.
    """
    problem_options = ProblemOptions((find_level(checkout, level),), **values)
    async with context.operator_api() if problem_options.unchecked else context.api() as api:
        return await publication.publish_paths(api, context, problem_options)
