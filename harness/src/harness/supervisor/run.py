"""A run from its first stage to its report: build, check, time."""

import functools
import hashlib
import itertools
import os
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import isfinite

from harness import messages
from harness.build import yardstick
from harness.build.plan import BuildTools, NcuFilter, adapt_tools
from harness.build.teams import PROFILER, Machine, StageBudget, WorkerSetup, WorkerTeams
from harness.build.yardstick import YardstickTeams
from harness.check import calls, forms, inputs
from harness.check.author import AuthorCode, is_memory_shortage
from harness.check.calls import WARM_UP, GatedCase, WarmUps
from harness.check.composition import read_composition, record_call
from harness.check.inputs import (
    KEY_BYTES,
    Shape,
    derive_seed,
    fits_in_share,
    measure_available_memory,
    measure_sizes,
    needed_bytes,
    require_memory,
)
from harness.check.judging import AnswerErrors, JudgeContext
from harness.check.screen import Screening, quote_lines, screen_in_child
from harness.devices.access import find_device_access, open_device
from harness.devices.device import (
    CoreKeepAwake,
    Device,
    DeviceFault,
    describe_machine,
    reserve_core,
    split_cores,
)
from harness.devices.lock import DeviceTurn
from harness.messages import (
    VERSION,
    Artefact,
    CaseFailed,
    CaseReport,
    Composition,
    Progress,
    RunReport,
    RunRequest,
    StageFinished,
    Started,
)
from harness.metrics import ERROR_METRICS, describe_excesses
from harness.problem import Case, MemoryShortage, Problem, ProblemFault, RunDirectory
from harness.sandbox import linux
from harness.sandbox.box import SandboxFault
from harness.sandbox.crowding import QuietWait
from harness.sandbox.realtime import Referee
from harness.sandbox.team import Team
from harness.supervisor.profiler import Profiler
from harness.time.sides import Side, SideFailed, TimingContext
from harness.time.stage import NoisyMachine, StageTimer
from harness.vocabulary import CPU_DEVICE, DUEL, MODES, RANKED, STAGES
from harness.worker.protocol import WARM

# A process that runs author's code for long may need ever more memory.
_SHARED_RUNS_MAX = 250
# A spare process waits with its device open only while this share of a GPU's memory is free.
SPARE_FREE_SHARE_MIN = 0.8
# Boxes of later processes wait only while this share is free besides what the run itself needs.
_AHEAD_FREE_SHARE_MIN = 0.5
_BOXES_AHEAD_MAX = 10
_RECORD = "record"
_LEFT_OUT = b"\n[what a process prints after it was given a hidden size is left out]\n"
# Whatever fails in that call, the submission has already passed. torch raises RuntimeError.
_RECORD_FAILURES = (
    *(CaseFailed, DeviceFault, ProblemFault, SandboxFault),
    *(MemoryError, MemoryShortage, OSError, RuntimeError),
)

Tell = Callable[[Started | Progress | StageFinished], None]


