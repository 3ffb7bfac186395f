"""Runs of the harness on kernels whose work is known, the records of them, and busy processes."""

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import msgspec

from bench.noop_platform import ROOT, WORK, machine_cpu_s
from harness.entry import Harness, RunReport, RunRequest
from ranker.domain.score import compute_score, tie_share
from shared.events import CaseResult
from shared.problems.compilation import compile_problem

UTILITIES = ROOT / "harness" / "src" / "harness" / "check" / "utilities.py"
ALONE_S_MAX = 60.0
RULE = "last"
# What a kernel prepares at its import, and what it does `count` times. Comments: the time of one on
# a core of 3 GHz.
KINDS = {
    # 1.6 us
    "products": (
        "square, product = torch.rand(32, 32), torch.empty(32, 32)",
        "torch.mm(square, square, out=product)",
    ),
    # 0.4 ms
    "compute": (
        "square, product = torch.rand(256, 256), torch.empty(256, 256)",
        "torch.mm(square, square, out=product)",
    ),
    # 3.4 ms
    "memory": (
        "source, target = torch.rand(2**24), torch.empty(2**24)",
        "target.copy_(source)",
    ),
    # 3.4 us
    "cache": ("values = torch.rand(2**16)", "values.mul_(1.0)"),
    # 25 us
    "Python": ("", "sum(number * number for number in range(500))"),
}
KERNEL = """# Twin {twin}.
import torch
{prepare}
def custom_kernel(data):
    for _ in range({count}):
        {work}
    return data * 2
"""
# It ends with the process that started it, whatever ends that.
BUSY = """
import os
parent = os.getppid()
while os.getppid() == parent:
    sum(range(100_000))
"""


class Kernel(msgspec.Struct, frozen=True):
    """A kernel that does `count` times the work of its kind; twins differ in a comment alone."""

    kind: str
    count: int
    twin: int = 0

    @property
    def yardstick(self) -> "Kernel":
        """A kernel of the same kind that takes longer, as a reference does."""
        return Kernel(self.kind, 2 * self.count)

    @property
    def source(self) -> str:
        """The kernel's file."""
        prepare, work = KINDS[self.kind]
        return KERNEL.format(twin=self.twin, prepare=prepare, count=self.count, work=work)

    def write(self, folder: Path) -> Path:
        """Write the kernel's file into a folder and return its path."""
        path = folder / f"{self.kind}-{self.count}-{self.twin}.py"
        path.write_text(self.source)
        return path


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """What one run found. Units: microseconds of a call, seconds of the run.

    `size` names the kernel without its extra work, `load` is the number of busy processes,
    `truth_us` the true time of the kernel and `yardstick_us` the frozen one of the `yardstick`. A
    run without a verdict has `failure` and no score.
    `measured_share` is the share of the timed stage that its timed calls took.
    """

    part: str
    size: str
    kernel: Kernel
    load: int
    repetition: int
    mode: str
    truth_us: float
    yardstick: Kernel
    yardstick_us: float = 0.0
    failure: str = ""
    score_us: float = 0.0
    interval_us: tuple[float, float] = (0.0, 0.0)
    error: float | None = None
    freedom: int = 0
    delta: float = 0.0
    grade: str = ""
    null_us: float = 0.0
    samples: int = 0
    took_s: float = 0.0
    cpu_s: float = 0.0
    measured_share: float = 0.0
    machine_load: float = 0.0

    @property
    def key(self) -> tuple[object, ...]:
        """What distinguishes this run from the others of the benchmark."""
        return self.part, self.size, self.kernel, self.load, self.repetition, self.mode


