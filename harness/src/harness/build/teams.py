"""Builds a submission and starts its worker teams: what they see and may use, their setup."""

import contextlib
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from harness.build import plan
from harness.build.command import BUILD_MEMORY_BYTES, BUILD_PROCESSES_MAX, BUILD_S_MAX, BuildRefused
from harness.build.plan import (
    BuildCache,
    BuildPlan,
    BuildTools,
    ToolMissing,
    read_memory,
    seal_memory,
    worker_environment,
)
from harness.defences import ALL_DEFENCES, Defences
from harness.devices.access import NO_GPU, DeviceAccess
from harness.devices.device import DeviceFault
from harness.messages import CaseFailed
from harness.output import OutputLog
from harness.problem import Problem, RunDirectory, uses_collectives
from harness.sandbox import host
from harness.sandbox.box import (
    SCRATCH,
    SUBMISSION,
    WALLS,
    BoxSpec,
    Limits,
    SandboxFault,
    isolation_level,
)
from harness.sandbox.launcher import ZygoteLauncher
from harness.sandbox.preparation import PARTS_MAX, PreparationBudget
from harness.sandbox.team import Team
from harness.vocabulary import MODES
from harness.worker import protocol

_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
IMPORT, BUILD, PROFILER = "the import", "the build", "the profiler's import"
CONTEXT = "the opening of the device"
_ON_LOOPBACK = {"GLOO_SOCKET_IFNAME": "lo", "NCCL_SOCKET_IFNAME": "lo"}
# For a box that shares the supervisor's core: the supervisor must stay in control.
_WEIGHT_BESIDE_SUPERVISOR = 50
# The maximum: while a call is timed, other processes on its core would make it longer.
_WEIGHT_ON_OWN_CORES = 10_000
# How the report of Python's fault handler begins.
_FATAL_ERROR = "Fatal Python error:"
# Times the memory of any box, this exceeds what a process can address.
_UNLIMITED_FACTOR = 2**20


@dataclass(frozen=True)
class Machine:
    """Where runs take place: how workers are started here, and within which walls.

    With a `device_lock` there are supervisors for `slots` runs on the same device at once, of which
    this is number `slot`. Each slot has an equal share of the machine's memory. `spares` is how
    many boxes and processes of runs are kept ready; if 0, a run makes none ahead either.
    """

    launcher: ZygoteLauncher
    walls: tuple[str, ...]
    build_tools: BuildTools
    cache: BuildCache
    defences: Defences = ALL_DEFENCES
    records_calls: bool = True
    module_loading: str = ""
    device_lock: tuple[int, ...] = ()
    slot: int = 0
    slots: int = 1
    spares: int = 0

    @property
    def level(self) -> str:
        """The isolation level of these walls."""
        return isolation_level(self.walls)

    @property
    def hides_network(self) -> bool:
        """Whether a run is moved into an empty network namespace."""
        return "namespaces" in self.walls and self.defences.hides_network

    @property
    def missing(self) -> list[str]:
        """The walls that this machine lacks."""
        return [wall for wall in WALLS if wall not in self.walls]


class StageBudget:
    """A budget in seconds. Generators, references, checks and a busy machine cost nothing.

    `ends_at` is when the budget would end by wall time; planning uses it.
    """

    def __init__(self, budget_s: float) -> None:
        self.left_s = budget_s
        self.ends_at = time.monotonic() + budget_s

    def until(self) -> float:
        """Return when a call that begins now must be over."""
        return time.monotonic() + max(0.0, self.left_s)

    def spend(self, time_us: float) -> None:
        """Subtract the time of a call."""
        self.left_s -= time_us / 1e6

    def extend(self, took_s: float) -> None:
        """Extend the wall time by what the platform took."""
        self.ends_at += took_s


@dataclass(frozen=True)
class WorkerSetup:
    """How the workers of a run use the machine, whose build tools are adapted to the run's device.

    `cores` belong to the workers alone; it is empty if they share the supervisor's. Builders use
    `build_cores`, or all cores if there are none. `device_access` is what boxes get to use the
    run's device.
    """

    machine: Machine
    cores: list[int]
    device_access: DeviceAccess = field(default_factory=DeviceAccess)
    build_cores: tuple[int, ...] = ()

    @property
    def has_namespaces(self) -> bool:
        """Whether a box has its own file system."""
        return "namespaces" in self.machine.walls

    @property
    def tool_folders(self) -> tuple[str, ...]:
        """The folders of build tools that boxes show; those of a processor need none."""
        return self.machine.build_tools.folders if self.device_access.devices else ()