class Run:
    """One run: its request, its key, and the cases judged so far. Subclasses run the stages."""

    worker_teams: WorkerTeams

    def __init__(
        self, request: RunRequest, directory: RunDirectory, machine: Machine, tell: Tell
    ) -> None:
        self._request = request
        self._directory = directory
        self._problem = directory.problem
        self._machine = machine
        self.device_turn = DeviceTurn(machine.device_lock)
        # A problem that needs more memory than its share has the machine alone.
        self._is_alone = needs_machine_alone(self._problem, machine)
        if self._is_alone:
            self._machine = replace(machine, slots=1)
        self._report_progress = tell
        self._key = bytes.fromhex(request.key) if request.key else secrets.token_bytes(KEY_BYTES)
        self._cases: list[CaseReport] = []
        self._figures = 0.0, 0.0
        self._stopped = ""
        self._artefacts: list[Artefact] = []
        self._stage = ""
        self._has_survivors = False
        self._first_failed: CaseReport | None = None
        self._screening = Screening()
        self._composition: Composition | None = None

    def execute(self) -> RunReport:
        """Run the stages in order until one does not pass. Raises problem and machine errors."""
        try:
            self._report_progress(self.describe())
            if self._is_alone:
                self._hold_device()
            self._run_stages()
            if self._first_failed is None and self._is_recorded():
                self._hold_device()
                self._composition = self._compose()
        finally:
            try:
                self.worker_teams.end()
            except CaseFailed as failure:
                self._has_survivors = True
                self._first_failed = messages.failed_case_report("", self._stage, failure)
            finally:
                self._close()
                self.device_turn.release()
                if self._problem.has_hidden_sizes:
                    self.worker_teams.log.add(_LEFT_OUT)
                self._directory.keep("log.txt", self.worker_teams.log.whole().encode())
        return self._report()

    def describe(self) -> Started:
        """Return the first message of the run: its machine, its clock, and the hash of its key."""
        tier, environment = self._describe_clock()
        commit, machine = hashlib.sha256(self._key).hexdigest(), self._machine
        return Started(VERSION, machine.level, tier, commit, environment, machine.missing)

    def _describe_clock(self) -> tuple[str, dict[str, str]]:
        """Return the timing tier, and what the report should record about the machine."""
        raise NotImplementedError

    def _run_stage(self, stage: str, budget: StageBudget) -> list[CaseReport]:
        """Return how each case of a stage ended, or why there was no build."""
        raise NotImplementedError

    def _close(self) -> None:
        """End what the run uses besides the submission's teams."""

    def _hold_device(self, *, is_alone: bool = False) -> None:
        """Wait until the run may use the device; a GPU is always held alone. Raises NoisyMachine.

        The time counts for no budget.
        """
        is_alone = is_alone or self._is_alone or self._request.device != CPU_DEVICE
        # Between its stages its workers are frozen, where they can be.
        if "freezer" in self._machine.walls and self.device_turn.is_wanted_alone():
            self.device_turn.release()
        try:
            self.device_turn.take(is_alone=is_alone)
        except TimeoutError as busy:
            raise NoisyMachine(str(busy)) from busy

    def _give_way(self, builder: Team) -> float:
        """Pause a builder while another run has the device alone; return how long it took.

        Raises NoisyMachine, CaseFailed.
        """
        if not builder.can_freeze or not self.device_turn.is_wanted_alone():
            return 0.0
        began = time.monotonic()
        builder.freeze()
        self._hold_device()
        builder.thaw()
        return time.monotonic() - began

    def _hold_device_for(self, stage: str) -> None:
        """Wait until the run may begin a stage.

        A build needs no GPU. On the device `cpu` it waits while another run is timed.
        """
        if stage != "build" or self._request.device == CPU_DEVICE:
            self._hold_device(is_alone=STAGES[stage].is_alone)

    def _run_stages(self) -> None:
        for stage in MODES[self._request.mode].stages:
            self._hold_device_for(stage)
            began, waited_s = time.monotonic(), self.device_turn.waited_s
            self._stage = stage
            refused = self._screen(stage) if stage == "build" else []
            # The screen's time is not the submission's.
            budget = StageBudget(self._problem.budget_s(stage, self._request.mode))
            cases = refused or self._run_stage(stage, budget)
            self._cases += cases if stage != "build" else []
            self._first_failed = messages.first_failed(cases)
            stage_verdict = self._first_failed.verdict if self._first_failed else "passed"
            # What it waited for the device is no work of the stage.
            took_s = time.monotonic() - began - (self.device_turn.waited_s - waited_s)
            self._report_progress(StageFinished(stage, stage_verdict, took_s, len(cases)))
            if self._first_failed:
                return

    def _screen(self, stage: str) -> list[CaseReport]:
        """Screen the source before anything of it runs; [] if it may run."""
        return self._screen_directory(self._directory, stage)

    def _screen_directory(self, directory: RunDirectory, stage: str) -> list[CaseReport]:
        sources = directory.sources
        self._screening = screen_in_child(sources, self._problem.shortcuts)
        if not self._screening.hits:
            return []
        failure = CaseFailed("policy", quote_lines(self._screening.hits, sources))
        return [messages.failed_case_report("", stage, failure)]

    def _is_recorded(self) -> bool:
        """Return whether one more call is worth its time; a GPU's profiler takes seconds."""
        mode = self._request.mode
        is_slow = self._request.device != "cpu" and mode == "test"
        is_wanted = self._machine.records_calls and MODES[mode].is_recorded
        return is_wanted and not (is_slow and self._problem.shortcuts.is_empty)

    def _compose(self) -> Composition | None:
        """Return what is known about what produced the answers; None if nothing is."""
        doubts = self._screening.doubts
        return Composition(doubts=doubts) if doubts else None

    def _report(self) -> RunReport:
        head, tail = self.worker_teams.log.ends()
        failure = self._first_failed
        metrics = {} if failure else self._measure_metrics()
        is_ranked = self._request.mode == RANKED and failure is None
        return RunReport(
            verdict=failure.verdict if failure else "passed",
            stage=self._stage,
            reason=messages.describe_outcome(failure),
            took_s=0.0,
            key=self._key.hex(),
            cases=self._cases,
            log_head=head,
            log_tail=tail,
            log_bytes=self.worker_teams.log.bytes,
            artefacts=self._artefacts,
            sigma_run=self._figures[0],
            tie_us=self._figures[1],
            stopped="" if failure else self._stopped,
            has_left=self._has_survivors,
            composition=self._composition,
            metrics=metrics,
            over_limit=describe_excesses(self._problem.metrics, metrics) if is_ranked else "",
        )

    def _measure_metrics(self) -> dict[str, float]:
        """Return the metrics that the problem declares, of those that could be measured.

        Only public cases count: a submission could show a hidden size by the others.
        """
        values = self._measure_answers()
        if peak_mib := self.worker_teams.usage()["peak_memory_mib"]:
            values["peak_memory_mib"] = peak_mib
            if self._request.device == CPU_DEVICE:
                values["device_memory_mib"] = peak_mib
        speedups = [
            case.yardstick_us / case.time_us
            for case in self._cases
            if not case.is_hidden and case.time_us and case.yardstick_us
        ]
        if speedups:
            values["least_speedup"] = min(speedups)
        declared = {metric.name for metric in self._problem.metrics}
        is_timed = MODES[self._request.mode].is_timed
        return {name: value for name, value in values.items() if is_timed and name in declared}

    def _measure_answers(self) -> dict[str, float]:
        """Return metrics that were measured while answers were judged."""
        return {}


