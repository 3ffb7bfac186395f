"""Run files against a problem directory on this machine, without a server."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from shared.api.submissions import Progress, SubmissionRequest
from shared.presentation.outcome import failure_lines
from shared.presentation.report_parts import run_progress
from shared.presentation.responses import JsonObject, Run, parse_response
from shared.presentation.units import count_text, difference_text, seconds_text, time_text
from shared.problems.cases import score_us
from shared.problems.roofline import Work, compare_to_roofline, read_works
from warpboard.domain.exit_codes import FAILED, INFRASTRUCTURE, OK
from warpboard.service.ports import Disk, Harness, LocalRunTerms, ProblemFiles, Screen
from warpboard.service.submissions import case_table

# Local runs use the processor, whichever GPU types a problem is for.
HERE = ("CPU",)
_ENTRIES = {"kernelbench": "class ModelNew", "": "custom_kernel(data)"}
_CALLS = 2
_STAGES: Mapping[str, tuple[str, ...]] = {
    "test": ("build", "check"),
    "benchmark": ("build", "check", "time"),
    "profile": ("build", "check", "profile"),
    "ranked": ("build", "check", "hidden_check", "time"),
}
OURS = (
    "the supervisor draws the seed of each call from a key of the run, makes the input, starts its"
    " clock, shows the input, waits, copies the answer, stops its clock, and judges the copy"
)
THEIRS = (
    "the problem's own {main} runs in the submission's process and says the verdict and the times:"
    " tier G0, which ranks nowhere but where an operator says so"
)


@dataclass(frozen=True)
class LocalRunOptions:
    """What to run, against which problem's folder, in which mode."""

    file: Path
    problem: Path
    mode: str
    level_min: str = "none"
    save: Path | None = None


async def run_locally(
    disk: Disk, harness: Harness, screen: Screen, options: LocalRunOptions, *, as_json: bool
) -> int:
    """Run a file against a problem's folder; return the exit code. Raises Refused and Failed."""
    file, mode = options.file, options.mode
    problem = disk.problem(options.problem, None, HERE)
    request = SubmissionRequest(file.name, disk.source(file), problem.slug, mode)
    with screen.live([file.name]) as live:

        async def show_progress(progress: Progress) -> None:
            live.show(file.name, run_progress(progress))

        terms = LocalRunTerms(options.level_min, options.save)
        answer = await harness.run(problem, request, show_progress, terms)
    answer = with_roofline(answer, problem.manifest, *HERE)
    run_result = parse_response(answer, Run)
    score = _score_us(problem, run_result)
    if as_json:
        screen.json(answer | {"score_us": score})
    else:
        screen.table(case_table(run_result.cases))
        for line in local_lines(file.name, mode, run_result, score):
            screen.say(line)
        if options.save is not None and run_result.files:
            screen.say(f"{options.save} holds {', '.join(file.name for file in run_result.files)}")
    return local_exit_code(run_result)


@dataclass(frozen=True)
class LocalDuelOptions:
    """Two files to time against each other, for which problem's folder."""

    problem: Path
    first: Path
    second: Path
    level_min: str = "none"
    save: Path | None = None


async def duel_locally(
    disk: Disk, harness: Harness, screen: Screen, options: LocalDuelOptions, *, as_json: bool
) -> int:
    """Time two files in alternation here; return the exit code. Raises Refused and Failed."""
    problem = disk.problem(options.problem, None, HERE)
    files = (options.first, options.second)
    first, second = (
        SubmissionRequest(file.name, disk.source(file), problem.slug, "duel") for file in files
    )
    names = distinct_names(*files)
    with screen.live([problem.slug]) as live:

        async def show_progress(progress: Progress) -> None:
            live.show(problem.slug, run_progress(progress))

        terms = LocalRunTerms(options.level_min, options.save)
        answer = await harness.duel(problem, (first, second), show_progress, terms)
    run_result = parse_response(answer, DuelRun)
    if as_json:
        screen.json(answer)
    else:
        for line in duel_lines(names, run_result):
            screen.say(line)
        if options.save is not None and run_result.files:
            screen.say(f"{options.save} holds {', '.join(file.name for file in run_result.files)}")
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


async def explain_evaluation(
    disk: Disk, harness: Harness, screen: Screen, path: Path, *, as_json: bool
) -> int:
    """Describe what a run of this problem does, and how to do it here. Raises Refused."""
    problem = disk.problem(path, None, HERE)
    description = describe_evaluation(problem.slug, problem.manifest, harness.code(), str(path))
    if as_json:
        screen.json(description.document)
    else:
        for name, text in description.rows:
            screen.say(f"{name + ':':<15}{text}")
    return OK


def _score_us(problem: ProblemFiles, run_result: Run) -> float | None:
    timed = [case.time_us or 0.0 for case in run_result.cases if case.stage == "time"]
    return score_us(problem.ranking_by, timed) if run_result.verdict == "passed" and timed else None


def local_exit_code(run: Run) -> int:
    """Return the exit code for a run without a server; a missing verdict is our failure."""
    if not run.verdict:
        return INFRASTRUCTURE
    return OK if run.verdict == "passed" else FAILED