@dataclass
class WorkerTeams:
    """Every team of a run, so that none is forgotten, and everything they printed.

    `ranks` is the number of ranks of the widest case; a team has as many as its case needs.
    `role` is sent to every worker of the submission, and `built` holds the descriptor of the
    build result, if there is one. `pause` pauses a builder while another run is timed, and returns
    the seconds that this took.
    """

    setup: WorkerSetup
    directory: RunDirectory
    mode: str
    ranks: int
    role: dict[str, Any] = field(default_factory=dict)
    built: tuple[int, ...] = ()
    log: OutputLog = field(default_factory=OutputLog)
    teams: list[Team] = field(default_factory=list)
    pause: Callable[[Team], float] | None = None
    _early: Team | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.preparation = PreparationBudget(preparation_s(self.directory.problem, self.mode))

    def start(self, ranks: int) -> Team:
        """Start a team of `ranks` workers. Raises SandboxFault, CaseFailed."""
        role = dict(self.role)
        # The default process group, if the reference uses one too.
        if ranks > 1 and uses_collectives(self.directory.problem):
            role["group"] = "nccl" if self.setup.device_access.each else "gloo"
        early, self._early = self._early, None
        if early is None:
            return self._start_team(role | self._context, self.built, self.worker(ranks))
        early.preparation = self.preparation
        early.thaw()
        # Its box was built before the device was known, for which its compilers build.
        tools = worker_environment(self.setup.machine.build_tools, self.scratch())
        self._send_role(early, role, self.built, tools)
        return early

    def start_early(self, ranks: int) -> None:
        """Start the team that `start` returns first, and let it open the device meanwhile."""
        role = {"opens_context": True, "only_opens": True}
        self._early = self._start_team(role, (), self.worker(ranks))
        # This is not the submission's time.
        self._early.preparation = PreparationBudget(BUILD_S_MAX)

    def wait_until_open(self) -> None:
        """Wait until the early team has the device open, and freeze it.

        Nothing of a submission runs before that, so any failure is the device's. Raises
        DeviceFault.
        """
        assert self._early is not None
        try:
            self.wait_until_ready(self._early, CONTEXT)
            self._early.freeze()
        except CaseFailed as failure:
            printed = self.log.whole().strip()
            # The end of a traceback says why; what is printed after a signal ends otherwise.
            last = "" if _FATAL_ERROR in printed else printed.rpartition("\n")[2]
            cause = f"{failure.message}: {last}" if last else failure.message
            raise DeviceFault(f"a worker cannot open the device: {cause}") from failure

    def start_null(self, *, is_bare: bool) -> Team:
        """Start a team without a submission, to show what an empty call costs.

        A bare one answers as fast as possible and keeps its core busy until it is frozen.
        """
        is_bare = is_bare and self.setup.machine.defences.has_bare_null
        role = {"is_bare_null" if is_bare else "is_null": True}
        return self._start_team(role | self._context, (), self.worker(self.ranks), is_null=True)

    def start_builder(self, role: dict[str, Any], descriptors: Sequence[int]) -> Team:
        """Start one worker with a compiler's limits and no GPU."""
        return self._start_team(role, descriptors, self.builder())

    def start_popcorn(self, role: dict[str, Any], descriptors: Sequence[int]) -> Team:
        """Start one process for the problem's program, with a worker's and a compiler's limits."""
        spec = replace(self.profiler(), cores=self._worker_cores(1))
        return self._start_team(role, descriptors, spec)

    def start_profiler(
        self, role: dict[str, Any], descriptors: Sequence[int], shown: tuple[str, ...] = ()
    ) -> Team:
        """Start one worker with the larger of a compiler's and the device's limits."""
        return self._start_team(role, descriptors, self.profiler(shown))

    def wait_until_built(self, team: Team, part: str, limit_s: float) -> None:
        """Wait until a builder is ready, and pause it meanwhile for runs that are timed.

        Raises CaseFailed with how it ended.
        """
        pause = self.pause
        self._wait(team, part, limit_s, None if pause is None else lambda: pause(team))

    def wait_until_ready(self, team: Team, part: str = IMPORT, limit_s: float = 0.0) -> None:
        """Wait until every worker is ready; the part may take `limit_s`, by default an import's.

        Raises CaseFailed with how it ended.
        """
        self._wait(team, part, limit_s or self.import_s)

    def _wait(
        self, team: Team, part: str, limit_s: float, pause: Callable[[], float] | None = None
    ) -> None:
        with team.preparation.part(part, limit_s, team, pause) as running:
            for rank in range(team.ranks):
                if team.receive_prepared(rank, running) != protocol.READY:
                    raise CaseFailed("protocol", "the worker did not report that it is ready")

    @property
    def import_s(self) -> float:
        """How long an import may take."""
        return self.directory.problem.budget_s("build", self.mode)

    def fit_team(self, team: Team, ranks: int, budget: StageBudget) -> Team:
        """Return a team with this many ranks: `team`, or a new one. Raises as `renew_team`."""
        return team if team.ranks == ranks else self.renew_team(team, ranks, budget)

    def renew_team(self, team: Team, ranks: int, budget: StageBudget) -> Team:
        """Replace a team by a fresh one that is ready; its import costs no stage budget.

        Raises CaseFailed, SandboxFault.
        """
        team.end()
        began = time.monotonic()
        fresh = self.start(ranks)
        self.wait_until_ready(fresh)
        budget.extend(time.monotonic() - began)
        return fresh

    def end(self) -> None:
        """End every team.

        Raises CaseFailed if a process could not be killed, SandboxFault if none can be killed here.
        """
        alive = [team for team in self.teams if not team.end()]
        for descriptor in self.built:
            os.close(descriptor)
        self.built = ()
        if alive and not alive[0].can_machine_stop_boxes():
            raise SandboxFault("processes could not be killed")
        if alive:
            limit = f"{self.setup.machine.launcher.end_s_max:.0f} s"
            reason = f"a process of the submission could not be killed within {limit}"
            raise CaseFailed("timed_out", reason)

    def usage(self) -> dict[str, float]:
        """Return the CPU seconds of all teams and the peak memory of the largest."""
        usages = [team.usage() for team in self.teams]
        peaks = [usage.get("peak_memory_mib", 0.0) for usage in usages]
        cpu_s = sum((usage.get("cpu_s", 0.0) for usage in usages), 0.0)
        return {"cpu_s": cpu_s, "peak_memory_mib": max(peaks, default=0.0)}

    def worker(self, ranks: int) -> BoxSpec:
        """Return the box of a team that computes, with a worker for each rank."""
        return self._box_spec(self._worker_limits(), ranks, self._worker_cores(ranks))

    def builder(self) -> BoxSpec:
        """Return the box of a compiler, without a GPU."""
        cores = self.setup.build_cores
        spec = self._box_spec(_build_limits(cores or self.setup.cores), 1)
        folders = tuple(sorted(self.setup.tool_folders))
        environment = spec.environment | NO_GPU
        return replace(spec, devices=(), read_only=folders, environment=environment, cores=cores)

    def profiler(self, shown: tuple[str, ...] = ()) -> BoxSpec:
        """Return the box of a profiler: a compiler's and a worker's, with the `shown` folders."""
        build_limits = asdict(_build_limits(self.setup.cores))
        limits = asdict(self.setup.device_access.limits)
        larger = {name: max(value, limits[name]) for name, value in build_limits.items()}
        spec = self._box_spec(Limits(**larger), 1)
        return replace(spec, read_only=tuple(sorted({*spec.read_only, *shown})))

    def path(self) -> str:
        """Return the path of the submitted file, as workers see it."""
        folder = SUBMISSION if self.setup.has_namespaces else str(self.directory.submission)
        return f"{folder}/{self.directory.problem.submission}"

    def scratch(self) -> str:
        """Return the scratch folder of the next team, as that team sees it."""
        if self.setup.has_namespaces:
            return SCRATCH
        return str(self.directory.scratch / str(len(self.teams)))

    def _start_team(
        self,
        role: dict[str, Any],
        descriptors: Sequence[int],
        spec: BoxSpec,
        *,
        is_null: bool = False,
    ) -> Team:
        """Start a team; a null team's output and preparation are not the submission's."""
        machine = self.setup.machine
        log = OutputLog() if is_null else self.log
        budget = PreparationBudget(BUILD_S_MAX) if is_null else self.preparation
        team = Team(machine.launcher, spec, log, budget, machine.defences)
        self.teams.append(team)
        self._send_role(team, {"home": spec.home} | role, descriptors)
        return team

    @property
    def _context(self) -> dict[str, Any]:
        """The part of a role by which a worker opens the device that its box shows."""
        return {"opens_context": True} if self.setup.device_access.devices else {}

    def _send_role(
        self,
        team: Team,
        role: dict[str, Any],
        descriptors: Sequence[int],
        environment: Mapping[str, str] | None = None,
    ) -> None:
        for rank in range(team.ranks):
            own = self._rank_environment(rank, team.ranks)
            message = role | {"environment": {**(environment or {}), **own}}
            team.send(rank, protocol.SETUP + json.dumps(message).encode(), descriptors)

    def _worker_limits(self) -> Limits:
        problem, limits = self.directory.problem, self.setup.device_access.limits
        stages_s = sum(problem.budget_s(stage, self.mode) for stage in MODES[self.mode].stages)
        cpu_s = stages_s + self.preparation.wall_s_max
        sandbox = host.sandbox_bytes(problem.memory_bytes, limits, self.setup.machine.slots)
        return replace(limits, cpu_s=int(cpu_s) + 1, memory_bytes=sandbox)

    def _worker_cores(self, ranks: int) -> tuple[int, ...]:
        """Return the cores of a team that computes; none if it shares the supervisor's.

        A GPU is driven by any number of threads; a processor is timed core by core.
        """
        cores = self.setup.cores if self.setup.machine.defences.pins_cores else []
        return tuple(cores if self.setup.device_access.devices else cores[:ranks])

    def _box_spec(self, limits: Limits, ranks: int, cores: tuple[int, ...] = ()) -> BoxSpec:
        """Return the spec of a box; one on cores of its own precedes all other processes."""
        # Runs without times, one in each slot, could keep every core from all others.
        is_alone = MODES[self.mode].is_timed or self.setup.machine.slots == 1
        is_preferred = bool(cores) and is_alone
        weight = _WEIGHT_ON_OWN_CORES if is_preferred else _WEIGHT_BESIDE_SUPERVISOR
        limits = replace(limits, cpu_weight=weight)
        if not self.setup.machine.defences.limits_addresses:
            limits = replace(limits, address_space_factor=_UNLIMITED_FACTOR)
        scratch, device_access = self.scratch(), self.setup.device_access
        if not self.setup.has_namespaces:
            Path(scratch).mkdir()
            Path(scratch).chmod(0o777)  # its worker may run as another account
        return BoxSpec(
            walls=self.setup.machine.walls,
            limits=limits,
            submission=str(self.directory.submission),
            main=self.directory.problem.submission,
            environment={
                **device_access.environment,
                **worker_environment(self.setup.machine.build_tools, scratch),
                "LANG": "C.UTF-8",
                "PYTHONDONTWRITEBYTECODE": "1",
                # torch.compile's precompiled headers are larger than a box's scratch space.
                "TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS": "0",
                "HOME": scratch,
                "TMPDIR": scratch,
                **dict.fromkeys(_THREADS, "1"),
            },
            devices=device_access.devices,
            read_only=tuple(sorted({*device_access.read_only, *self.setup.tool_folders})),
            ranks=ranks,
            scratch="" if self.setup.has_namespaces else scratch,
            cores=cores,
        )

    def _rank_environment(self, rank: int, ranks: int) -> dict[str, str]:
        """Return how a rank finds the others, and which GPU is its own, if any.

        They meet on the loopback of their own network namespace, which is otherwise empty.
        """
        if self.ranks == 1:
            return {}
        rendezvous = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"} | _ON_LOOPBACK
        identity = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(ranks)}
        each = self.setup.device_access.each
        return rendezvous | identity | (dict(each[rank]) if each else {})