@dataclass(frozen=True)
class DeviceSpec:
    """The device of a run and how it uses this machine; equal for runs that can be exchanged.

    `ranks` is that of the widest case, and `slots` how many runs share the machine. With
    `is_pinned`, referee and workers have cores of their own.
    """

    device: str
    gpus: tuple[int, ...]
    ranks: int
    slots: int
    is_pinned: bool
    is_timed: bool


def find_device_spec(request: RunRequest, problem: Problem, machine: Machine) -> DeviceSpec:
    """Return the device of a run by our harness. Raises ProblemFault."""
    mode = MODES[request.mode]
    ranks = [case.ranks for stage in mode.stages for case in problem.cases(stage, request.mode)]
    # Evaluations without times share the cores of a processor best as the kernel sees fit.
    # Beside a GPU, another run may be timed meanwhile.
    is_pinned = not (request.is_shared and request.device == CPU_DEVICE)
    slots = 1 if needs_machine_alone(problem, machine) else machine.slots
    gpus, ranks_max = tuple(request.gpus), max(ranks, default=1)
    return DeviceSpec(request.device, gpus, ranks_max, slots, is_pinned, mode.is_timed)


def needs_machine_alone(problem: Problem, machine: Machine) -> bool:
    """Return whether a problem needs more memory than its share of the machine."""
    return machine.slots > 1 and not fits_in_share(problem, machine.slots)


class RunDevice:
    """The device of a run's process, its cores and its referee; it knows no problem.

    A spare process opens the device before its first request. Raises DeviceFault.
    """

    device: Device

    def __init__(self, spec: DeviceSpec, machine: Machine) -> None:
        self.spec = spec
        self.is_open = False
        self.cores = reserve_core(machine.slot, spec.slots) if spec.is_pinned else []
        self.build_cores: tuple[int, ...] = ()
        if spec.device != CPU_DEVICE:
            self.cores, build_cores = split_cores(self.cores, spec.slots - 1)
            self.build_cores = tuple(build_cores)
        core = self.cores[0] if self.cores and spec.is_timed else None
        self.core_keep_awake = CoreKeepAwake(core)
        self.referee = Referee(has_own_core=bool(self.cores))
        loading = machine.module_loading
        self.access = find_device_access(spec.device, spec.ranks, spec.gpus, module_loading=loading)

    def open(self, machine: Machine) -> None:
        """Open the device in this process. Raises DeviceFault."""
        # After the fork of CoreKeepAwake, which must not inherit a GPU context.
        self.device = open_device(self.spec.device, self.access, machine.walls, machine.defences)
        self.is_open = True

    def require_room(self) -> None:
        """Raise DeviceFault if too little of a GPU's memory is free to keep the device open."""
        if (share := self.device.free_share()) < SPARE_FREE_SHARE_MIN:
            raise DeviceFault(f"only {share:.0%} of the device's memory are free")

    def close(self) -> None:
        """Close the device."""
        if self.is_open:
            self.device.close()
        self.core_keep_awake.close()


