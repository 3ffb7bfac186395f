"""Starts teams of workers for a run: what they are shown, what they may use, how they set up."""

import json
import os
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from harness.messages import STAGES
from harness.sandbox.box import Launcher, SandboxFault
from harness.sandbox.processes import END_S_MAX
from harness.sandbox.spec import SCRATCH, SUBMISSION, Limits, Spec
from harness.supervisor import memory, together
from harness.supervisor.defences import ALL, Defences
from harness.supervisor.home import Home
from harness.supervisor.outfit import NO_GPU, Outfit
from harness.supervisor.output import Log
from harness.supervisor.purse import Purse
from harness.supervisor.team import Team
from harness.supervisor.verdict import CaseFailed
from harness.toolchains.command import BUILD_MEMORY_BYTES, BUILD_PROCESSES_MAX, BUILD_S_MAX
from harness.toolchains.plan import Workshop, cache_folder, environment
from harness.worker import protocol

_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
_LAST_CHANCE_S = 1.0
_NOT_KILLED = f"a process of the submission could not be killed within {END_S_MAX:.0f} s"
_IMPORT_LIMIT = "the import used up its budget"
_ON_LOOPBACK = {"GLOO_SOCKET_IFNAME": "lo", "NCCL_SOCKET_IFNAME": "lo"}
# Of a box that may use the supervisor's core, which needs it to stay in control.
_WEIGHT_BESIDE_SUPERVISOR = 50
# It runs while a call is timed alone, and other processes make its times longer: the most there is.
_WEIGHT_ON_OWN_CORES = 10_000
# Times the memory of any box: more than a process can address.
_UNLIMITED_FACTOR = 2**20


@dataclass(frozen=True)
class Place:
    """Where the workers of this machine live: the launcher, the walls, the tools, the cores.

    `cores` are the workers' own, none where they share the supervisor's; `outfit` is what they are
    given of the run's device.
    """

    launcher: Launcher
    walls: tuple[str, ...]
    workshop: Workshop
    cores: list[int]
    outfit: Outfit = field(default_factory=Outfit)
    defences: Defences = ALL

    @property
    def has_namespaces(self) -> bool:
        """Whether a box has a file system of its own."""
        return "namespaces" in self.walls


