"""Profiles: what torch's profiler and ncu recorded of one call, as files that are opaque here."""

import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import messages
from harness.build import command, plan
from harness.build.plan import read_memory, seal_memory
from harness.build.teams import PROFILER, StageBudget, WorkerTeams
from harness.check.buffers import RankBuffers
from harness.check.calls import GatedCase, WarmUps
from harness.check.inputs import Shape
from harness.check.judging import JudgeContext
from harness.devices.device import CpuDevice
from harness.messages import Artefact, CaseFailed, escape_controls
from harness.problem import Case
from harness.sandbox.team import Team
from harness.worker import protocol
from harness.worker.protocol import PROFILE, WARM

ProfileFile = tuple[str, str, bytes]

# Name, media type, and the most bytes accepted from the worker.
_FILES = (
    ("ncu.ncu-rep", "application/octet-stream", protocol.REPORT_BYTES_MAX),
    ("ncu.txt", "text/plain", protocol.PAGE_BYTES_MAX),
    ("ncu.csv", "text/csv", protocol.CSV_BYTES_MAX),
)

# To capture a kernel of the platform; that is not the submission's time.
_PROBE_S_MAX = 60.0

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

        Raises CaseFailed if ncu counted nothing or all files are empty; ProfilerFault with the
        cause if ncu does not count a kernel of the platform either; ProblemFault.
        """
        files = self._capture_files(case, shape, self.worker_teams.role, deadline)
        if not files:
            raise CaseFailed("crashed", "the profile is empty: ncu produced no output")
        if cause := _read_cause(files):
            # A submission can write whatever ncu writes, so its own capture proves nothing.
            self._require_counters(case, shape)
            raise CaseFailed("crashed", cause)
        return files

    def _require_counters(self, case: Case, shape: Shape) -> None:
        """Capture a kernel of the platform in a fresh box. Raises ProfilerFault if that fails."""
        try:
            deadline = time.monotonic() + _PROBE_S_MAX
            files = self._capture_files(case, shape, protocol.PROBE_ROLE, deadline)
        except CaseFailed as failure:
            raise ProfilerFault(failure.message) from failure
        if cause := _read_cause(files):
            raise ProfilerFault(cause)

    def _capture_files(
        self, case: Case, shape: Shape, role: dict[str, Any], deadline: float
    ) -> list[ProfileFile]:
        """Return the files of one capture that are not empty. Raises CaseFailed, ProblemFault."""
        # ncu replays kernels for any length of time: no gate, no clock, and host memory.
        buffers = RankBuffers(CpuDevice(is_frozen=False), shape)
        memories = [os.memfd_create("capture", os.MFD_CLOEXEC) for _ in _FILES]
        program = seal_memory(plan.pack_replay())
        try:
            buffers.prepare(self.judge_context.author.data(case, case.seed or 0, 0))
            buffers.show()
            inputs_outputs = [memory.descriptor for memory in buffers.memories]
            order = self._order(buffers, self.worker_teams.scratch(), role)
            self._capture(order, [*memories, program, *inputs_outputs], deadline)
            files = [
                (name, media, read_memory(memory, bytes_max))
                for (name, media, bytes_max), memory in zip(_FILES, memories, strict=True)
            ]
        finally:
            buffers.close()
            for memory in (*memories, program):
                os.close(memory)
        return [file for file in files if file[-1]]

    @property
    def _ncu(self) -> plan.Ncu:
        return self.worker_teams.setup.machine.build_tools.ncu

    def _capture(self, order: dict[str, Any], descriptors: list[int], deadline: float) -> None:
        folders = tuple(sorted({*command.tool_folders(), *self._ncu.folders}))
        is_probe = order["replay"]["role"] == protocol.PROBE_ROLE
        built = () if is_probe else self.worker_teams.built
        team = self.worker_teams.start_profiler({"capture": order}, (*descriptors, *built), folders)
        try:
            if team.receive(0, deadline, "ncu used up the stage's budget") != protocol.READY:
                raise CaseFailed("protocol", "the profiler did not report that it is ready")
        finally:
            team.end()

    def _order(self, buffers: RankBuffers, scratch: str, role: dict[str, Any]) -> dict[str, Any]:
        """Return the order for harness.worker.programs."""
        report = f"{scratch}/profile"
        replay = {
            "role": role,
            "home": scratch,
            "layout": buffers.layout().decode(),
            "scalars": buffers.scalars().decode(),
            "device": self.judge_context.device.place,
        }
        # The filter is the participant's, and need not fit a kernel of the platform.
        kernels = plan.NcuFilter() if role == protocol.PROBE_ROLE else self.kernels
        return {
            "environment": plan.NCU_ENVIRONMENT,
            "command": plan.ncu_command(self._ncu.path, report, kernels),
            "pages": plan.page_commands(self._ncu.path, report),
            "report": report + plan.REPORT_SUFFIX,
            "replay": replay,
        }


class ProfilerFault(Exception):  # noqa: N818  (STYLE.md, section 3: an outcome, not an error)
    """This machine's ncu counts nothing: the machine's fault, not the submission's."""


def _read_cause(files: list[ProfileFile]) -> str:
    """Return why ncu counted nothing, "" if it did: a text alone says why."""
    is_cause = [media for _, media, _ in files] == ["text/plain"]
    return messages.make_printable(files[0][2].decode(errors="replace")) if is_cause else ""


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
