"""Cheats tried, one after the other, in a harness that stays warm; and who must survive them."""

import asyncio
import contextlib
import gzip
import itertools
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from harness.entry import Harness, Progress, RunReport, RunRequest, StageFinished, Started
from harness.sandbox.keeper import SPARE_NAME
from harness.sandbox.linux import descendants, parent_of
from harness.supervisor.process import SPARE_NAME as SPARE_RUN_NAME
from harness.time.estimators import mean_without_top
from tests.support.harness import Warm, children
from tests.support.processes import name_of

from .corpus import Cheat, write_problem

SECRET = "the agent's token"
BYSTANDER = "\0warpboard-bystander"
_NOISY_MAX = 3
_GONE_S_MAX = 3.0
_SLEEP = "import time; time.sleep(3600)"


@dataclass(frozen=True)
class Ended:
    """How one run of a cheat ended: its report and records, and the processes still there.

    `dropped_us` are those of the samples that do not count because of the machine, and `means_us`
    the mean time of all calls of each case, without the handshake and the first calls of blocks.
    """

    report: RunReport
    level: str
    tier: str
    log: str
    samples_us: list[float]
    left: Sequence[int] = ()
    dropped_us: Sequence[float] = ()
    means_us: Sequence[float] = ()

    @property
    def times_us(self) -> list[float]:
        """The estimates of the timed cases."""
        return [case.time_us for case in self.report.cases if case.time_us is not None]

    @property
    def said(self) -> str:
        """All words of the report that a participant may read."""
        composition = self.report.composition
        doubts = composition.doubts if composition else []
        messages = [case.message for case in self.report.cases]
        return "\n".join([self.report.reason, *messages, *doubts])


class Bystanders:
    """What any agent's machine has beside a run: secrets, processes, sockets, files."""

    def __init__(self, folder: Path) -> None:
        """`folder` is one that other users may read."""
        environment = {**os.environ, "WARPBOARD_TEST_SECRET": SECRET}
        self._process = subprocess.Popen([sys.executable, "-c", _SLEEP], env=environment)
        self._socket = socket.socket(socket.AF_UNIX)
        # Another suite on this machine may hold the name already: then it gets a longer one.
        for name in (BYSTANDER, f"{BYSTANDER}-{os.getpid()}-{id(self)}"):
            with contextlib.suppress(OSError):
                self._socket.bind(name)
                break
        self._socket.listen()
        self._in_folder = socket.socket(socket.AF_UNIX)
        place = folder / "bystander.socket"
        self._in_folder.bind(str(place))
        place.chmod(0o777)
        self._in_folder.listen()
        (folder / "other_submission.py").write_text(f"# {SECRET}\n")
        os.environ["WARPBOARD_TEST_SECRET"] = SECRET

    @property
    def are_well(self) -> bool:
        """Whether the process still runs, neither stopped nor killed."""
        stat = Path(f"/proc/{self._process.pid}/stat").read_text()
        return self._process.poll() is None and stat.rpartition(")")[2].split()[0] in "RS"

    def close(self) -> None:
        """Ends them."""
        self._process.kill()
        self._process.wait()
        self._socket.close()
        self._in_folder.close()
        os.environ.pop("WARPBOARD_TEST_SECRET", None)


