"""Measurements that are shown and never rank: batches of short calls, and profiles.

Profiles are what torch's profiler and ncu recorded of one call: files that are opaque here.
"""

import contextlib
import json
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Self

from harness.build import command, plan
from harness.build.plan import read_memory, seal_memory
from harness.build.teams import PROFILER, StageBudget, WorkerTeams
from harness.check.buffers import RankBuffers
from harness.check.calls import GatedCase, WarmUps
from harness.check.inputs import Shape
from harness.check.judging import JudgeContext
from harness.check.structure import layout_bytes
from harness.devices.cuda.device import CudaDevice
from harness.devices.cuda.rules import BATCH_US_MAX, MIB, batch_size
from harness.devices.device import CpuDevice, Device, DeviceFault, Memory
from harness.messages import Artefact, CaseFailed, escape_controls
from harness.problem import Case, ProblemFault
from harness.sandbox.team import Team
from harness.time.process import SPOT
from harness.worker import protocol
from harness.worker.protocol import PROFILE, WARM

BATCH_TIERS = ("G1", "G2")
_BATCH_BYTES_MAX = 1024 * MIB
_SETS_MIN = 2
_CALLS_MAX = 20
_S_MAX = 5.0

ProfileFile = tuple[str, str, bytes]

# Name, media type, and the most bytes accepted from the worker.
_FILES = (
    ("ncu.ncu-rep", "application/octet-stream", protocol.REPORT_BYTES_MAX),
    ("ncu.txt", "text/plain", protocol.PAGE_BYTES_MAX),
    ("ncu.csv", "text/csv", protocol.CSV_BYTES_MAX),
)

_TRACE = ("trace.json.gz", "application/gzip")
_TABLE = ("table.txt", "text/plain")
_PROFILE_BYTES_MAX = 16 * 1024**2

# The texts about the GPU kernels, and the options of cuobjdump that print them.
_LISTINGS = {
    "kernels.txt": "--dump-resource-usage",
    "kernels.ptx": "--dump-ptx",
    "kernels.sass": "--dump-sass",
}


@dataclass(frozen=True)
class ShortCase:
    """A timed case of one rank; `time_us` is one call and `null_us` one null call.

    `seeds` continues the sequence of seeds of its timed calls.
    """

    case: Case
    shape: Shape
    seeds: Iterator[int]
    time_us: float
    null_us: float


