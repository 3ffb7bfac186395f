"""`python -m bench.gpu.catalogue`: a correct solution of every shipped problem, on the GPU.

Each runs in mode `test`, by the entry that the agents use: what is asked is whether reference,
inputs and checks work on the device, not how fast anything is.
"""

import argparse
import asyncio
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.gpu.table import NO, NOTHING, UNSHOWN, YES, Row, print_row, read, write
from harness.entry import Harness, RunReport, RunRequest
from shared.problems.submission_file import read_directives
from warpboard.files import ProblemFiles, load_problem, load_solutions

PROBLEMS = Path(__file__).parents[2] / "problems"
MODE = "test"
EXPECTED = "passed"
# A run is not begun with less: it would be cut short.
LEFT_S_MIN = 12.0


def main() -> None:
    """Run what was asked for, as far as the time goes."""
    options = _options()
    until = time.monotonic() + options.seconds
    rows = read(options.out) if options.resume else []
    known = {row.name for row in rows}
    slugs = options.only or sorted(path.parent.name for path in PROBLEMS.glob("*/warpboard.yml"))
    slugs = [slug for slug in slugs if slug not in known]
    about = {"device": options.device, "mode": MODE}
    harness = Harness()
    with tempfile.TemporaryDirectory(prefix="catalogue-") as home, asyncio.Runner() as runner:
        Path(home).chmod(0o755)
        try:
            for number, slug in enumerate(slugs):
                if time.monotonic() > until - LEFT_S_MIN:
                    print(f"{len(slugs) - number} problems are left for a later call: no time")
                    break
                folder = Path(home, slug)
                row = _row(slug, lambda request: _run(runner, harness, request), folder, options)
                print_row(row)
                rows.append(row)
                write(rows, about, options.out)
        finally:
            runner.run(harness.close())
    failed = [row.name for row in rows if row.passed == NO]
    print(f"{len(rows)} problems, not passed: {' '.join(failed) or 'none'}; {options.out}")


def _row(slug: str, run: Any, folder: Path, options: argparse.Namespace) -> Row:
    """A problem's line."""
    began = time.monotonic()
    problem = load_problem(PROBLEMS / slug, slug)
    solution = _choose_solution(slug, options.device)
    if solution is None:
        return Row(slug, "", EXPECTED, "has no solution for this device", NOTHING, 0.0, {})
    name, source = solution
    report: RunReport = run(_request(problem, name, source, folder, options.device))
    ending = report.verdict or f"failed: {report.failure_code}"
    measured = f"{ending} {report.reason}".strip().replace("\n", " ")[:300]
    verdict = YES if report.verdict == EXPECTED else NO
    took_s = round(time.monotonic() - began, 1)
    return Row(
        slug, name, EXPECTED, measured, UNSHOWN if options.imitation else verdict, took_s, {}
    )


def _choose_solution(slug: str, device: str) -> tuple[str, bytes] | None:
    """The first correct solution that does not name the processor alone, else a baseline."""
    samples = load_solutions(PROBLEMS / slug, slug).correct
    candidates = [(sample.name, sample.source) for sample in samples]
    candidates += [
        (f"baselines/{path.name}", path.read_bytes())
        for path in sorted((PROBLEMS / slug / "baselines").glob("*.py"))
    ]
    for name, source in candidates:
        gpus = read_directives(source.decode()).gpus
        if not gpus or ("CPU" in gpus if device == "cpu" else set(gpus) != {"CPU"}):
            return name, source
    return None


def _request(
    problem: ProblemFiles, name: str, source: bytes, folder: Path, device: str
) -> RunRequest:
    problem_folder, out = folder / "problem", folder / "out"
    for path in (problem_folder, out):
        path.mkdir(parents=True)
    for part, data in {**problem.version_files, "manifest.json": problem.manifest}.items():
        target = problem_folder / part
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    file = folder / f"submission{Path(name).suffix}"
    file.write_bytes(source)
    return RunRequest(str(problem_folder), str(file), MODE, str(out), device)


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
    parser.add_argument("--imitation", action="store_true", help="of a GPU; shows nothing of one")
    return parser.parse_args()


if __name__ == "__main__":
    main()
