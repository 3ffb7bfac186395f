"""`python -m bench.gpu.first_hour`: what a GPU machine can show in one call of under ten minutes.

It runs steps one after the other, each in a process of its own with a time limit. A step writes its
rows while it runs, so Ctrl-C or a kill loses the current row alone. Another call for the same
commit and GPU goes on with what is missing. So that one call is enough, some rows are made in a
short form, which says so; `--full` repeats those. At the end it prints a table for
bench/RESULTS.md, and the tier that the machine may claim. Start it with `first_hour.sh`, which
finds an interpreter.
"""

import argparse
import contextlib
import ctypes
import hashlib
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from bench.gpu import claims, grading
from bench.gpu.mps import MpsDaemon
from bench.gpu.table import UNSHOWN, Row, read, write_document
from harness.devices.cuda import host
from harness.devices.device import DeviceFault

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "build" / "first-hour" / "results"
TOTAL_S = 550.0
# A step that is told to stop may need this long: its platform and daemon are stopped too.
STOP_S_MAX = 20.0
FIND_S_MAX = 30.0
GIT_S_MAX = 10.0
# Without so much time, a step is left for the next call.
STEP_S_MIN = 2.0
DETAIL_CHARS = 300
# Whose content decides whether an earlier result is one of the same code.
CODE = ("harness/src", "bench", "tests/cheats", "tests/devices", "problems")
# Where `bench.figures` leaves figures.
FIGURES = "WARPBOARD_BENCH_FIGURES"
_PR_SET_PDEATHSIG = 1

GATE = ("V1", "V2", "V3", "V8", "V9", "V6", "V5", "V7", "V10", "V12", "V6m", "V5m", "V7m", "V4")
CLOCKS = (
    *("E1", "E2", "E3", "E4", "E5", "E6", "E3m", "E8", "E7", "E12", "E11", "E14", "E9", "E10"),
    *("E16", "E13", "E15", "E18", "E17"),
)
RECOVERY = ("V11",)
DONE, PARTLY, FAILED, STOPPED, LEFT_OUT, WAITS = (
    *("done", "partly done", "failed", "stopped", "left out", "waits"),
)


@dataclass(frozen=True)
class Call:
    """What all steps of a call share. `files` is the folder of its results."""

    files: Path
    is_imitation: bool
    is_short: bool = True
    limits_s: Mapping[str, float] = field(default_factory=dict)
    only: Sequence[str] = ()

    def rows_file(self, step: str) -> Path:
        """Where a step writes its rows."""
        return self.files / f"{step}-rows.json"

    def state_file(self, step: str) -> Path:
        """Where it is noted how a step ended."""
        return self.files / f"{step}.json"


@dataclass(frozen=True)
class Step:
    """A part of the hour: a module and its arguments.

    `share_s` is kept for it while earlier steps run: what it takes on an H100, as in README.md.
    `short` are the arguments of its short form. `needs` are packages without which it is left out.
    `beside` asks for MPS where the harness looks for it, which a short form does not. `names` are
    the rows that it is to have, where they are known.
    """

    name: str
    share_s: float
    module: str
    arguments: Sequence[str] = ()
    short: Sequence[str] = ()
    imitated: Sequence[str] = ("--imitation",)
    needs: Sequence[str] = ("torch",)
    beside: bool = False
    is_resumable: bool = True
    names: Callable[[], Sequence[str]] = tuple

    def command(self, call: Call, seconds: float) -> list[str]:
        """The program of the step, which ends by itself just before its limit."""
        command = [sys.executable, "-m", self.module, *self.arguments]
        command += self.short if call.is_short else ()
        if self.is_resumable:
            ends_s = max(1.0, seconds - 3.0)
            command += ["--resume", "--seconds", f"{ends_s:.0f}"]
        if self.module != "bench.turnaround":
            command += ["--out", str(call.rows_file(self.name))]
        return command + (list(self.imitated) if call.is_imitation else [])


