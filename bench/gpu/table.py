"""Experiments one after the other, each in a process of its own with a time that it may take."""

import importlib
import json
import multiprocessing
import os
import signal
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from harness.devices.cuda.device import CudaDevice
from harness.devices.cuda.host import become_mps_client, module_loading

END_S_MAX = 5.0
IMITATED_PART = 40

# What the column `passed` of a row may say.
YES, NO, NOTHING, UNSHOWN = "yes", "NO", "-", "not on an imitation"
# What the column `measured` begins with where nothing ran: for good, or for lack of time.
SKIPPED, POSTPONED = "skipped: ", "no time: "


@dataclass(frozen=True)
class Found:
    """What an experiment found; `passed` is None where there is nothing to pass."""

    measured: str
    passed: bool | None = None
    data: dict[str, Any] = field(default_factory=dict)


class Skipped(Exception):  # noqa: N818  (STYLE.md, section 3: an outcome, not an error)
    """The experiment needs what this machine has not."""


@dataclass(frozen=True)
class Bench:
    """What an experiment is given: its time, its form, and the daemon whose client it is.

    On an imitation the device is imitated too, so nothing that is measured there means anything.
    """

    mps: dict[str, str]
    budget_s: float
    is_short: bool = False
    is_imitation: bool = False

    def count(self, full: int) -> int:
        """How many repetitions; those of imitated kernels are slow and mean nothing."""
        return full // IMITATED_PART if self.is_imitation else full

    def device(self, *, has_guest: bool = True) -> CudaDevice:
        """Open the referee in this process.

        Without a guest nothing waits at a gate, so kernels are loaded when they are first launched.
        Loading all kernels of torch takes more than 3 s.
        """
        if self.is_imitation:
            # Looked up: it is part of the tests, which no GPU needs.
            return importlib.import_module("bench.gpu.imitation").open_device()  # type: ignore[no-any-return]
        become_mps_client((module_loading(forced="EAGER") if has_guest else {}) | self.mps)
        device = CudaDevice(is_frozen=True, runs_beside=bool(self.mps))
        device.prepare()
        return device


@dataclass(frozen=True)
class Experiment:
    """A question, what is expected, and how long the answer may take; `beside` asks for MPS.

    `short_s` is the same for its short form, which has fewer repetitions; 0 means that it has none.
    `is_imitated` means that it uses no more of a GPU than the imitation of its driver has.
    """

    name: str
    what: str
    expected: str
    budget_s: float
    run: Callable[[Bench], Found]
    beside: bool = False
    short_s: float = 0.0
    is_imitated: bool = False


@dataclass(frozen=True)
class Row:
    """A line of the table. `is_short` means that fewer repetitions than usual were made."""

    name: str
    what: str
    expected: str
    measured: str
    passed: str
    took_s: float
    data: dict[str, Any]
    is_short: bool = False

    @property
    def is_skipped(self) -> bool:
        """Whether it is the line of something that did not run."""
        return self.measured.startswith((SKIPPED, POSTPONED))

    @property
    def is_postponed(self) -> bool:
        """Whether another call, which has more time, may run it."""
        return self.measured.startswith(POSTPONED)


def row_of(experiment: Experiment, bench: Bench) -> Row:
    """An experiment's line, whatever becomes of it."""
    began = time.monotonic()
    ours, theirs = multiprocessing.Pipe()
    # Python ignores an exception in the hooks that it runs after a fork, also a KeyboardInterrupt.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    pid = os.fork()
    if not pid:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        ours.close()
        _run_alone(experiment, bench, theirs)
    found: dict[str, Any] = {
        "measured": f"no answer within {bench.budget_s:.0f} s",
        "passed": False,
    }
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        theirs.close()
        if ours.poll(bench.budget_s):
            found = json.loads(ours.recv_bytes())
    except EOFError:
        found = {"measured": "the process ended without an answer", "passed": False}
    finally:
        _end(pid)
    verdict = {True: YES, False: NO, None: NOTHING}[found["passed"]]
    return Row(
        experiment.name,
        experiment.what,
        experiment.expected,
        found["measured"],
        UNSHOWN if bench.is_imitation else verdict,
        round(time.monotonic() - began, 2),
        found.get("data", {}),
        bench.is_short,
    )


