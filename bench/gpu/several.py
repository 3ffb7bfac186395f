"""R1 to R3: several ranks, released together; one GPU will do for the first."""

import asyncio
import hashlib
import importlib
import json
import secrets
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from bench.gpu.local import median
from bench.gpu.pair import Pair
from bench.gpu.table import Bench, Found, Skipped
from harness.devices.cuda.gate import Referee, RefereeStream
from harness.devices.cuda.host import become_mps_client, list_gpus, module_loading
from harness.devices.cuda.memory import CudaInputs
from harness.devices.cuda.multi_gpu import HostFlags, MultiGpuCall, MultiGpuDevice, count_flag_words
from harness.devices.cuda.rules import CallTiming
from harness.devices.device import Memory
from harness.entry import Harness, RunReport, RunRequest

FLOATS = 1024 * 1024
WORK_NS = 100_000
CALLS = 40
STAGGER_US_MAX = 50.0
PROBLEM = Path(__file__).parent / "several_problem"


@dataclass
class Ranks:
    """The window of several guests: every step is taken by each in turn."""

    pairs: Sequence[Pair]
    nonce: bytes = b""

    @property
    def memories(self) -> list[tuple[Memory, Memory]]:
        """Of each rank."""
        return [pair.memories[0] for pair in self.pairs]

    def ready(self) -> None:
        """Fresh inputs, and one nonce for all; each rank works longer than the one before."""
        self.nonce = secrets.token_bytes(16)
        for rank, pair in enumerate(self.pairs):
            pair.ready(self.nonce, ns=WORK_NS * (1 + rank))

    def show(self) -> None:
        """The private inputs of each."""
        for pair in self.pairs:
            pair.show()

    def go(self) -> None:
        """Lets all run."""
        for pair in self.pairs:
            pair.go()

    def armed(self, within_s: float) -> bool:
        """Whether all have their work queued."""
        said = [pair.armed(within_s) for pair in self.pairs]
        return all(said)

    def wait(self) -> None:
        """Until all are done."""
        for pair in self.pairs:
            pair.wait()

    def hold(self) -> None:
        """The copy of each answer."""
        for pair in self.pairs:
            pair.hold()

    def are_right(self) -> bool:
        """Whether every answer is."""
        return all(pair.is_right() for pair in self.pairs)


def on_one(bench: Bench) -> Found:
    """R1: two referees and two guests of one GPU, released by one word of the host."""
    with ExitStack() as stack:
        pairs = [stack.enter_context(Pair("honest", bench.mps)) for _ in range(2)]
        device = bench.device()
        torch: Any = importlib.import_module("torch")
        other = Referee(device.driver, device.kernels, device.facts, RefereeStream(device.place))
        words = torch.zeros(count_flag_words(2), dtype=torch.int32, pin_memory=True)
        volley = MultiGpuCall(device.driver, [device.referee, other], HostFlags(words))
        for pair in pairs:
            pair.open(device, FLOATS)
        ranks = Ranks(pairs)
        shots, right = [], 0
        for _ in range(CALLS):
            ranks.ready()
            shots.append(volley.shoot(ranks))
            right += ranks.are_right()
    return _found(shots, right)


def on_each(bench: Bench) -> Found:
    """R2: a GPU for each rank. Errors: Skipped, where there is but one."""
    gpus = list_gpus()
    if len(gpus) < 2:
        raise Skipped(f"{len(gpus)} GPU is here")
    uuids = [uuid for _, uuid in gpus]
    with ExitStack() as stack:
        pairs = [
            stack.enter_context(Pair("honest", bench.mps | {"CUDA_VISIBLE_DEVICES": uuid}))
            for uuid in uuids
        ]
        become_mps_client(
            module_loading(len(uuids)) | bench.mps | {"CUDA_VISIBLE_DEVICES": ",".join(uuids)}
        )
        gang = MultiGpuDevice(len(uuids), is_frozen=True)
        gang.prepare()
        for pair, member in zip(pairs, gang.members, strict=True):
            pair.open(member, FLOATS)
        ranks = Ranks(pairs)
        shots, right = [], 0
        for _ in range(CALLS):
            ranks.ready()
            gang.timed(ranks)
            shots.append(cast("CudaInputs", ranks.memories[0][0]).shots[-1])
            right += ranks.are_right()
    return _found(shots, right)


def by_nccl(_: Bench) -> Found:
    """R3: a whole run of a collective in its box. Errors: Skipped, where there is one GPU."""
    if len(list_gpus()) < 2:
        raise Skipped(f"{len(list_gpus())} GPU is here")
    with tempfile.TemporaryDirectory(prefix="ranks-") as folder:
        report = asyncio.run(_run(_request(Path(folder))))
    case = report.cases[-1] if report.cases else None
    said = f"{report.verdict or report.failure_code}: {report.reason}"
    if case and case.time_us:
        said += f"; {case.time_us:.1f} us, stagger {case.statistics['stagger_us']:.1f} us"
    return Found(said[:300], report.verdict == "passed", {"log": report.log_tail[-2000:]})


async def _run(request: RunRequest) -> RunReport:
    async with Harness() as harness:
        return await harness.evaluate(request, _ignore)


async def _ignore(_: object) -> None:
    """Nobody watches."""


def _request(folder: Path) -> RunRequest:
    folder.chmod(0o755)
    problem, out = folder / "problem", folder / "out"
    for new in (problem, out):
        new.mkdir()
    text = (PROBLEM / "reference.py").read_bytes()
    (problem / "reference.py").write_bytes(text)
    args = {"size": FLOATS, "seed": 7, "world_size": 2}
    manifest = {
        "slug": "sum-of-ranks",
        "lang": "py",
        "files": {"reference.py": hashlib.sha256(text).hexdigest()},
        "submission": "submission.py",
        "tests": [{"name": "small", "args": args | {"size": 1000}}],
        "benchmarks": [{"name": "large", "args": args}],
        "ranking_by": "geom",
        "budgets_s": {"benchmark": 20},
    }
    (problem / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    source = str(PROBLEM / "submission.py")
    return RunRequest(str(problem), source, "benchmark", str(out), "cuda")


def _found(shots: Sequence[CallTiming], right: int) -> Found:
    staggers = sorted(shot.stagger_us for shot in shots)
    time_us = median([shot.time_us for shot in shots])
    late_us = staggers[9 * len(staggers) // 10]
    said = f"{right} of {len(shots)} right, {time_us:.1f} us, stagger p90 {late_us:.1f} us"
    is_well = right == len(shots) and late_us <= STAGGER_US_MAX
    return Found(said, is_well, {"stagger_us": staggers})