@dataclass(frozen=True)
class StepResult:
    """How a step ended in this call or an earlier one."""

    step: str
    state: str
    detail: str = ""
    took_s: float = 0.0


def cheat_names() -> list[str]:
    """The cheats that a GPU machine has to run."""
    paths = (ROOT / "tests" / "cheats" / "submissions").glob("*.py")
    marked = [path for path in paths if re.search(r"^# gpu: yes$", path.read_text(), re.MULTILINE)]
    return sorted(path.stem for path in marked)


def problem_names() -> list[str]:
    """The shipped problems."""
    return sorted(path.parent.name for path in (ROOT / "problems").glob("*/warpboard.yml"))


TURNAROUNDS = tuple(
    f"{loading} {mode}{mps}"
    for mps in ("", ", MPS")
    for mode in ("test", "ranked")
    for loading in ("eager", "lazy")
)
PLATFORM = ("torch", "msgspec", "pydantic", "yaml", "httpx", "click", "rich")
_CPU = ("--device", "cpu", "--only")
# The cheats of an imitation: those of the processor, and those for GPUs that need no CUDA.
REHEARSED_CHEATS = (
    *("wrong", "mode_detection"),
    *("gpu_cached_by_address", "gpu_fifteen_at_once", "gpu_half_precision"),
    *("gpu_event_arrays", "gpu_got_patched", "gpu_stack_signature"),
    *("gpu_marks_overwritten", "gpu_pages_unprotected"),
)
STEPS = (
    Step("doctor", 3, "bench.gpu.machine", ["doctor"], needs=(), is_resumable=False),
    Step("probe", 14, "bench.gpu.machine", ["probe"], beside=True, is_resumable=False),
    Step("gate", 100, "bench.gpu.validate", ["--only", *GATE], names=lambda: GATE),
    Step(
        "cheats",
        275,
        "bench.gpu.cheats",
        imitated=(*_CPU, *REHEARSED_CHEATS, "--all"),
        beside=True,
        names=cheat_names,
    ),
    Step(
        "clocks",
        95,
        "bench.gpu.validate",
        ["--only", *CLOCKS],
        ["--short"],
        names=lambda: CLOCKS,
    ),
    Step(
        "catalogue",
        10,
        "bench.gpu.catalogue",
        short=["--short"],
        imitated=(*_CPU, "identity", "vectoradd", "--imitation"),
        needs=PLATFORM,
        beside=True,
        names=problem_names,
    ),
    Step(
        "pipeline",
        29,
        "bench.turnaround",
        ["--gpu", "--smoke"],
        imitated=(),
        needs=(*PLATFORM, "fastapi", "nats", "psycopg"),
        beside=True,
        is_resumable=False,
    ),
    # It needs about 40 s, which the first call rarely has left: a later one runs it.
    Step(
        "turnaround",
        0,
        "bench.gpu.turnaround",
        short=["--short"],
        needs=PLATFORM,
        names=lambda: TURNAROUNDS,
    ),
    # Last, for it kills and faults on purpose.
    Step("recovery", 22, "bench.gpu.validate", ["--only", *RECOVERY], names=lambda: RECOVERY),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is missing; 0 if everything has a result, 1 if not, 2 without a GPU."""
    options = _parse(arguments)
    if options.plan or options.record:
        return plan() if options.plan else record(options.record)
    until = time.monotonic() + options.seconds - options.spent
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        gpu = find_gpu(is_imitation=options.imitation)
    except DeviceFault as fault:
        print(fault, "Rehearse on an imitation with --imitation.", sep="\n", file=sys.stderr)
        return 2
    commit = find_commit()
    files = options.folder / f"{re.sub(r'[^A-Za-z0-9]+', '-', gpu['name'])}-{gpu['uuid'][4:12]}"
    files /= re.sub(r"[^A-Za-z0-9+]+", "-", commit)
    call = Call(files, options.imitation, not options.full, dict(options.limit), options.only)
    if options.again:
        shutil.rmtree(files, ignore_errors=True)
    files.mkdir(parents=True, exist_ok=True)
    print(f"{gpu['name']}, commit {commit}; results in {files}", flush=True)
    try:
        results = run_steps(call, until)
    except KeyboardInterrupt:
        print(f"\nstopped; the next call goes on from {files}", file=sys.stderr)
        return 130
    return conclude(call, results, gpu, commit)


def run_steps(call: Call, until: float) -> list[StepResult]:
    """Run the steps without a result, as far as the time goes; the state of all of them."""
    results = []
    waiting = [step for step in STEPS if is_wanted(call, step)]
    for step in STEPS:
        if step not in waiting:
            result = read_result(call, step)
            results.append(result)
            if result.state == DONE:
                print(f"== {step.name}: has its result", flush=True)
            continue
        waiting.remove(step)
        kept_s = sum(later.share_s for later in waiting)
        allowed_s = until - time.monotonic() - kept_s
        result = _run_step(step, call, allowed_s)
        write_document(asdict(result), call.state_file(step.name))
        results.append(result)
        said = f": {result.detail}" if result.detail else ""
        print(f"== {step.name}: {result.state} after {result.took_s:.0f} s{said}", flush=True)
    return results


def is_wanted(call: Call, step: Step) -> bool:
    """Whether a step is to run in this call: it is not done, and nobody named others alone."""
    is_named = not call.only or step.name in call.only
    is_to_repeat = not call.is_short and any(row.is_short for row in step_rows(call, step))
    return is_named and (read_result(call, step).state != DONE or is_to_repeat)


def read_result(call: Call, step: Step) -> StepResult:
    """How a step ended in an earlier call."""
    path = call.state_file(step.name)
    if not path.is_file():
        return StepResult(step.name, WAITS, "it has not run")
    return StepResult(**json.loads(path.read_text(encoding="utf-8")))


def _run_step(step: Step, call: Call, allowed_s: float) -> StepResult:
    absent = [name for name in step.needs if importlib.util.find_spec(name) is None]
    if absent:
        detail = f"this Python lacks {', '.join(absent)}"
        return StepResult(step.name, LEFT_OUT, detail)
    if allowed_s < STEP_S_MIN:
        return StepResult(step.name, WAITS, "no time was left in this call")
    allowed_s = min(allowed_s, call.limits_s.get(step.name, allowed_s))
    print(f"== {step.name}: at most {allowed_s:.3g} s", flush=True)
    began = time.monotonic()
    is_short = call.is_short and bool(step.short)
    with _mps_daemon(call, is_wanted=step.beside and not is_short) as note:
        state, detail = _run_process(step, call, allowed_s)
    took_s = round(time.monotonic() - began, 1)
    missing = missing_names(call, step)
    if state == DONE and missing:
        state, detail = PARTLY, f"the next call runs {' '.join(missing)}"
    return StepResult(step.name, state, "; ".join(filter(None, (detail, note))), took_s)


def _run_process(step: Step, call: Call, allowed_s: float) -> tuple[str, str]:
    """Run a step's program; its state, and in words what went wrong."""
    log = call.files / f"{step.name}.log"
    environment = {**os.environ, FIGURES: str(call.rows_file(step.name)), "PYTHONUNBUFFERED": "1"}
    with log.open("ab") as output:
        process = subprocess.Popen(
            step.command(call, allowed_s),
            cwd=ROOT,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_end_with_parent,  # noqa: PLW1509  (this process has one thread)
        )
        try:
            status = process.wait(allowed_s)
        except subprocess.TimeoutExpired:
            _stop(process)
            return STOPPED, f"it did not end within {allowed_s:.3g} s; see {log.name}"
        except BaseException:
            _stop(process)
            raise
    # The cheats' program ends with 1 if a cheat was not as promised, which is a result.
    if status and not (step.module == "bench.gpu.cheats" and step_rows(call, step)):
        last = log.read_text(errors="replace").strip().rpartition("\n")[2][:DETAIL_CHARS]
        return FAILED, f"exit code {status}: {last}"
    return DONE, ""


def _end_with_parent() -> None:
    """Be interrupted when the parent dies, however that ends, and never ignore it."""
    # A shell lets what it starts in the background ignore this signal.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGINT)


def _stop(process: "subprocess.Popen[bytes]") -> None:
    """Let a program stop what it started, then kill what is left of its session."""
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_S_MAX)
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@contextlib.contextmanager
def _mps_daemon(call: Call, *, is_wanted: bool) -> Iterator[str]:
    """A daemon of MPS where the harness looks for one; what to know about it."""
    pipes = Path(host.MPS_PIPES)
    # Says that a daemon is ours, should this process be killed before it can stop it.
    mark = pipes / "started-by-first-hour"
    if not call.is_imitation and mark.exists():
        host.ask_daemon("quit", {"CUDA_MPS_PIPE_DIRECTORY": str(pipes)})
        mark.unlink()
    if call.is_imitation or not is_wanted:
        yield ""
    elif host.is_mps_running():
        yield "with the MPS daemon that runs here"
    else:
        with tempfile.TemporaryDirectory(prefix="mps-") as folder, contextlib.ExitStack() as stack:
            Path(folder).chmod(0o755)
            note = ""
            try:
                stack.enter_context(MpsDaemon(Path(folder), pipes))
                mark.touch()
                stack.callback(mark.unlink, missing_ok=True)
            except DeviceFault as fault:
                note = f"without MPS: {fault}"
            yield note