def count_sets(time_us: float, set_bytes: int, cache_bytes: int) -> int:
    """Return how many input sets a batch has; 0 if a batch is useless or does not fit."""
    if not 0 < time_us < BATCH_US_MAX:
        return 0
    sets = min(batch_size(time_us, set_bytes, cache_bytes), _BATCH_BYTES_MAX // set_bytes)
    return sets if sets >= _SETS_MIN else 0


def measure_batch(
    judge_context: JudgeContext, team: Team, short: ShortCase, deadline: float
) -> dict[str, float]:
    """Return the time per call in a batch and how it was measured; {} if it is unknown.

    Every answer is judged; a wrong one only loses this column, because these calls do not rank.
    """
    sets = _count_case_sets(judge_context.device, short)
    if not sets:
        return {}
    try:
        times = _time_batch(judge_context, team, short, sets, deadline)
    except (CaseFailed, DeviceFault, ProblemFault):
        return {}
    if not times:
        return {}
    each_us = max(0.0, median(times) - short.null_us) / sets
    return {"batch_us": each_us, "batch_sets": float(sets), "batch_calls": float(len(times))}


def _count_case_sets(device: Device, short: ShortCase) -> int:
    if not isinstance(device, CudaDevice) or short.case.ranks > 1:
        return 0
    set_bytes = layout_bytes(short.shape.inputs) + layout_bytes(short.shape.outputs)
    # A flush sweeps twice the size of the cache.
    cache_bytes = device.facts.flush_bytes // 2
    return count_sets(short.time_us - short.null_us, set_bytes, cache_bytes)


def _time_batch(
    judge_context: JudgeContext, team: Team, short: ShortCase, sets: int, deadline: float
) -> list[float]:
    times: list[float] = []
    with Batch(judge_context, team, short, sets) as batch:
        until = min(deadline, time.monotonic() + _S_MAX)
        # The first call captures the graph.
        batch.call(next(short.seeds), deadline)
        while len(times) < _CALLS_MAX and time.monotonic() < until:
            time_us = batch.call(next(short.seeds), deadline)
            if SPOT not in judge_context.device.flags:
                times.append(time_us)
    return times


class Batch(GatedCase):
    """Many input sets of one case, revealed to one worker together and answered together."""

    def __init__(
        self, judge_context: JudgeContext, team: Team, short: ShortCase, sets: int
    ) -> None:
        super().__init__(judge_context, team, short.case, [short.shape] * sets)
        self._short_case = short
        self._batch_memory = BatchMemory(judge_context.device, short.shape, sets)

    def __enter__(self) -> Self:
        """Send both memories to the worker, with the layout of the sets in them."""
        memory = self._batch_memory
        self._buffers = [RankBuffers(memory, shape) for shape in self.shapes]
        layouts = [each.layout for each in memory.memories]
        layout = json.loads(self._short_case.shape.layout(layouts))
        layout |= {"sets": len(self._buffers), "steps": memory.steps}
        descriptors = [each.descriptor for each in memory.memories]
        self.team.send(0, protocol.CASE + json.dumps(layout).encode(), descriptors)
        return self

    def __exit__(self, *_: object) -> None:
        """Release the memories."""
        super().__exit__()
        self._batch_memory.close()

    @property
    def memories(self) -> list[tuple[Memory, Memory]]:
        """The inputs and the outputs, each one memory for all sets."""
        return [self._batch_memory.memories]

    def _data(self, seed: int, rank: int) -> Any:
        """Every set has its own seed."""
        return self._author.data(self.case, next(self._short_case.seeds) if rank else seed)

    def _order(self, order: bytes) -> None:
        """Send one message for all sets. Raises ProblemFault if their plain values differ."""
        super()._order(order)
        if len(set(self._messages)) > 1:
            raise ProblemFault("plain values differ by seed, but all sets of a batch share them")
        del self._messages[1:]


class BatchMemory:
    """Two large memories of a device, each divided into as many pieces as there are sets."""

    def __init__(self, device: Device, shape: Shape, sets: int) -> None:
        self.steps = [layout_bytes(shape.inputs), layout_bytes(shape.outputs)]
        inputs, outputs = (
            device.allocate(sets * step, role)
            for step, role in zip(self.steps, ("inputs", "outputs"), strict=True)
        )
        self.memories = inputs, outputs
        self._used_bytes = {"inputs": 0, "outputs": 0}

    def allocate(self, size: int, role: str) -> Memory:
        """Return the next piece of a role's memory."""
        memory = self.memories[0 if role == "inputs" else 1]
        begin = self._used_bytes[role]
        self._used_bytes[role] += size
        return _Piece(memory.bytes[begin : begin + size])

    def close(self) -> None:
        """Release the memories; no piece may be used afterwards."""
        for memory in self.memories:
            memory.close()


@dataclass
class _Piece:
    """A part of a memory that it does not own."""

    bytes: Any
    descriptor: int = -1
    layout: dict[str, Any] = field(default_factory=dict)

    def close(self) -> None:
        self.bytes = None


@dataclass(frozen=True)
class NcuCapturer:
    """Captures one call of each case that this machine's ncu can profile."""

    judge_context: JudgeContext
    worker_teams: WorkerTeams
    kernels: plan.NcuFilter

    def is_for(self, case: Case) -> bool:
        """Return whether a case can be captured here."""
        return self._ncu.is_for(self.judge_context.device.name, case.ranks)

    def files(self, case: Case, shape: Shape, deadline: float) -> list[ProfileFile]:
        """Return report, text and table of one call, under the published seed.

        Without a report, the text says why ncu could not make one. Raises CaseFailed if all files
        are empty; ProblemFault.
        """
        # ncu replays kernels for any length of time: no gate, no clock, and host memory.
        buffers = RankBuffers(CpuDevice(is_frozen=False), shape)
        memories = [os.memfd_create("capture", os.MFD_CLOEXEC) for _ in _FILES]
        program = seal_memory(plan.pack_replay())
        try:
            buffers.prepare(self.judge_context.author.data(case, case.seed or 0, 0))
            buffers.show()
            inputs_outputs = [memory.descriptor for memory in buffers.memories]
            self._capture(buffers, [*memories, program, *inputs_outputs], deadline)
            files = [
                (name, media, read_memory(memory, bytes_max))
                for (name, media, bytes_max), memory in zip(_FILES, memories, strict=True)
            ]
        finally:
            buffers.close()
            for memory in (*memories, program):
                os.close(memory)
        return _drop_empty_files(files)

    @property
    def _ncu(self) -> plan.Ncu:
        return self.worker_teams.setup.machine.build_tools.ncu

    def _capture(self, buffers: RankBuffers, descriptors: list[int], deadline: float) -> None:
        folders = tuple(sorted({*command.tool_folders(), *self._ncu.folders}))
        order = {"capture": self._order(buffers, self.worker_teams.scratch())}
        team = self.worker_teams.start_profiler(
            order, (*descriptors, *self.worker_teams.built), folders
        )
        try:
            if team.receive(0, deadline, "ncu used up the stage's budget") != protocol.READY:
                raise CaseFailed("protocol", "the profiler did not report that it is ready")
        finally:
            team.end()

    def _order(self, buffers: RankBuffers, scratch: str) -> dict[str, Any]:
        """Return the order for harness.worker.programs."""
        report = f"{scratch}/profile"
        replay = {
            "role": self.worker_teams.role,
            "home": scratch,
            "layout": buffers.layout().decode(),
            "scalars": buffers.scalars().decode(),
            "device": self.judge_context.device.place,
        }
        return {
            "environment": plan.NCU_ENVIRONMENT,
            "command": plan.ncu_command(self._ncu.path, report, self.kernels),
            "pages": plan.page_commands(self._ncu.path, report),
            "report": report + plan.REPORT_SUFFIX,
            "replay": replay,
        }


def _drop_empty_files(files: list[ProfileFile]) -> list[ProfileFile]:
    non_empty = [(name, media, data) for name, media, data in files if data]
    if not non_empty:
        raise CaseFailed("crashed", "the profile is empty: ncu produced no output")
    return non_empty


class Profiler:
    """Profiles one case after another in a team, and keeps the files."""

    def __init__(
        self,
        judge_context: JudgeContext,
        worker_teams: WorkerTeams,
        warm_ups: WarmUps,
        kernels: plan.NcuFilter,
    ) -> None:
        self._judge_context = judge_context
        self._worker_teams = worker_teams
        self._warm_ups = warm_ups
        self._team: Team | None = None
        self._capturer = NcuCapturer(judge_context, worker_teams, kernels)
        self.artefacts: list[Artefact] = []

    def warm(self, team: Team) -> None:
        """Use this team from now on; its workers import the profiler first. Raises CaseFailed."""
        if team is self._team:
            return
        team.thaw()
        for rank in range(team.ranks):
            team.send(rank, WARM)
        self._worker_teams.wait_until_ready(team, PROFILER)
        self._team = team

    def run(
        self,
        case: Case,
        number: int,
        shapes: Sequence[Shape],
        seeds: Iterator[int],
        budget: StageBudget,
    ) -> None:
        """Record trace, table and ncu's files of one call. Raises CaseFailed if any is empty."""
        self._keep_files(number, self._record_call(case, shapes, seeds, budget))
        if self._capturer.is_for(case):
            self._keep_files(number, self._capturer.files(case, shapes[0], budget.ends_at))

    def list_kernels(self) -> None:
        """Keep what the submission's GPU kernels use, their PTX and their SASS, if it has any.

        A machine without cuobjdump, and a list that fails, leave no files.
        """
        cuobjdump = command.find_cuobjdump()
        if self._team is None or not cuobjdump:
            return
        packed, *memories = (os.memfd_create("kernels", os.MFD_CLOEXEC) for _ in ("", *_LISTINGS))
        try:
            with contextlib.suppress(CaseFailed):
                self._describe_kernels(cuobjdump, packed, memories)
            texts = [read_memory(memory, protocol.LISTING_BYTES_MAX) for memory in memories]
        finally:
            for memory in (packed, *memories):
                os.close(memory)
        profiles, self.artefacts[:] = list(self.artefacts), []
        for name, text in zip(_LISTINGS, texts, strict=True):
            self._keep(name, "text/plain", text)
        # These come first: an agent stores only so many artefacts.
        self.artefacts += profiles

    def _describe_kernels(self, cuobjdump: str, packed: int, memories: Sequence[int]) -> None:
        """Fill a memory for each listing; those of a Python file are found in its packed caches."""
        assert self._team is not None
        teams = self._worker_teams
        is_native = "launch" in teams.role
        if not is_native:
            self._team.thaw()
            self._team.send(0, protocol.PACK, (packed,))
            teams.wait_until_ready(self._team)
        built = teams.built[0] if is_native else packed
        if not os.fstat(built).st_size:
            return
        # cuobjdump starts nvdisasm, which is beside it.
        path = f"{Path(cuobjdump).parent}{os.pathsep}{command.search_path()}"
        order = {
            "cuobjdump": cuobjdump,
            "environment": {"PATH": path},
            "folder": f"{teams.scratch()}/kernels",
            "options": list(_LISTINGS.values()),
            "is_native": is_native,
            "is_nvrtc": bool(teams.role.get("launch")),
        }
        team = teams.start_builder({"listing": order}, (built, *memories))
        teams.wait_until_ready(team, "cuobjdump")
        team.end()

    def _record_call(
        self, case: Case, shapes: Sequence[Shape], seeds: Iterator[int], budget: StageBudget
    ) -> list[ProfileFile]:
        assert self._team is not None
        memories = [os.memfd_create("profile", os.MFD_CLOEXEC) for _ in (_TRACE, _TABLE)]
        try:
            with GatedCase(self._judge_context, self._team, case, shapes) as gate:
                self._warm_ups.warm_up(gate, budget)
                gate.call(next(seeds), budget.ends_at)
                gate.run(next(seeds), budget.ends_at, PROFILE, memories)
            trace, table = (read_memory(memory, _PROFILE_BYTES_MAX) for memory in memories)
        finally:
            for memory in memories:
                os.close(memory)
        if not table:
            raise CaseFailed("crashed", "the profile is empty")
        return [(*_TRACE, trace), (*_TABLE, table)]

    def _keep_files(self, number: int, files: Sequence[ProfileFile]) -> None:
        for name, media, data in files:
            self._keep(f"profile-{number}-{name}", media, data)

    def _keep(self, name: str, media: str, data: bytes) -> None:
        # The submission chooses names in there.
        content = escape_controls(data)[:_PROFILE_BYTES_MAX] if media == "text/plain" else data
        if content:
            self._worker_teams.directory.keep(name, content)
            self.artefacts.append(Artefact(name, media, len(content)))