class Records:
    """The runs so far; with a file they outlive the process, so that a benchmark can go on."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        lines = path.read_bytes().splitlines() if path and path.exists() else []
        self.rows = [msgspec.json.decode(line, type=Record) for line in lines]
        self._keys = {row.key for row in self.rows}

    def has(self, record: Record) -> bool:
        """Whether such a run is recorded already."""
        return record.key in self._keys

    def add(self, record: Record) -> None:
        """Keep a run."""
        self.rows.append(record)
        self._keys.add(record.key)
        if self._path:
            with self._path.open("ab") as file:
                file.write(msgspec.json.encode(record) + b"\n")


class Runner:
    """A warm harness and a folder for problems, kernels and the files of runs.

    A yardstick is the reference of its problem. Its frozen time is that of the earlier runs of the
    benchmark, or else its time alone.
    """

    def __init__(self, harness: Harness, folder: Path, earlier: Sequence[Record] = ()) -> None:
        self.harness, self.folder = harness, folder
        self._runs = 0
        self._alone_us: dict[Kernel, float] = {}
        self._problems: dict[Kernel, Path] = {}
        for run in earlier:
            if run.yardstick_us:
                self._alone_us[run.yardstick] = run.yardstick_us

    async def warm_up(self) -> None:
        """Test a kernel, so that no later run pays for what the first one loads."""
        kernel = Kernel("products", 1)
        warming = Record(
            part="",
            size="",
            kernel=kernel,
            load=0,
            repetition=0,
            mode="test",
            truth_us=0.0,
            yardstick=kernel.yardstick,
        )
        assert not (await self.run(warming)).failure

    async def run(self, wanted: Record) -> Record:
        """Time a kernel as its record says, and return the record with what was found."""
        self._runs += 1
        out = self.folder / f"out{self._runs}"
        out.mkdir()
        problem = self.find_problem(wanted.yardstick)
        source = wanted.kernel.write(self.folder)
        unit_us = self.alone_us(wanted.yardstick) if wanted.truth_us else 0.0
        request = RunRequest(
            str(problem),
            str(source),
            wanted.mode,
            str(out),
            yardstick_us={case: unit_us for case in _timed_cases(problem) if unit_us},
        )
        cpu_s, began = machine_cpu_s(), time.monotonic()
        report = await self.harness.evaluate(request, _ignore)
        done = msgspec.structs.replace(
            wanted,
            yardstick_us=unit_us,
            took_s=time.monotonic() - began,
            cpu_s=machine_cpu_s() - cpu_s,
            machine_load=os.getloadavg()[0],
        )
        if report.verdict != "passed":
            return msgspec.structs.replace(done, failure=report.reason or report.failure_code)
        return done if wanted.mode == "test" else _score(done, report)

    def alone_us(self, kernel: Kernel) -> float:
        """Return the time of a kernel alone in a quiet process at a real-time priority."""
        if kernel not in self._alone_us:
            problem, source = self.find_problem(kernel.yardstick), kernel.write(self.folder)
            result = subprocess.run(
                [sys.executable, "-m", "bench.alone", str(problem), str(source)],
                check=True,
                capture_output=True,
                cwd=ROOT,
                env=os.environ | {"OMP_NUM_THREADS": "1"},
                timeout=ALONE_S_MAX,
            )
            self._alone_us[kernel] = float(result.stdout)
        return self._alone_us[kernel]

    def counted_us(self, kernel: Kernel, yardstick: Kernel) -> float:
        """Return the time of a kernel by its work: exact in its ratio to the yardstick.

        It is that of a kernel without work, and for the work what the yardstick takes.
        """
        empty_us = self.alone_us(Kernel(kernel.kind, 0))
        work_us = self.alone_us(yardstick) - empty_us
        return empty_us + work_us * kernel.count / yardstick.count

    def find_problem(self, yardstick: Kernel) -> Path:
        """Return a problem's folder as an agent would have fetched it."""
        if yardstick not in self._problems:
            files = {path.name: path.read_bytes() for path in WORK.iterdir() if path.is_file()}
            kernel = yardstick.source.replace("custom_kernel", "ref_kernel")
            files["reference.py"] += f"\n\n{kernel}".encode()
            version = compile_problem("work", files)
            folder = self.folder / f"problem-{yardstick.kind}-{yardstick.count}"
            folder.mkdir()
            for name, data in {**version.files, "manifest.json": version.manifest}.items():
                (folder / name).write_bytes(data)
            (folder / "utils.py").write_text(UTILITIES.read_text())
            self._problems[yardstick] = folder
        return self._problems[yardstick]


async def _ignore(_: object) -> None:
    return


def _timed_cases(problem: Path) -> list[str]:
    manifest = json.loads((problem / "manifest.json").read_text())
    return [case["name"] for case in manifest["benchmarks"]]


def _score(record: Record, report: RunReport) -> Record:
    """Add the score to a record, as the leaderboard computes it."""
    cases = [asdict(case) for case in report.cases if case.stage == "time"]
    timed = msgspec.convert(cases, list[CaseResult])
    score = compute_score(RULE, timed, report.sigma_run)
    assert score is not None, report
    return msgspec.structs.replace(
        record,
        score_us=score.score_us,
        interval_us=score.interval_us,
        error=score.error,
        freedom=score.freedom,
        delta=tie_share(RULE, timed, score, report.tie_us, "C1"),
        grade=timed[-1].grade,
        null_us=timed[-1].null_us[1],
        samples=timed[-1].samples,
        measured_share=timed[-1].statistics["measured_share"],
    )


@contextlib.contextmanager
def busy_processes(count: int) -> Iterator[None]:
    """Run processes that never sleep, each in a session of its own.

    The scheduler shares the cores fairly between sessions: processes of ours would all together
    get no more than the harness.
    """
    command = [sys.executable, "-c", BUSY]
    processes = [subprocess.Popen(command, start_new_session=True) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()
