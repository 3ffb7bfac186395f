"""`python -m tests.devices.early_runs FOLDER`: runs on a device that is imitated, one by one.

Each is a whole run with a real box. Only what CUDA's driver does is imitated: the context of the
worker, and that of the referee, which then computes on the processor. It prints a JSON object of
how each run ended. The last run is a ranked one, whose processes tell when their contexts opened.
"""

import json
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

from harness.build import yardstick
from harness.build.plan import survey_tools
from harness.build.teams import Machine
from harness.devices import access
from harness.devices.access import DeviceAccess
from harness.devices.device import Device, DeviceFault
from harness.entry import Progress, StageFinished
from harness.problem import RunDirectory, load_problem
from harness.sandbox import launcher
from harness.sandbox.box import SUBMISSION
from harness.sandbox.launcher import ZygoteLauncher
from harness.sandbox.linux import descendants
from harness.sandbox.probe import probe_isolation
from harness.supervisor import run as supervisor_run
from harness.supervisor.folders import RunFolder, open_build_cache, prepare_run_directory
from harness.supervisor.run import Preparation
from harness.supervisor.server import execute_run
from tests.devices import imitated_contexts as contexts
from tests.support.harness import BUDGETS_S, HONEST, REFERENCE, Host, Message, Warm
from tests.support.platform import ROOT
from tests.support.processes import name_of
from tests.support.waits import until

SOURCE = f'print("the submission is imported", flush=True)\n{HONEST}'
# The process of the run has no context of its own here.
TELLING = f"""
import sys
for opened_at in sys.modules[{contexts.__name__!r}].opened_at:
    print("opened at", opened_at, flush=True)
"""
RANKED = "ranked"
MEETING = "referee-opens"
REFEREE_FAILS = "referee fails"
WAYS = (
    *(contexts.OPENS, contexts.EXITS, contexts.RAISES, contexts.FAULTS, contexts.WAITS),
    REFEREE_FAILS,
)
# How long a worker that waits for ever may do so: the time of an import.
IMPORT_S = 2.0


@dataclass(frozen=True)
class ImitatedDevice:
    """The device of one run, whose worker opens its context in one of the ways."""

    way: str
    directory: RunDirectory
    zygote: ZygoteLauncher
    has_namespaces: bool

    def find_access(self, *_: object, **__: object) -> DeviceAccess:
        """Return the access of a box that has a device."""
        folder = SUBMISSION if self.has_namespaces else str(self.directory.submission)
        environment = {contexts.WAY: self.way, contexts.REFEREE: f"{folder}/{MEETING}"}
        return DeviceAccess(devices=("/dev/null",), environment=access.NO_GPU | environment)

    def open_for_referee(self, _: str, *others: Any) -> Device:
        """Open the device here once the worker has begun to open it. Raises DeviceFault."""
        if self.way == REFEREE_FAILS:
            until(self._is_worker_opening, contexts.MEET_S_MAX)
            raise DeviceFault("CUDA's driver cannot be used: no device")
        if self.way == contexts.OPENS:
            until(self._is_worker_opening, contexts.MEET_S_MAX)
            (self.directory.submission / MEETING).touch()
        return access.open_device("cpu", *others)

    def _is_worker_opening(self) -> bool:
        return any(name_of(pid) == contexts.OPENING for pid in descendants(self.zygote.pid))


def run(way: str, folder: Path, machine: Machine) -> Mapping[str, object]:
    """Return how a run ends, what its log holds, and how many boxes it leaves.

    Also when each stage ended, and when the time stage began.
    """
    folder.mkdir(mode=0o755)
    host = Host(folder, cast("Warm", None), {"build": IMPORT_S, RANKED: BUDGETS_S[RANKED]})
    mode = "test"
    if way == RANKED:
        way, mode, host.files = contexts.AT_ONCE, RANKED, {"reference.py": REFERENCE + TELLING}
    source = SOURCE if mode == "test" else TELLING + HONEST
    request = host.request(source, mode, device="cuda")
    marks: dict[str, float] = {}

    def note(message: Message) -> None:
        match message:
            case StageFinished(stage=stage):
                marks[f"{stage} ended"] = time.monotonic()
            case Progress(stage="time"):
                marks.setdefault("time began", time.monotonic())

    run_folder = RunFolder.make(folder)
    directory = prepare_run_directory(request, load_problem(Path(request.problem)), run_folder)
    device = ImitatedDevice(way, directory, machine.launcher, "namespaces" in machine.walls)
    vars(supervisor_run).update(
        find_device_access=device.find_access, open_device=device.open_for_referee
    )
    began = time.monotonic()
    report = execute_run(request, directory, machine, note, Preparation())
    run_folder.move_records(host.out)
    logs = {
        name: path.read_text().splitlines() if (path := host.out / name).exists() else []
        for name in ("log.txt", yardstick.LOG)
    }
    return {
        "verdict": report.verdict,
        "failure_code": report.failure_code,
        "reason": report.reason,
        "took_s": time.monotonic() - began,
        "log": logs["log.txt"],
        "yardstick_log": logs[yardstick.LOG],
        "marks": marks,
        **machine.launcher.counts(),
    }


def main(folder: Path) -> None:
    """Run all, with one zygote that imports the imitation."""
    # In isolation from the environment, an interpreter does not find the tests.
    vars(launcher).update(
        _FLAGS=tuple(flag for flag in launcher._FLAGS if flag != "-I"),
        _ENVIRONMENT=launcher._ENVIRONMENT | {"PYTHONPATH": str(ROOT)},
    )
    walls = probe_isolation().walls
    zygote = ZygoteLauncher(walls, imports=("torch", contexts.__name__))
    cache = open_build_cache(folder)
    machine = Machine(zygote, walls, survey_tools(), cache, records_calls=False, spares=1)
    runs = partial(run, machine=machine)
    try:
        ended = {way: runs(way, folder / way.replace(" ", "-")) for way in (*WAYS, RANKED)}
    finally:
        zygote.close()
    json.dump(ended, sys.stdout)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main(Path(sys.argv[1]))