def skipped(experiment: Experiment, reason: str, kind: str = SKIPPED) -> Row:
    """The line of an experiment that nobody ran."""
    measured = f"{kind}{reason}"
    return Row(experiment.name, experiment.what, experiment.expected, measured, NOTHING, 0.0, {})


def unshown(experiment: Experiment) -> Row:
    """The line of an experiment that an imitation cannot run."""
    measured = "needs a GPU: kernels, and memory that two processes share"
    return Row(experiment.name, experiment.what, experiment.expected, measured, UNSHOWN, 0.0, {})


def print_row(row: Row) -> None:
    """One line for people, at once, so that a table cut short is of use."""
    form = ", short form" if row.is_short else ""
    print(
        f"{row.name:<4} | {row.what:<46} | {row.expected:<44} | {row.measured} | {row.passed}"
        f" | {row.took_s:.1f} s{form}",
        flush=True,
    )


def write(rows: Sequence[Row], about: dict[str, Any], path: Path) -> None:
    """Everything, as JSON, after each experiment anew."""
    write_document({"about": about, "rows": [asdict(row) for row in rows]}, path)


def read(path: Path) -> list[Row]:
    """The rows of an earlier call; none if there is no file."""
    if not path.is_file():
        return []
    return [Row(**row) for row in json.loads(path.read_text(encoding="utf-8"))["rows"]]


def write_document(document: Any, path: Path) -> None:
    """Replaces a JSON file as a whole, so that whoever is killed leaves the earlier one."""
    part = path.with_suffix(".part")
    part.write_text(json.dumps(document, indent=1, default=str) + "\n", encoding="utf-8")
    part.replace(path)


def alone(run: Callable[[], Any], within_s: float = 60.0) -> Any:
    """The result of a function in a fresh fork: a guest's fork must come before the context's.

    Errors: RuntimeError, with what became of the process.
    """
    ours, theirs = multiprocessing.Pipe()
    pid = os.fork()
    if not pid:
        try:
            theirs.send((True, run()))
        except BaseException as error:  # noqa: BLE001  (told to whoever forked)
            theirs.send((False, f"{type(error).__name__}: {error}"))
        finally:
            os._exit(0)
    theirs.close()
    try:
        is_well, said = ours.recv() if ours.poll(within_s) else (False, "no answer in time")
    except EOFError:
        is_well, said = False, "the process ended without an answer"
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    if not is_well:
        raise RuntimeError(said)
    return said


def _run_alone(experiment: Experiment, bench: Bench, pipe: Connection) -> None:
    """In a process group of its own, whose end takes every guest with it."""
    os.setpgid(0, 0)
    try:
        found = experiment.run(bench)
    except Skipped as reason:
        found = Found(f"{SKIPPED}{reason}")
    except BaseException as error:  # noqa: BLE001  (a line of the table, and the next experiment)
        said = f"{type(error).__name__}: {error}".replace("\n", " ")[:300]
        found = Found(said, passed=False, data={"traceback": traceback.format_exc()[-4000:]})
    pipe.send_bytes(json.dumps(asdict(found), default=str).encode())
    pipe.close()
    os._exit(0)


def _end(pid: int) -> None:
    """Kills the experiment's processes, the frozen ones too."""
    for what in (signal.SIGKILL, signal.SIGCONT):
        try:
            os.killpg(pid, what)
        except ProcessLookupError:
            break
    until = time.monotonic() + END_S_MAX
    while time.monotonic() < until:
        if os.waitpid(pid, os.WNOHANG)[0]:
            return
        time.sleep(0.01)