@dataclass
class Guests:
    """Every team of a run, so that none is forgotten, and what all of them printed.

    `ranks` are those of the widest case; a team has those of the case that it is called for.
    `given` is what every worker of the submission is told besides, and `built` the descriptor of
    what was built for it, if anything was.
    """

    place: Place
    home: Home
    mode: str
    ranks: int
    given: dict[str, Any] = field(default_factory=dict)
    built: tuple[int, ...] = ()
    log: Log = field(default_factory=Log)
    teams: list[Team] = field(default_factory=list)

    def start(self, ranks: int) -> Team:
        """A team of so many workers on their way to READY. Errors: SandboxFault, CaseFailed."""
        wish = self.given | self._joined(ranks)
        return self._team(wish, self.built, self.worker(ranks), self.log)

    def start_null(self, *, is_bare: bool) -> Team:
        """The same without a submission, to show what a call costs with nothing in it.

        A bare one answers as fast as possible, and uses its core until it is frozen.
        """
        is_bare = is_bare and self.place.defences.has_bare_null
        wish = {"is_bare_null" if is_bare else "is_null": True}
        return self._team(wish, (), self.worker(self.ranks), Log())

    def start_builder(
        self, wish: dict[str, Any], descriptors: Sequence[int], shown: tuple[str, ...] = ()
    ) -> Team:
        """One worker with a compiler's limits and no GPU; these folders are `shown` to it, too."""
        return self._team(wish, descriptors, self.builder(shown), self.log)

    def start_popcorn(self, wish: dict[str, Any], descriptors: Sequence[int]) -> Team:
        """One process for the problem's own program, with what a worker and a compiler may use."""
        spec = replace(self.profiler(), cores=self._cores(1))
        return self._team(wish, descriptors, spec, self.log)

    def start_profiler(
        self, wish: dict[str, Any], descriptors: Sequence[int], shown: tuple[str, ...] = ()
    ) -> Team:
        """One worker with the larger limits of both, a compiler and the device."""
        return self._team(wish, descriptors, self.profiler(shown), self.log)

    def welcome(self, team: Team, deadline: float, limit: str = _IMPORT_LIMIT) -> None:
        """Waits until every worker is ready. Errors: CaseFailed, with how the import ended."""
        # A worker that was ready in time is not late because the supervisor was slow.
        until = max(deadline, time.monotonic() + _LAST_CHANCE_S)
        for rank in range(team.ranks):
            if team.receive(rank, until, limit) != protocol.READY:
                raise CaseFailed("protocol", "the worker did not say that it is ready")

    @property
    def import_s(self) -> float:
        """How long an import may take."""
        return self.home.problem.budget_s("build", self.mode)

    def fitted(self, team: Team, ranks: int, purse: Purse) -> Team:
        """A team of so many ranks: this one, or another in its place. Errors: as `renewed`."""
        return team if team.ranks == ranks else self.renewed(team, ranks, purse)

    def renewed(self, team: Team, ranks: int, purse: Purse) -> Team:
        """A fresh team in place of another, ready. What its import takes costs the purse nothing.

        Errors: CaseFailed, SandboxFault.
        """
        team.end()
        began = time.monotonic()
        fresh = self.start(ranks)
        self.welcome(fresh, began + self.import_s)
        purse.pardon(time.monotonic() - began)
        return fresh

    def end(self) -> None:
        """Nothing of any team is left after this.

        Errors: CaseFailed, if a process could not be killed; SandboxFault, if none can be here.
        """
        left = [team for team in self.teams if not team.end()]
        for descriptor in self.built:
            os.close(descriptor)
        self.built = ()
        if left and not left[0].can_machine_stop_boxes():
            raise SandboxFault("processes could not be killed")
        if left:
            raise CaseFailed("timed_out", _NOT_KILLED)

    def usage(self) -> dict[str, float]:
        """Of all teams: seconds of processor together, memory of the largest."""
        found = [team.usage() for team in self.teams]
        return {
            "cpu_s": sum((one.get("cpu_s", 0.0) for one in found), 0.0),
            "peak_memory_mib": max((one.get("peak_memory_mib", 0.0) for one in found), default=0.0),
        }

    def worker(self, ranks: int) -> Spec:
        """The box of a team that computes, a worker for each rank."""
        return self._spec(self._limits(), ranks, self._cores(ranks))

    def builder(self, shown: tuple[str, ...] = ()) -> Spec:
        """The box of a compiler: no GPU, and these folders too."""
        spec = self._spec(_build_limits(self.place.cores), 1)
        folders = tuple(sorted({*self.place.outfit.tools, *shown}))
        environment = spec.environment | NO_GPU
        return replace(spec, devices=(), read_only=folders, environment=environment)

    def profiler(self, shown: tuple[str, ...] = ()) -> Spec:
        """The box of a profiler: what a compiler and what a worker has, and these folders too."""
        limits = _larger(_build_limits(self.place.cores), self.place.outfit.limits)
        spec = self._spec(limits, 1)
        return replace(spec, read_only=tuple(sorted({*spec.read_only, *shown})))

    def path(self) -> str:
        """The submitted file, as workers see it."""
        folder = SUBMISSION if self.place.has_namespaces else str(self.home.submission)
        return f"{folder}/{self.home.problem.submission}"

    def scratch(self) -> str:
        """The folder that the next team will live in, as it sees it."""
        if self.place.has_namespaces:
            return SCRATCH
        return str(self.home.scratch / str(len(self.teams)))

    def _team(self, wish: dict[str, Any], descriptors: Sequence[int], spec: Spec, log: Log) -> Team:
        place = self.place
        may_spin = bool(place.cores)
        team = Team(place.launcher, spec, log, may_spin=may_spin, defences=place.defences)
        self.teams.append(team)
        shared = {"cache": cache_folder(spec.home)}
        for rank in range(spec.ranks):
            said = shared | wish | {"environment": self._group(rank, spec.ranks)}
            team.send(rank, protocol.SETUP + json.dumps(said).encode(), descriptors)
        return team

    def _limits(self) -> Limits:
        problem, limits = self.home.problem, self.place.outfit.limits
        stages = STAGES[self.mode]
        warm_ups = sum(problem.warm_ups_max(stage, self.mode) for stage in stages)
        budgets_s = [*(problem.budget_s(stage, self.mode) for stage in stages)]
        cpu_s = sum(budgets_s) + warm_ups * self.import_s
        sandbox = memory.sandbox_bytes(problem, limits)
        return replace(limits, cpu_s=int(cpu_s) + 1, memory_bytes=sandbox)

    def _cores(self, ranks: int) -> tuple[int, ...]:
        """The cores of a team that computes, none where it shares the supervisor's.

        A GPU is driven by any number of threads; a processor is timed core by core.
        """
        cores = self.place.cores if self.place.defences.pins_cores else []
        return tuple(cores if self.place.outfit.devices else cores[:ranks])

    def _spec(self, limits: Limits, ranks: int, cores: tuple[int, ...] = ()) -> Spec:
        """A box; one that may use every core leaves the supervisor what it needs of its own."""
        weight = _WEIGHT_ON_OWN_CORES if cores else _WEIGHT_BESIDE_SUPERVISOR
        limits = replace(limits, cpu_weight=weight)
        if not self.place.defences.limits_addresses:
            limits = replace(limits, address_space_factor=_UNLIMITED_FACTOR)
        scratch, outfit = self.scratch(), self.place.outfit
        if not self.place.has_namespaces:
            Path(scratch).mkdir()
            Path(scratch).chmod(0o777)  # its worker may be another account
        return Spec(
            walls=self.place.walls,
            limits=limits,
            submission=str(self.home.submission),
            main=self.home.problem.submission,
            environment={**outfit.environment, **_environment(self.place.workshop, scratch)},
            devices=outfit.devices,
            read_only=tuple(sorted({*outfit.read_only, *outfit.tools})),
            ranks=ranks,
            scratch="" if self.place.has_namespaces else scratch,
            cores=cores,
        )

    def _joined(self, ranks: int) -> dict[str, str]:
        """The process group that a submission finds, where the reference asks for one, too."""
        if ranks == 1 or not together.speaks(self.home.problem):
            return {}
        return {"group": "nccl" if self.place.outfit.each else "gloo"}

    def _group(self, rank: int, ranks: int) -> dict[str, str]:
        """Where the ranks of a team find each other, and which GPU is a rank's own, if any.

        They meet on the loopback of their own network, where there is nothing else.
        """
        if self.ranks == 1:
            return {}
        where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"} | _ON_LOOPBACK
        who = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(ranks)}
        each = self.place.outfit.each
        return where | who | (dict(each[rank]) if each else {})


def _environment(workshop: Workshop, scratch: str) -> dict[str, str]:
    return {
        **environment(workshop, scratch),
        "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
        # torch.compile's precompiled headers are larger than all that a box may keep.
        "TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS": "0",
        "HOME": scratch,
        "TMPDIR": scratch,
        **dict.fromkeys(_THREADS, "1"),
    }


def _build_limits(cores: Sequence[int]) -> Limits:
    return Limits(
        memory_bytes=BUILD_MEMORY_BYTES,
        processes_max=BUILD_PROCESSES_MAX,
        scratch_bytes=BUILD_MEMORY_BYTES // 4,
        file_bytes_max=BUILD_MEMORY_BYTES // 4,
        cpu_s=BUILD_S_MAX * max(1, len(cores)),
    )


def _larger(one: Limits, other: Limits) -> Limits:
    """Of each limit the larger."""
    pairs = zip(asdict(one).items(), asdict(other).values(), strict=True)
    return Limits(**{name: max(here, there) for (name, here), there in pairs})