def step_rows(call: Call, step: Step) -> list[Row]:
    """The rows that a step has so far."""
    path = call.rows_file(step.name)
    if not path.is_file():
        return []
    if step.module == "bench.gpu.cheats":
        rows = grading.rows_of_cheats(json.loads(path.read_text()))
    elif step.module == "bench.turnaround":
        rows = grading.rows_of_figures(json.loads(path.read_text()))
    else:
        rows = read(path)
    if not call.is_imitation or step.name == "doctor":
        return rows
    return [Row(**asdict(row) | {"passed": UNSHOWN}) for row in rows]


def missing_names(call: Call, step: Step) -> list[str]:
    """The rows that a step has to have and has not; an imitation runs what it can."""
    if call.is_imitation and step.module != "bench.gpu.validate":
        return []
    known = {
        row.name
        for row in step_rows(call, step)
        if not row.is_postponed and (call.is_short or not row.is_short)
    }
    return [name for name in step.names() if name not in known]


def conclude(call: Call, results: Sequence[StepResult], gpu: Mapping[str, str], commit: str) -> int:
    """Write and print the table, the states of the steps and the grade; the exit status."""
    steps = {step.name: step_rows(call, step) for step in STEPS}
    grade = grading.grade(grading.Findings(steps, cheat_names()), is_imitation=call.is_imitation)
    date = time.strftime("%Y-%m-%d", time.gmtime())
    table = grading.table_lines(steps, gpu["name"], date, commit)
    (call.files / "table.md").write_text("\n".join(table) + "\n", encoding="utf-8")
    document = {
        "gpu": gpu,
        "commit": commit,
        "date": date,
        "is_imitation": call.is_imitation,
        "grade": asdict(grade),
        "steps": [asdict(result) for result in results],
        "rows": {name: [asdict(row) for row in rows] for name, rows in steps.items()},
    }
    write_document(document, call.files / "first-hour.json")
    print(*table, "", sep="\n")
    for result in results:
        if result.state != DONE:
            print(f"{result.step}: {result.state}: {result.detail}")
    if short := [
        f"{row.name} of {name}" for name, rows in steps.items() for row in rows if row.is_short
    ]:
        print(f"in their short form, which --full repeats: {', '.join(short)}")
    print(*grade.lines, f"written: {call.files}/first-hour.json, table.md", sep="\n", flush=True)
    return 0 if all(result.state == DONE for result in results) else 1