def preparation_s(problem: Problem, mode: str) -> float:
    """Return how long the build, the imports and the warm-ups of a run may take together.

    In a run by a problem's own program the stages count as well: only the program could tell its
    calls from their preparation.
    """
    stages_s = (
        sum(problem.budget_s(stage, mode) for stage in MODES[mode].stages) if problem.main else 0
    )
    return BUILD_S_MAX + PARTS_MAX * problem.budget_s("build", mode) + stages_s


def _build_limits(cores: Sequence[int]) -> Limits:
    return Limits(
        memory_bytes=BUILD_MEMORY_BYTES,
        processes_max=BUILD_PROCESSES_MAX,
        scratch_bytes=BUILD_MEMORY_BYTES // 4,
        file_bytes_max=BUILD_MEMORY_BYTES // 4,
        cpu_s=BUILD_S_MAX * max(1, len(cores)),
    )


def prepare_submission(
    worker_teams: WorkerTeams, cache: BuildCache, *, is_last: bool = True
) -> None:
    """Set in `worker_teams` what every worker is given; `is_last` closes the cache.

    Raises CaseFailed if the submission cannot be built, DeviceFault if this machine has no
    compiler.
    """
    try:
        build_plan = _plan_submission_build(worker_teams)
    except BuildRefused as refused:
        raise CaseFailed("compile_error", str(refused)) from refused
    except ToolMissing as missing:
        raise DeviceFault(str(missing)) from missing
    # A builder that imports the submission looks for the entry point too.
    worker_teams.role = {"entry": worker_teams.directory.problem.entry}
    data = cache.get(build_plan.key)
    # Otherwise the first worker compiles at import.
    if data is None and (build_plan.is_native or build_plan.is_heavy):
        data = _build(worker_teams, build_plan, BUILD_S_MAX)
        # A result that cannot be cached is built again the next time.
        with contextlib.suppress(OSError):
            cache.put(build_plan.key, data)
    if build_plan.is_native and not data:
        raise CaseFailed("compile_error", "the builder produced no output")
    if build_plan.is_native:
        worker_teams.role["launch"] = build_plan.launch
    if data:
        worker_teams.built = (seal_memory(data),)
    if worker_teams.directory.problem.lang == "py" and is_last:
        # The author's code runs next, and other runs trust the content of the cache.
        cache.close()


