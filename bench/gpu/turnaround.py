"""Where the seconds of a run go, by stage and process: eager and lazy contexts, also with MPS.

An experiment is ten runs of one mode by one harness; its row shows the first and the tenth one. The
data of the row has for each run when each message came, and for each process when it was first seen
and first had the GPU open. `--short` makes three tests without MPS. `--imitation` runs on the
device cpu, which has no contexts.
"""

import argparse
import asyncio
import contextlib
import os
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.gpu.catalogue import PROBLEMS, choose_solution, make_request
from bench.gpu.mps import MpsDaemon
from bench.gpu.table import (
    NO,
    NOTHING,
    POSTPONED,
    SKIPPED,
    UNSHOWN,
    YES,
    Row,
    print_row,
    read,
    write,
)
from harness.devices.cuda import host
from harness.devices.device import DeviceFault
from harness.entry import Harness, Progress, StageFinished, Started
from harness.sandbox.linux import descendants
from shared.problem_versions import load_problem

PROBLEM = "identity"
RUNS, RUNS_SHORT = 10, 3
# An experiment that does not end within this time keeps what it has.
EXPERIMENT_S_MAX = 500.0
LEFT_S_MIN = 30.0
LOOK_S = 0.01
GPU_NODE = "/dev/nvidia-uvm"
EXPECTED = {"LAZY": "shorter than eager", "EAGER": "a timeline"}


@dataclass(frozen=True)
class Experiment:
    """Runs of one mode, in which contexts load modules in one way."""

    mode: str
    loading: str
    has_mps: bool

    @property
    def name(self) -> str:
        """The name of its row, such as `lazy test` or `eager ranked, MPS`."""
        return f"{self.loading.lower()} {self.mode}{', MPS' if self.has_mps else ''}"

    @property
    def other_name(self) -> str:
        """The name of the eager experiment that a lazy one is compared with."""
        return Experiment(self.mode, "EAGER", self.has_mps).name


EXPERIMENTS = [
    Experiment(mode, loading, has_mps)
    for has_mps in (False, True)
    for mode in ("test", "ranked")
    for loading in ("EAGER", "LAZY")
]


@dataclass
class Timeline:
    """Seconds since the request: of each message, and of each process."""

    began: float = field(default_factory=time.monotonic)
    messages_s: dict[str, float] = field(default_factory=dict)
    processes: dict[int, dict[str, Any]] = field(default_factory=dict)

    def note(self, name: str) -> None:
        """Note when a message came first."""
        self.messages_s.setdefault(name, self._now_s())

    async def watch(self) -> None:
        """Look at the processes beneath this one until cancelled."""
        while True:
            for pid in descendants(os.getpid()):
                with contextlib.suppress(OSError):
                    self._look_at(pid)
            await asyncio.sleep(LOOK_S)

    def _look_at(self, pid: int) -> None:
        folder = Path("/proc", str(pid))
        if pid not in self.processes:
            name = (folder / "comm").read_text().strip()
            self.processes[pid] = {"name": name, "seen_s": self._now_s()}
        if "opened_s" in self.processes[pid]:
            return
        # The files of a process may close while they are listed.
        if any(_target(file) == GPU_NODE for file in (folder / "fd").iterdir()):
            self.processes[pid]["opened_s"] = self._now_s()

    def _now_s(self) -> float:
        return round(time.monotonic() - self.began, 4)


def _target(file: Path) -> str:
    try:
        return str(file.readlink())
    except OSError:
        return ""


def main() -> None:
    """Run the experiments that have no row yet, as far as the time goes."""
    options = _options()
    until = time.monotonic() + options.seconds
    earlier = {row.name: row for row in (read(options.out) if options.resume else [])}
    rows = {
        name: row
        for name, row in earlier.items()
        if not row.is_postponed and (options.short or not row.is_short)
    }
    about = {"problem": PROBLEM, "load": os.getloadavg(), "is_imitation": options.imitation}
    for experiment in EXPERIMENTS:
        if experiment.name in rows:
            continue
        row = run_experiment(experiment, options, min(until, time.monotonic() + EXPERIMENT_S_MAX))
        rows[row.name] = judge(row, experiment, rows, is_imitation=options.imitation)
        print_row(rows[row.name])
        write([*rows.values()], about, options.out)
    print(f"{len(rows)} experiments; {options.out}")


def judge(row: Row, experiment: Experiment, rows: Mapping[str, Row], *, is_imitation: bool) -> Row:
    """Return the row with its result: a lazy experiment passes if it is shorter than the eager."""
    other = rows.get(experiment.other_name)
    passed = NOTHING
    if is_imitation:
        passed = UNSHOWN
    elif experiment.loading == "LAZY" and "median_s" in row.data and other is not None:
        is_shorter = row.data["median_s"] < other.data.get("median_s", 0.0)
        passed = YES if is_shorter else NO
    return Row(**{**vars(row), "passed": passed})