def load_claims() -> claims.Claims:
    """Read what the pages say about GPUs, with the groups of experiments that it rests on."""
    groups = {"cheats": cheat_names(), "catalogue": problem_names(), "times": claims.TIMED}
    return claims.load(groups)


def plan() -> int:
    """Print the claims that no GPU has shown yet, and what runs their experiments; the status."""
    steps = {step.name: list(step.names()) for step in STEPS}
    print(*claims.plan_lines(load_claims(), steps), sep="\n")
    return 0


def record(documents: Sequence[Path]) -> int:
    """Add the results of earlier calls to claims.toml and change the pages; the exit status."""
    found = load_claims()
    results = found.results
    for path in documents:
        try:
            results = claims.merge(results, json.loads(path.read_text(encoding="utf-8")))
        except ValueError as error:
            print(f"{path}: {error}", file=sys.stderr)
            return 2
    claims.write_results(results)
    recorded = load_claims()
    for name in recorded.claims:
        if recorded.sentence(name) != found.sentence(name):
            print(f"{name}: {recorded.sentence(name)}")
    for page, text in claims.pages(recorded).items():
        page.write_text(text, encoding="utf-8")
    return 0


def find_gpu(*, is_imitation: bool) -> dict[str, str]:
    """Return name and UUID of the first GPU, asked in a process of its own. Raises DeviceFault."""
    command = [sys.executable, "-m", "bench.gpu.machine", "find"]
    command += ["--imitation"] if is_imitation else []
    try:
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=FIND_S_MAX, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise DeviceFault(f"CUDA's driver did not answer within {FIND_S_MAX:.0f} s") from error
    if done.returncode:
        raise DeviceFault(done.stderr.strip().rpartition("\n")[2])
    gpu: dict[str, str] = json.loads(done.stdout.strip().rpartition("\n")[2])
    return gpu