def build_program(worker_teams: WorkerTeams, limit_s: float) -> tuple[int, ...]:
    """Build a problem's own program with the submission; `worker_teams` closes its descriptor.

    Raises the same errors as `prepare_submission`.
    """
    directory, build_tools = worker_teams.directory, worker_teams.setup.machine.build_tools
    try:
        order = plan.plan_program(
            build_tools, directory.problem, worker_teams.path(), worker_teams.scratch()
        )
    except ToolMissing as missing:
        raise DeviceFault(str(missing)) from missing
    data = _build(worker_teams, BuildPlan("", order), limit_s)
    if not data:
        raise CaseFailed("compile_error", "the builder produced no output")
    worker_teams.built = (seal_memory(data),)
    return worker_teams.built


def _plan_submission_build(worker_teams: WorkerTeams) -> BuildPlan:
    directory, build_tools = worker_teams.directory, worker_teams.setup.machine.build_tools
    source = (directory.submission / directory.problem.submission).read_bytes()
    paths = sorted(path for path in directory.submission.rglob("*") if path.is_file())
    names = [path.relative_to(directory.submission).as_posix() for path in paths]
    others = (
        name.encode() + b"\0" + path.read_bytes()
        for name, path in zip(names, paths, strict=True)
        if name != directory.problem.submission
    )
    texts = (source, *others)
    if directory.problem.lang == "py":
        return plan.plan_build(build_tools, texts, worker_teams.path(), worker_teams.scratch())
    return plan.plan_driver_build(
        build_tools, directory.problem, texts, worker_teams.path(), worker_teams.scratch()
    )


def _build(worker_teams: WorkerTeams, build_plan: BuildPlan, limit_s: float) -> bytes:
    """Return the builder's output, which only workers of the same source ever read."""
    memory = os.memfd_create("built", os.MFD_CLOEXEC)
    try:
        if build_plan.order is not None:
            team = worker_teams.start_builder({"order": asdict(build_plan.order)}, (memory,))
            _wait_for_compiler(worker_teams, team, limit_s)
        else:
            team = worker_teams.start_builder(worker_teams.role, ())
            worker_teams.wait_until_built(team, BUILD, limit_s)
            team.send(0, protocol.PACK, (memory,))
            worker_teams.wait_until_built(team, BUILD, limit_s)
        team.end()
        return read_memory(memory)
    finally:
        os.close(memory)


def _wait_for_compiler(worker_teams: WorkerTeams, team: Team, limit_s: float) -> None:
    """Wait for a compiler; log the reason here if it was ended and cannot report it itself.

    Raises CaseFailed.
    """
    try:
        worker_teams.wait_until_built(team, "the compiler", limit_s)
    except CaseFailed as failure:
        if failure.is_last:
            team.end()
            worker_teams.log.add(f"{failure.message}\n".encode())
        raise