class PreparedProblem:
    """What a run prepares for its problem, and later runs of the same process use again.

    That is the author's code and the shapes of all cases, on the device of the process. It holds
    nothing of a submission. Raises MemoryShortage.
    """

    judge_context: JudgeContext

    def __init__(
        self, run_device: RunDevice, request: RunRequest, problem: Problem, slots: int
    ) -> None:
        self.run_device = run_device
        self.runs = 0
        self.shapes: dict[str, list[Shape]] = {}
        self._cases = [
            (case, STAGES[stage].is_timed)
            for stage in MODES[request.mode].stages
            for case in problem.cases(stage, request.mode)
        ]
        self.ranks_first = self._cases[0][0].ranks if self._cases else 1
        # A GPU has its own memory, where an allocation that is too large simply fails.
        self._has_own_memory = request.device != CPU_DEVICE
        if not self._has_own_memory:
            require_memory(problem, run_device.access.limits, slots)

    def is_usable(self, report: RunReport) -> bool:
        """Return whether another run may follow the one of this report."""
        has_failed = bool(report.failure_code) or report.has_left
        can_follow = not has_failed and self.runs < _SHARED_RUNS_MAX
        return can_follow and self.run_device.device.is_usable()

    def load_author(
        self, directory: RunDirectory, machine: Machine, build_tools: BuildTools, key: bytes
    ) -> None:
        """Call the author's code for the first time, within the machine's memory.

        `key` is that of the run, and `build_tools` are adapted to its device. The second call does
        nothing. Raises MemoryShortage, ProblemFault.
        """
        if self.shapes:
            return
        run_device = self.run_device
        device = run_device.device
        offer = None
        if not self._has_own_memory:
            limits = run_device.access.limits
            offer = measure_available_memory(directory.problem, limits, machine.slots)
            offer.limit()
        native = functools.partial(
            forms.load_native_functions, directory, build_tools, machine.cache
        )
        author = AuthorCode(directory.problem, directory.mark, device.name, native)
        self.judge_context = JudgeContext(
            author, device, run_device.core_keep_awake, machine.defences, run_device.referee
        )
        cases = (case for case, _ in self._cases)
        is_checked = directory.problem.is_checked
        try:
            self.shapes = calls.probe_shapes(self.judge_context, cases, key, is_checked=is_checked)
        except (MemoryError, MemoryShortage, RuntimeError) as error:
            if offer is not None and is_memory_shortage(error):
                self._require_estimated_memory(offer)
            raise
        if offer is not None:
            self._require_memory(offer)

    def _require_estimated_memory(self, offer: inputs.AvailableMemory) -> None:
        """Raise MemoryShortage with figures for a case that was too large to probe."""
        for case, is_timed in self._cases:
            if sizes := inputs.estimate_sizes(self.judge_context.author, case):
                offer.require(case, [sizes], is_timed=is_timed)

    def _require_memory(self, offer: inputs.AvailableMemory) -> None:
        """Raise MemoryShortage for a case too large for this machine, before it is used."""
        shared = 0
        for case, is_timed in self._cases:
            sizes = [measure_sizes(shape) for shape in self.shapes[case.name]]
            offer.require(case, sizes, is_timed=is_timed)
            shared = max(shared, inputs.shared_bytes(sizes, is_timed=is_timed))
        offer.limit(shared)


@dataclass
class Preparation:
    """What a process has prepared for its runs.

    A spare process has opened the device before its first run. If the runs `is_shared`, the first
    one also leaves the problem prepared for those that follow.
    """

    is_shared: bool = False
    run_device: RunDevice | None = None
    problem: PreparedProblem | None = None

    def can_follow(self, report: RunReport) -> bool:
        """Return whether another run may follow the one of this report."""
        return self.is_shared and self.problem is not None and self.problem.is_usable(report)