def local_lines(name: str, mode: str, run: Run, score_us: float | None) -> list[str]:
    """Describe the end of a run without a server."""
    took = f" in {seconds_text(run.took_s)}" if run.took_s is not None else ""
    tier = f", tier {run.tier}" if run.tier else ""
    head = f"{name}: {run.verdict or 'no verdict'} ({mode}, isolation {run.level}{tier}){took}"
    lines = [head] if run.verdict == "passed" else [head, *failure_lines(run)]
    return [*lines, f"score {time_text(score_us)}"] if score_us is not None else lines


class Duel(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a duel: `winner` is A, B or equal, "" if the side `failed` did not pass.

    `ratio` is the time of A over that of B, with its 95 % interval.
    """

    winner: str
    failed: str = ""
    ratio: float | None = None
    interval: tuple[float, float] | None = None
    pairs_us: list[tuple[float, float]] = []


class DuelRun(Run, frozen=True, kw_only=True):
    """The end of a local duel; `duel` is missing if there was no verdict."""

    duel: Duel | None = None


def duel_lines(names: tuple[str, str], run: DuelRun) -> list[str]:
    """Describe the end of a duel of two files, A and B."""
    took = f" in {seconds_text(run.took_s)}" if run.took_s is not None else ""
    tier = f", tier {run.tier}" if run.tier else ""
    duel = run.duel
    ending = f"A {names[0]}, B {names[1]}: {run.verdict or 'no verdict'}"
    head = f"{ending} (duel, isolation {run.level}{tier}){took}"
    if duel is None or duel.ratio is None or duel.interval is None:
        return [head, *failure_lines(run)]
    low, high = duel.interval
    ratio = f"time of A over time of B {duel.ratio:.4f} ({low:.4f} to {high:.4f}, 95 %)"
    return [head, _duel_result_line(names, duel), f"{ratio}, {len(duel.pairs_us)} pairs of blocks"]


def _duel_result_line(names: tuple[str, str], duel: Duel) -> str:
    assert duel.ratio is not None, "called only for a duel that both sides passed"
    assert duel.interval is not None, "called only for a duel that both sides passed"
    if duel.winner == "equal":
        return f"{names[0]} and {names[1]} cannot be told apart"
    first, second = names if duel.winner == "A" else names[::-1]
    return f"{first} is faster than {second}: {difference_text(duel.ratio, duel.interval)}"


class EvaluationDescription(NamedTuple):
    """The parts of a description, in the order in which they are shown."""

    rows: Sequence[tuple[str, str]]
    document: JsonObject


def describe_evaluation(
    slug: str, manifest: bytes, code: JsonObject, path: str
) -> EvaluationDescription:
    """Describe a run: who calls what, how often, and how to run it here.

    `code` describes the harness; `path` is the problem's folder.
    """
    problem: dict[str, Any] = json.loads(manifest)
    main, form = problem.get("main", ""), problem.get("form", "")
    is_native = problem["lang"] == "cu"
    entry_point = (
        "output_t custom_kernel(input_t)" if is_native else _ENTRIES.get(form, _ENTRIES[""])
    )
    timed = problem["benchmarks"][-1:] if problem["ranking_by"] == "last" else problem["benchmarks"]
    calls = problem.get("calls", _CALLS)
    parts = {
        "problem": slug,
        "defines": f"what {main} calls" if main else entry_point,
        "called by": THEIRS.format(main=main) if main else OURS,
        "checked": f"{_count_cases(problem['tests'] or timed)}, {calls} calls each",
        "timed": f"{_count_cases(timed)}, scored by {problem['ranking_by']}",
        "budgets": ", ".join(f"{key} {value} s" for key, value in problem["budgets_s"].items()),
        "stages": "; ".join(f"{mode}: {', '.join(stages)}" for mode, stages in _STAGES.items()),
        "author's code": ", ".join(sorted(problem["files"])),
        "harness": f"version {code['version']}, SHA-256 {code['digest']}",
        "its code": code["folder"],
        "the same here": f"warpboard run FILE --problem {path} --mode ranked",
    }
    if main:
        parts["checked"] = f"{_count_cases(problem['tests'])}, as {main} calls them"
    keys = {key.replace(" ", "_").replace("'", ""): value for key, value in parts.items()}
    return EvaluationDescription(tuple(parts.items()), keys)


def _count_cases(cases: Sequence[Any]) -> str:
    return count_text(len(cases), "case")


def with_roofline(answer: JsonObject, manifest: bytes, gpu: str) -> JsonObject:
    """Add to a local run what share of the GPU type's limit each time reaches.

    It stays as it is if the problem declares no work. The server does the same for submissions.
    """
    by_case = {work.case: work for work in read_works(json.loads(manifest))}
    if not by_case:
        return answer
    return answer | {"cases": [_add_roofline(case, by_case, gpu) for case in answer["cases"]]}


def _add_roofline(case: JsonObject, by_case: dict[str, Work], gpu: str) -> dict[str, Any]:
    work, time_us = by_case.get(case["name"]), case.get("time_us")
    is_shown = work is not None and bool(time_us) and case["stage"] == "time"
    if not is_shown or work is None or not (work.bytes or work.flops):
        return case
    roofline = compare_to_roofline(work, gpu, time_us or 0.0)
    return case if roofline is None else case | {"roofline": asdict(roofline)}
