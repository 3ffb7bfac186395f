"""`python -m bench.gpu.catalogue`: a correct solution of every shipped problem, on the GPU.

What is asked is whether reference, inputs and checks work on the device, not how fast anything is.
Each solution runs in mode `test`, by the entry that the agents use. In the short form it runs in a
fork of this process, several at a time, without box and gate: what takes a run most of its 8 s are
two contexts that load all of torch's kernels.
"""

import argparse
import asyncio
import contextlib
import importlib
import multiprocessing
import os
import tempfile
import time
import traceback
from collections.abc import Generator, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from bench.gpu.table import NO, NOTHING, UNSHOWN, YES, Row, print_row, read, write
from harness.entry import Harness, RunReport, RunRequest
from shared.checks.problem_files import ProblemFiles
from shared.problem_versions import load_problem
from shared.problems.submission_file import read_directives
from tests.problems.loaded_problem import opened
from warpboard.files import load_solutions

PROBLEMS = Path(__file__).parents[2] / "problems"
MODE = "test"
EXPECTED = "passed"
# A run is not begun with less: it would be cut short.
LEFT_S_MIN = 12.0
AT_ONCE_MAX = max(1, min(8, (os.cpu_count() or 1) // 2))


def main() -> None:
    """Run what was asked for, as far as the time goes."""
    options = _options()
    until = time.monotonic() + options.seconds
    rows = {row.name: row for row in (read(options.out) if options.resume else [])}
    slugs = options.only or sorted(path.parent.name for path in PROBLEMS.glob("*/warpboard.yml"))
    slugs = [slug for slug in slugs if slug not in rows or rows[slug].is_short > options.short]
    about = {"device": options.device, "mode": MODE}
    run = _run_in_forks if options.short else _run_by_harness
    with contextlib.closing(run(slugs, options, until)) as new_rows:
        for row in new_rows:
            print_row(row)
            rows[row.name] = row
            write([*rows.values()], about, options.out)
    if left := len([slug for slug in slugs if slug not in rows]):
        print(f"{left} problems are left for a later call: no time")
    failed = [row.name for row in rows.values() if row.passed == NO]
    print(f"{len(rows)} problems, not passed: {' '.join(failed) or 'none'}; {options.out}")


def _run_by_harness(
    slugs: Sequence[str], options: argparse.Namespace, until: float
) -> Generator[Row]:
    harness = Harness()
    with tempfile.TemporaryDirectory(prefix="catalogue-") as home, asyncio.Runner() as runner:
        Path(home).chmod(0o755)
        try:
            for slug in slugs:
                if time.monotonic() > until - LEFT_S_MIN:
                    break
                yield _row(slug, runner, harness, Path(home, slug), options)
        finally:
            runner.run(harness.close())


def _row(
    slug: str,
    runner: asyncio.Runner,
    harness: Harness,
    folder: Path,
    options: argparse.Namespace,
) -> Row:
    """A problem's line."""
    began = time.monotonic()
    problem = load_problem(PROBLEMS / slug, slug)
    solution = choose_solution(slug, options.device)
    if solution is None:
        return Row(slug, "", EXPECTED, "has no solution for this device", NOTHING, 0.0, {})
    name, _ = solution
    report = _run(runner, harness, make_request(problem, solution, folder, device=options.device))
    ending = report.verdict or f"failed: {report.failure_code}"
    measured = f"{ending} {report.reason}".strip().replace("\n", " ")[:300]
    verdict = YES if report.verdict == EXPECTED else NO
    took_s = round(time.monotonic() - began, 1)
    return Row(
        slug, name, EXPECTED, measured, UNSHOWN if options.imitation else verdict, took_s, {}
    )


def _run_in_forks(
    slugs: Sequence[str], options: argparse.Namespace, until: float
) -> Generator[Row]:
    """Run solutions in forks, a few at a time; what one of them breaks ends with its process."""
    importlib.import_module("torch")  # once: every solution runs in a fork of this
    context = multiprocessing.get_context("fork")
    waiting, running = list(reversed(slugs)), dict[Connection, tuple[str, BaseProcess]]()
    try:
        while waiting or running:
            while waiting and len(running) < AT_ONCE_MAX and time.monotonic() < until - LEFT_S_MIN:
                ours, theirs = context.Pipe(duplex=False)
                slug = waiting.pop()
                process: BaseProcess = context.Process(
                    target=_send_short_row, args=(theirs, slug, options)
                )
                process.start()
                theirs.close()
                running[ours] = slug, process
            ready = wait([*running], max(0.0, until - time.monotonic())) if running else []
            if not ready:
                return
            for pipe in [pipe for pipe in running if pipe in ready]:
                slug, ended = running.pop(pipe)
                try:
                    yield pipe.recv()
                except EOFError:
                    measured = "the process ended without an answer"
                    yield Row(slug, "", EXPECTED, measured, NO, 0.0, {}, is_short=True)
                ended.join()
    finally:
        for _, left in running.values():
            left.kill()


def _send_short_row(pipe: Connection, slug: str, options: argparse.Namespace) -> None:
    began = time.monotonic()
    verdict, name = NO, ""
    try:
        solution = choose_solution(slug, options.device, in_process=True)
        if solution is None:
            verdict, measured = NOTHING, "left for the full form: it is written in C++"
        else:
            name = solution[0]
            complaint = _judge_in_process(slug, name)
            verdict, measured = NO if complaint else YES, complaint or "right, in one process"
    except Exception:  # noqa: BLE001  (whatever a solution raises is its line of the table)
        measured = traceback.format_exc(limit=-1).strip().replace("\n", " ")[-300:]
    shown = UNSHOWN if options.imitation else verdict
    took_s = round(time.monotonic() - began, 1)
    pipe.send(Row(slug, name, EXPECTED, measured, shown, took_s, {}, is_short=True))


def _judge_in_process(slug: str, name: str) -> str:
    """Return the first complaint about the answers to the checked cases, "" if all are right."""
    with opened(slug) as problem:
        kernel = problem.kernel(name if "/" in name else f"solutions/correct/{name}")
        complaints = (problem.complaint(kernel, case) for case in problem.cases)
        return next((complaint for complaint in complaints if complaint), "")


def choose_solution(
    slug: str, device: str, *, in_process: bool = False
) -> tuple[str, bytes] | None:
    """The first correct solution that does not name the processor alone, else a baseline.

    A solution that can run in this process uses torch alone.
    """
    samples = load_solutions(PROBLEMS / slug, slug).correct
    candidates = [(sample.name, sample.source) for sample in samples]
    candidates += [
        (f"baselines/{path.name}", path.read_bytes())
        for path in sorted((PROBLEMS / slug / "baselines").glob("*.py"))
    ]
    for name, source in candidates:
        if in_process and not Path(name).name.startswith(("torch_", "eager")):
            continue
        gpus = read_directives(source.decode()).gpus
        if not gpus or ("CPU" in gpus if device == "cpu" else set(gpus) != {"CPU"}):
            return name, source
    return None


def make_request(
    problem: ProblemFiles,
    solution: tuple[str, bytes],
    folder: Path,
    *,
    device: str,
    mode: str = MODE,
) -> RunRequest:
    """Write problem and submission to a folder, and return the request of a run."""
    name, source = solution
    problem_folder, out = folder / "problem", folder / "out"
    for path in (problem_folder, out):
        path.mkdir(parents=True)
    for part, data in {**problem.version_files, "manifest.json": problem.manifest}.items():
        target = problem_folder / part
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    file = folder / f"submission{Path(name).suffix}"
    file.write_bytes(source)
    return RunRequest(str(problem_folder), str(file), mode, str(out), device)


def _run(runner: asyncio.Runner, harness: Harness, request: RunRequest) -> RunReport:
    async def ignore(_: object) -> None:
        pass

    return runner.run(harness.evaluate(request, ignore))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=[], help="slugs, such as softmax")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seconds", type=float, default=3600.0, help="for everything")
    parser.add_argument("--out", type=Path, default=Path("catalogue.json"))
    parser.add_argument("--resume", action="store_true", help="only what has no row in --out yet")
    parser.add_argument("--short", action="store_true", help="in forks of one process, ungated")
    parser.add_argument("--imitation", action="store_true", help="of a GPU; shows nothing of one")
    return parser.parse_args()


if __name__ == "__main__":
    main()