class StagedRun(Run):
    """A run by our harness: build, check, and time or profile."""

    # How many processes its build starts.
    _processes_started = 1

    def __init__(
        self,
        request: RunRequest,
        directory: RunDirectory,
        machine: Machine,
        tell: Tell,
        preparation: Preparation,
    ) -> None:
        super().__init__(request, directory, machine, tell)
        self._is_shared = preparation.is_shared
        self._has_made_boxes = False
        if preparation.problem is None:
            run_device = preparation.run_device
            if run_device is None:
                spec = find_device_spec(request, self._problem, machine)
                run_device = preparation.run_device = RunDevice(spec, self._machine)
            slots = self._machine.slots
            preparation.problem = PreparedProblem(run_device, request, self._problem, slots)
        self._prepared = preparation.problem
        self._prepared.runs += 1
        self._run_device = run_device = self._prepared.run_device
        self._steps = {
            "build": self._build,
            **dict.fromkeys(("check", "hidden_check", "timed_check"), self._judge_all),
            "time": self._time,
            "profile": self._profile,
        }
        self._ranks_first, self._referee = self._prepared.ranks_first, run_device.referee
        setup = WorkerSetup(machine, run_device.cores, run_device.access, run_device.build_cores)
        ranks = run_device.spec.ranks
        self.worker_teams = WorkerTeams(setup, directory, request.mode, ranks, pause=self._give_way)
        if not run_device.is_open:
            self._open_device()
        self._core_keep_awake, self._device = run_device.core_keep_awake, run_device.device
        build_tools = adapt_tools(machine.build_tools, self._device.architecture)
        adapted = replace(machine, build_tools=build_tools)
        self.worker_teams.setup = replace(setup, machine=adapted)
        self._yardstick_teams = YardstickTeams.beside(self.worker_teams)
        seeds = functools.partial(self._seeds, WARM_UP)
        self._warm_ups = WarmUps(seeds, self.worker_teams.import_s)
        self._metric_names = {metric.name for metric in self._problem.metrics}
        self._errors = AnswerErrors() if self._metric_names.intersection(ERROR_METRICS) else None
        self._device_mib = 0.0

    def _open_device(self) -> None:
        """Open a GPU here and in the first worker at the same time, while no other run uses it."""
        run_device = self._run_device
        if not run_device.access.devices:
            run_device.open(self._machine)
            return
        super()._hold_device()
        try:
            self.worker_teams.start_early(self._ranks_first)
            run_device.open(self._machine)
            self.worker_teams.wait_until_open()
        except BaseException:
            self.worker_teams.end()
            raise
        finally:
            self.device_turn.release()

    def _hold_device(self, *, is_alone: bool = False) -> None:
        super()._hold_device(is_alone=is_alone)
        # The core of this referee may be that of another run's worker.
        self._referee.is_alone = self.device_turn.is_alone

    def _describe_clock(self) -> tuple[str, dict[str, str]]:
        environment = describe_machine() | self._device.describe() | self._referee.describe()
        return self._device.tier, environment

    @property
    def _shapes(self) -> dict[str, list[Shape]]:
        return self._prepared.shapes

    @property
    def _judge_context(self) -> JudgeContext:
        return self._prepared.judge_context

    def _load_author(self) -> None:
        build_tools = self.worker_teams.setup.machine.build_tools
        self._prepared.load_author(self._directory, self._machine, build_tools, self._key)

    def _run_stage(self, stage: str, budget: StageBudget) -> list[CaseReport]:
        try:
            with self._making_boxes(stage):
                return self._steps[stage](stage, budget)
        except (DeviceFault, ProblemFault, RuntimeError):
            # A kernel may fault after its call. In a duel it may be either side's.
            if self._request.mode == DUEL or not (error := self._device.worker_fault()):
                raise
            crash = CaseFailed("crashed", f"a kernel broke the GPU's context: {error}")
            return [messages.failed_case_report("", stage, crash)]

    @contextmanager
    def _making_boxes(self, stage: str) -> Iterator[None]:
        """Make the boxes of all later processes during the first check of a run that is timed.

        The run holds the device until they are built, so no other run is timed meanwhile. They are
        spare boxes: nothing of the submission is in one before its turn.
        """
        mode = MODES[self._request.mode]
        is_first_check = mode.is_timed and stage == mode.stages[1]
        if not (is_first_check and self._machine.spares and self._has_room_ahead()):
            yield
            return
        # Both sides have so many processes at least, and there is a null worker.
        count = 2 * mode.processes + 1 - self._processes_started
        launcher = self._machine.launcher
        launcher.make_spares(min(count, _BOXES_AHEAD_MAX))
        self._has_made_boxes = True
        try:
            yield
        finally:
            launcher.settle_spares()

    def _has_room_ahead(self) -> bool:
        """Return whether a GPU has the memory for more contexts."""
        needed = [
            needed_bytes([measure_sizes(shape) for shape in shapes], is_timed=True)
            for shapes in self._shapes.values()
        ]
        return self._device.free_share(max(needed, default=0)) >= _AHEAD_FREE_SHARE_MIN

    def _close(self) -> None:
        if self._has_made_boxes:
            # Not all are used if the submission fails or the run stops early.
            self._machine.launcher.make_spares(0)
        if not self._is_shared:
            self._run_device.close()
        if self._yardstick_teams is not None:
            self._yardstick_teams.end()

    def _build(self, stage: str, _: StageBudget) -> list[CaseReport]:
        """Build the submission; find all shapes while the worker loads it."""
        try:
            yardstick.prepare_both(self.worker_teams, self._yardstick_teams, self._machine.cache)
            self._hold_device()
            self._team = self.worker_teams.start(self._ranks_first)
            self._load_author()
            self.worker_teams.wait_until_ready(self._team)
            # While the run waits for the device, its worker must not disturb others.
            self._team.freeze()
        except CaseFailed as failure:
            return [messages.failed_case_report("", stage, failure)]
        return []

    def _judge_all(self, stage: str, budget: StageBudget) -> list[CaseReport]:
        """Judge every case of a stage; those after the worker's end are skipped."""
        cases = self._problem.cases(stage, self._request.mode)
        reports: list[CaseReport] = []
        is_over = False
        for done_count, case in enumerate(cases):
            report = CaseReport(case.name, stage, "skipped")
            if not is_over:
                self._report_progress(Progress(stage, case.name, done_count, len(cases)))
                report, is_over = self._judge_case(stage, case, budget)
            reports.append(messages.hide_details(report) if STAGES[stage].is_hidden else report)
        return reports

    def _judge_case(self, stage: str, case: Case, budget: StageBudget) -> tuple[CaseReport, bool]:
        """Judge one case; also return whether the worker is unusable afterwards."""
        seeds = self._seeds(stage, case)
        # A submission must not show a hidden size by its error.
        is_public = not (STAGES[stage].is_hidden or case.is_hidden)
        context = replace(self._judge_context, errors=self._errors if is_public else None)
        try:
            self._team = self.worker_teams.fit_team(self._team, case.ranks, budget)
        except CaseFailed as failure:
            return messages.failed_case_report(case.name, stage, failure), True
        try:
            with GatedCase(context, self._team, case, self._shapes[case.name]) as gate:
                self._warm_ups.warm_up(gate, budget)
                for _ in range(self._problem.calls):
                    freezing_s = self._team.freezing_s
                    time_us = gate.call(next(seeds), budget.until())
                    budget.spend(time_us + 1e6 * (self._team.freezing_s - freezing_s))
            if is_public and "device_memory_mib" in self._metric_names:
                # Nothing but the submission runs in a box now.
                pids = linux.descendants(os.getppid(), {os.getpid()})
                self._device_mib = max(self._device_mib, self._device.memory_mib(pids))
        except CaseFailed as failure:
            is_over = failure.is_last or not self._device.is_usable()
            return messages.failed_case_report(case.name, stage, failure), is_over
        return CaseReport(case.name, stage, "passed"), False

    def _measure_answers(self) -> dict[str, float]:
        values: dict[str, float] = {}
        if (errors := self._errors) is not None:
            values |= zip(ERROR_METRICS, (errors.absolute, errors.relative), strict=True)
        if self._device_mib:
            values["device_memory_mib"] = self._device_mib
        # What is infinite could not be measured.
        return {name: value for name, value in values.items() if isfinite(value)}

    def _time(self, stage: str, budget: StageBudget) -> list[CaseReport]:
        cases = self._problem.cases(stage, self._request.mode)
        yardstick_teams = self._yardstick_teams
        assert yardstick_teams is not None, "every timed run has a yardstick"
        team = yardstick_teams.start(cases[0].ranks)
        yardstick_teams.wait_until_ready(team)
        budget_b = StageBudget(budget.left_s)
        sides = (
            Side("A", self.worker_teams, self._team, budget),
            Side("B", yardstick_teams, team, budget_b, is_yardstick=True),
        )
        timer = StageTimer(sides, self._timing_context(stage), self._request.mode, stage)
        try:
            return timer.run(cases, self._problem.ranking_by, self._request.best_us)
        except SideFailed as failed:
            return [failed.report]
        finally:
            self._team = sides[0].team
            self._figures = timer.sigma_run, timer.tie_us
            self._stopped = timer.stopped
            self._directory.keep("samples.json.gz", timer.record())

    def _timing_context(self, stage: str) -> TimingContext:
        request = self._request
        return TimingContext(
            self._judge_context,
            self._shapes,
            functools.partial(self._seeds, stage),
            self._warm_ups,
            self._report_progress,
            yardstick_us=request.yardstick_us,
            precision=request.precision,
            quiet_wait=QuietWait(request.quiet_wait_s if request.mode == "ranked" else 0.0),
        )

    def _profile(self, stage: str, budget: StageBudget) -> list[CaseReport]:
        reports: list[CaseReport] = []
        request = self._request
        names = request.ncu_kernel_name, request.ncu_kernel_name_base
        kernels = NcuFilter(*names, request.ncu_launch_count)
        profiler = Profiler(self._judge_context, self.worker_teams, self._warm_ups, kernels)
        self._artefacts = profiler.artefacts
        cases = self._problem.cases(stage, request.mode, request.case)
        for number, case in enumerate(cases):
            seeds = self._seeds(stage, case)
            try:
                self._team = self.worker_teams.fit_team(self._team, case.ranks, budget)
                profiler.warm(self._team)
                profiler.run(case, number, self._shapes[case.name], seeds, budget)
            except CaseFailed as failure:
                return [*reports, messages.failed_case_report(case.name, stage, failure)]
            reports.append(CaseReport(case.name, stage, "passed"))
        profiler.list_kernels()
        return reports

    def _compose(self) -> Composition | None:
        """Record one more call of the last case, in a process that times nothing afterwards."""
        mode, doubts = self._request.mode, list(self._screening.doubts)
        is_timed = MODES[mode].is_timed
        cases = self._problem.cases("time" if is_timed else "check", mode)
        case = [case for case in cases if not case.is_hidden][-1]
        composition = None
        try:
            if is_timed:
                for team in self.worker_teams.teams:
                    team.end()
                self._team = self.worker_teams.start(case.ranks)
                self.worker_teams.wait_until_ready(self._team)
            if self._request.device != "cpu":
                # Importing the profiler takes seconds, and a call may take only a few.
                self._team.thaw()
                for rank in range(self._team.ranks):
                    self._team.send(rank, WARM)
                self.worker_teams.wait_until_ready(self._team, PROFILER)
            shapes = self._shapes[case.name]
            with GatedCase(self._judge_context, self._team, case, shapes) as gate:
                record = record_call(gate, self._warm_ups, self._seeds(_RECORD, case))
            composition = read_composition(record, self._problem.shortcuts)
        except _RECORD_FAILURES as failure:
            self.worker_teams.log.add(f"no composition was recorded: {failure}\n".encode())
        if composition is not None:
            return replace(composition, doubts=doubts + composition.doubts)
        doubts += [] if self._problem.shortcuts.is_empty else ["what it calls was not recorded"]
        return Composition(doubts=doubts) if doubts else None

    def _seeds(self, stage: str, case: Case) -> Iterator[int]:
        """Yield a seed for each call; a checked case starts with its published seed."""
        bits = self._shapes[case.name][0].seed_bits
        for call in itertools.count():
            if stage == "check" and call == 0 and case.seed is not None:
                yield case.seed
            else:
                index = call if self._machine.defences.has_fresh_inputs else 0
                yield derive_seed(self._key, stage, case.name, index, bits)