def run_experiment(experiment: Experiment, options: argparse.Namespace, until: float) -> Row:
    """Return the row of an experiment, or of why it did not run."""
    began = time.monotonic()
    reason = _reason_to_skip(experiment, options, until - began)
    data: dict[str, Any] = {}
    if not reason:
        try:
            with _mps(is_wanted=experiment.has_mps):
                runs = asyncio.run(_run_all(experiment, options, until))
            data = {"runs": runs, "median_s": statistics.median(run["took_s"] for run in runs)}
            reason = _describe(runs)
        except DeviceFault as fault:
            reason = f"{SKIPPED}{fault}"
    took_s = round(time.monotonic() - began, 1)
    return Row(
        experiment.name,
        f"{experiment.mode} of {PROBLEM}, first and last run",
        EXPECTED[experiment.loading],
        reason,
        NOTHING,
        took_s,
        data,
        is_short=options.short,
    )


def _reason_to_skip(experiment: Experiment, options: argparse.Namespace, left_s: float) -> str:
    if options.short and (experiment.mode != "test" or experiment.has_mps):
        return f"{SKIPPED}not in the short form"
    if options.imitation and experiment.has_mps:
        return f"{SKIPPED}an imitation has no MPS"
    return f"{POSTPONED}{max(0.0, left_s):.0f} s are left" if left_s < LEFT_S_MIN else ""


def _describe(runs: list[dict[str, Any]]) -> str:
    first, last = runs[0], runs[-1]
    stages = ", ".join(f"{name} {at_s:.2f}" for name, at_s in last["messages_s"].items())
    opened = sorted(one["opened_s"] for one in last["processes"] if "opened_s" in one)
    contexts = f"; GPU open at {', '.join(f'{at_s:.2f}' for at_s in opened)}" if opened else ""
    return (
        f"run 1 {first['took_s']:.2f} s, run {len(runs)} {last['took_s']:.2f} s: {stages}{contexts}"
    )


async def _run_all(
    experiment: Experiment, options: argparse.Namespace, until: float
) -> list[dict[str, Any]]:
    """Make the runs with one warm harness. Raises DeviceFault if a run does not pass."""
    device = "cpu" if options.imitation else "cuda"
    problem = load_problem(PROBLEMS / PROBLEM, PROBLEM)
    solution = choose_solution(PROBLEM, device)
    assert solution is not None, "the problem has a correct solution"
    runs: list[dict[str, Any]] = []
    count = RUNS_SHORT if options.short else RUNS
    with _open_folder("turnaround-") as home:
        # What is recorded besides decides no verdict, and takes seconds on a GPU.
        settings = {"records_calls": False, "module_loading": experiment.loading}
        async with Harness(**settings) as harness:
            await harness.warm()
            while len(runs) < count and (not runs or time.monotonic() < until):
                folder = home / str(len(runs))
                request = make_request(
                    problem, solution, folder, device=device, mode=experiment.mode
                )
                timeline = Timeline()

                async def note(
                    message: Started | Progress | StageFinished, timeline: Timeline = timeline
                ) -> None:
                    stage = getattr(message, "stage", "")
                    timeline.note(f"{type(message).__name__} {stage}".strip())

                watching = asyncio.create_task(timeline.watch())
                report = await harness.evaluate(request, note)
                watching.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await watching
                if report.verdict != "passed":
                    raise DeviceFault(f"a run ended {report.verdict}: {report.reason}")
                runs.append(
                    {
                        "took_s": round(time.monotonic() - timeline.began, 4),
                        "messages_s": timeline.messages_s,
                        "processes": list(timeline.processes.values()),
                    }
                )
    return runs


@contextlib.contextmanager
def _open_folder(prefix: str) -> Iterator[Path]:
    """Make a folder that processes of other accounts can read."""
    with tempfile.TemporaryDirectory(prefix=prefix) as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


@contextlib.contextmanager
def _mps(*, is_wanted: bool) -> Iterator[None]:
    """Run our daemon where the harness looks for one, if wanted. Raises DeviceFault."""
    if host.is_mps_running():
        raise DeviceFault("a daemon that is not ours runs here: it is left alone")
    with contextlib.ExitStack() as stack:
        if is_wanted:
            folder = stack.enter_context(_open_folder("mps-"))
            stack.enter_context(MpsDaemon(folder, Path(host.MPS_PIPES)))
        yield


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3600.0, help="for everything")
    parser.add_argument("--out", type=Path, default=Path("turnaround.json"))
    parser.add_argument("--resume", action="store_true", help="only what has no row in --out yet")
    parser.add_argument("--short", action="store_true", help="three tests each, without MPS")
    parser.add_argument("--imitation", action="store_true", help="of a GPU; shows nothing of one")
    return parser.parse_args()


if __name__ == "__main__":
    main()