class Trials:
    """A warm harness, the folder where runs are kept, and the bystanders.

    The harness is `warm`, which goes on after this, or one of its own with these options.
    """

    def __init__(self, folder: Path, warm: Warm | None = None, **options: Any) -> None:
        self._folder = folder
        self._options = options
        self._numbers = itertools.count()
        self._warm = warm
        self._runner = warm.runner if warm else asyncio.Runner()
        self._harnesses: list[Harness] = [warm.harness] if warm else []
        self._seen: set[int] = set()
        # What earlier tests of this process left running, a platform say, goes on meanwhile.
        self._others = {pid for pid in children() if b"harness.supervisor" not in _command(pid)}
        self._meanwhile: Callable[[str], None] = lambda _: None
        folder.chmod(0o755)
        self.bystanders = Bystanders(folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for harness in self._harnesses[1 if self._warm else 0 :]:
            self._runner.run(harness.close())
        if not self._warm:
            self._runner.close()
        self.bystanders.close()

    def run(self, one: Cheat, meanwhile: Callable[[str], None] | None = None) -> list[Ended]:
        """Every run that a cheat asks for: one, some in a row, or some at once.

        `meanwhile` is called with the stage whenever a case is about to be run.
        """
        self._meanwhile = meanwhile or (lambda _: None)
        return self._runner.run(self._run(one))

    @property
    def supervisors(self) -> list[int]:
        """The processes that the harness stands on."""
        return [pid for pid in _lasting() if b"harness.supervisor" in _command(pid)]

    def _beneath(self) -> set[int]:
        return set(descendants(os.getpid(), self._others))

    async def _run(self, one: Cheat) -> list[Ended]:
        at_once = int(one.number("at_once", 1))
        there = self._beneath()
        while len(self._harnesses) < at_once:
            self._harnesses.append(Harness(**self._options))
        some = self._harnesses[:at_once]
        found: list[Ended] = []
        for _ in range(int(one.number("runs", 1))):
            found += await asyncio.gather(*(self._ended(one, harness) for harness in some))
        left = await self._left(there)
        return [replace(ended, left=left) for ended in found]

    async def _ended(self, one: Cheat, harness: Harness) -> Ended:
        """The end of a run; a machine that was too noisy is asked again, as a platform does."""
        ended = await self._once(one, harness)
        for _ in range(_NOISY_MAX - 1):
            if ended.report.failure_code != "noisy":
                break
            ended = await self._once(one, harness)
        return ended

    async def _once(self, one: Cheat, harness: Harness) -> Ended:
        folder = self._folder / str(next(self._numbers))
        problem, out = folder / "problem", folder / "out"
        for new in (folder, problem, out):
            new.mkdir()
        write_problem(one, problem)
        least = one.header.get("level_min", "none")
        request = RunRequest(
            str(problem), str(one.path), one.mode, str(out), key=one.key, level_min=least
        )
        level = tier = ""

        async def told(message: Started | Progress | StageFinished) -> None:
            nonlocal level, tier
            if isinstance(message, Started):
                level, tier = message.level, message.tier
            self._seen.update(self._beneath())
            if isinstance(message, Progress):
                self._meanwhile(message.stage)

        report = await harness.evaluate(request, told)
        log = out / "log.txt"
        return Ended(
            report,
            level,
            tier,
            log.read_text() if log.exists() else "",
            list(read_samples_us(out / "samples.json.gz")),
            dropped_us=list(_dropped(out / "samples.json.gz")),
            means_us=list(read_means_us(out / "samples.json.gz")),
        )

    async def _left(self, there: set[int]) -> list[int]:
        """Processes that a run has started, or that are new beneath us, and do not end."""
        until = time.monotonic() + _GONE_S_MAX
        while True:
            suspects = (self._seen | self._beneath()) - _lasting() - there
            left = [pid for pid in suspects if _is_alive(pid)]
            if not left or time.monotonic() > until:
                return left
            await asyncio.sleep(0.02)


def _lasting() -> set[int]:
    """The harness's own processes, its spares, and all bystanders: they stay between runs."""
    found = set()
    for pid in descendants(os.getpid()):
        words, above = _command(pid), parent_of(pid)
        is_supervisor = b"harness.supervisor" in words and above == os.getpid()
        # A box is a fork of its zygote, and says the same of itself.
        is_zygote = b"harness.zygote" in words and b"harness.zygote" not in _command(above)
        if is_supervisor or is_zygote or _SLEEP.encode() in words:
            found.add(pid)
        if name_of(pid) in (SPARE_NAME, SPARE_RUN_NAME):
            found |= {pid, *descendants(pid)}
    return found


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] != b"Z"
    except OSError:
        return False


def _cases(path: Path) -> list[dict[str, Any]]:
    """The records of the timed cases; none where nothing was timed."""
    return (
        list(json.loads(gzip.decompress(path.read_bytes()))["cases"].values())
        if path.exists()
        else []
    )


def _blocks(case: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The blocks of the submission in a case."""
    for process in case["processes"]:
        for pair in process["pairs"]:
            yield pair["A"]


def read_samples_us(path: Path) -> Iterator[float]:
    """The time of every call, warm-ups included; none where nothing was timed."""
    for case in _cases(path):
        for process in case["processes"]:
            yield from process["warm_ups"]["time_us"]
        for block in _blocks(case):
            yield from block["time_us"]


def _dropped(path: Path) -> Iterator[float]:
    """The time of every call in which the process with the clock is said to have waited."""
    for case in _cases(path):
        for block in _blocks(case):
            for slot, flags in block["flags"].items():
                if "waited" in flags:
                    yield block["time_us"][int(slot)]


def read_means_us(path: Path) -> Iterator[float]:
    """The mean of all calls of each case but the first ones of blocks, without the handshake."""
    for case in _cases(path):
        times = [
            time_us
            for block in _blocks(case)
            for slot, time_us in enumerate(block["time_us"])
            if "cold" not in block["flags"].get(str(slot), ())
        ]
        yield mean_without_top(times) - case["handshake_us"] if times else 0.0


def alone_us(honest: Sequence[Ended]) -> float:
    """The least that the timed case takes in a hot loop, as the honest control printed it."""
    words = [line.split() for ended in honest for line in ended.log.splitlines()]
    found = [float(line[1]) for line in words if line[:1] == ["ALONE_US"]]
    assert found, [ended.report for ended in honest]
    return min(found)