def find_commit() -> str:
    """Return the commit, or none, with a digest of the code where no commit has exactly this."""
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty=+", "--exclude=*"]
    described = ""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=GIT_S_MAX, check=False
        )
        described = done.stdout.strip()
    if described and not described.endswith("+"):
        return described
    digest = hashlib.sha256()
    for path in sorted(path for folder in CODE for path in (ROOT / folder).rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            digest.update(str(path.relative_to(ROOT)).encode() + path.read_bytes())
    return f"{described or 'none+'}{digest.hexdigest()[:8]}"


def _limit(text: str) -> tuple[str, float]:
    step, _, seconds = text.partition("=")
    if step not in {one.name for one in STEPS}:
        raise argparse.ArgumentTypeError(f"{step!r} is not a step")
    return step, float(seconds)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench/gpu/first_hour.sh", description=__doc__)
    full_help = "repeat what has a short form alone; takes two or three calls"
    parser.add_argument("--full", action="store_true", help=full_help)
    parser.add_argument("--again", action="store_true", help="forget the results so far")
    parser.add_argument("--imitation", action="store_true", help="rehearse without a GPU")
    plan_help = "list the claims that no GPU has shown, and stop; needs no GPU"
    parser.add_argument("--plan", action="store_true", help=plan_help)
    record_help = "add these first-hour.json to claims.toml, change the pages, and stop"
    parser.add_argument("--record", nargs="+", type=Path, metavar="FILE", help=record_help)
    parser.add_argument("--seconds", type=float, default=TOTAL_S, help="for this call")
    parser.add_argument("--spent", type=float, default=0.0, help="seconds of them that are over")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="of all results")
    parser.add_argument("--only", nargs="*", default=[], choices=[step.name for step in STEPS])
    limit_help = "a lower limit for a step; can be repeated"
    parser.add_argument(
        "--limit", type=_limit, action="append", default=[], metavar="STEP=S", help=limit_help
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
