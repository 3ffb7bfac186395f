"""The warm supervisor: imports torch once, keeps a launcher, and forks a run for each request.

It never runs an author's code and never touches a GPU, so whatever a run does to its own process
is gone with that process. When the supervisor ends, every process beneath it ends. Before the
author's code runs, a run gives up root, the network and most files.

It reads one request per line and writes messages and one report for each. As a program, its
arguments are the pid of the parent process, with which the supervisor ends, and a JSON object of
options (`folder` for runs, `state`, `level`, `slot`, `slots` and `device_lock` of a pool, and for
tests those of `harness.defences.Overrides`).
"""

import contextlib
import gc
import importlib
import json
import os
import secrets
import select
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from types import FrameType
from typing import IO, Any, NoReturn

from harness import messages
from harness.build.command import detect_language, names_extensions
from harness.build.plan import BuildCache, survey_tools
from harness.build.teams import Machine, preparation_s
from harness.check.author import is_memory_shortage
from harness.check.composition import RECORD_S_MAX
from harness.check.inputs import KEY_BYTES
from harness.check.screen import SCREEN_S_MAX
from harness.defences import Overrides
from harness.devices.device import DeviceFault, describe_machine
from harness.devices.lock import DEVICE_WAIT_S_MAX, open_device_lock, stop_sharing, try_share
from harness.inspect import inspection
from harness.messages import (
    CANCEL,
    CANCELLED,
    LEFT_BEHIND,
    LINE_BYTES_MAX,
    READY,
    Accepted,
    Message,
    Request,
    RunReport,
    RunRequest,
    failed_request,
    failed_run,
    request_from_line,
    to_line,
)
from harness.problem import MemoryShortage, Problem, ProblemFault, RunDirectory, load_problem
from harness.sandbox import linux
from harness.sandbox.box import SandboxFault
from harness.sandbox.bubblewrap import BubblewrapLauncher
from harness.sandbox.launcher import SPARE_S_MAX, ZygoteLauncher
from harness.sandbox.probe import probe_isolation
from harness.sandbox.settings import add_environment
from harness.supervisor.duel_run import DuelRun
from harness.supervisor.folders import (
    RunFolder,
    add_submission,
    open_build_cache,
    prepare_run_directory,
)
from harness.supervisor.process import (
    ENDS,
    KEEPS,
    READY_S_MAX,
    SPARE_NAME,
    TAKE_S_MAX,
    TAKES,
    WAITS,
    Order,
    OrderReader,
    ProcessSpec,
    Purpose,
    RunProcess,
    confine_process,
    event_line,
    take_request,
)
from harness.supervisor.process import READY as SPARE_READY
from harness.supervisor.profiler import ProfilerFault
from harness.supervisor.program_run import ProgramRun
from harness.supervisor.rehearsal import Rehearsal
from harness.supervisor.run import (
    Preparation,
    Run,
    RunDevice,
    StagedRun,
    Tell,
    find_device_spec,
)
from harness.time.stage import NoisyMachine
from harness.vocabulary import DUEL, LEVELS, MODES

_POLL_S = 1.0
# How many spare boxes a supervisor has by default: each run starts with one.
SPARES = 1
# How often it looks whether a run that is timed has ended, to make them.
_TRY_EVERY_S = 1.0
_CHUNK_BYTES = 64 * 1024
_END_S = 5.0
_AUTHOR_WALL_SHARE = 3
_PLATFORM_SHARE = 3
# What a run with hidden sizes says of a failure that might tell one.
_WITHHELD = (
    "this may tell a hidden size: `warpboard problem check` shows its author the same failure"
)
# The codes of failures that are not the submission's fault.
_FAILURE_CODES: dict[type[Exception], str] = {
    ProblemFault: "problem_fault",
    SandboxFault: "sandbox",
    DeviceFault: "device",
    NoisyMachine: "noisy",
    MemoryShortage: "memory",
    ProfilerFault: "profiler",
}
# An author's code may replace os._exit.
_EXIT = os._exit


class RequestLines:
    """The lines on a descriptor, where a run can see the next one before it is taken.

    Python's own streams keep what they read ahead, where `select` does not see it.
    """

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._unread = b""
        self._is_over = False

    @property
    def has_news(self) -> bool:
        """Whether a line has come that nobody took, or no more will come."""
        return self._is_over or b"\n" in self._unread

    @property
    def is_cancel(self) -> bool:
        """Whether the line that has come cancels the current run."""
        line, _, _ = self._unread.partition(b"\n")
        return line.endswith(f" {CANCEL}".encode())

    def receive(self) -> None:
        """Wait for more input. Raises ValueError for a line that is too long."""
        chunk = os.read(self.descriptor, _CHUNK_BYTES)
        self._is_over = not chunk
        self._unread += chunk
        if len(self._unread) > LINE_BYTES_MAX:
            raise ValueError(f"a request of more than {LINE_BYTES_MAX} bytes")

    def take(self) -> str:
        """Wait for a line and return it, "" at the end of the input."""
        while not self.has_news:
            self.receive()
        line, end, self._unread = self._unread.partition(b"\n")
        return line.decode() if end else ""


@dataclass
class SupervisorServer:
    """The warm process: the machine, the channel to the entry, and the current run.

    `token` starts each of its lines, so a line that an author's code prints belongs to no later
    run. `process` runs the current request, or waits for the next one that can share it.

    `lacks_spares` is whether some of the machine's spares, boxes or processes, may be missing.
    `wanted` is the specification of the last process that a spare one can replace,
    `spare_processes` are those that wait, until `spares_end_at`. `own_lock` is the device lock that
    is shared while they are made.
    """

    machine: Machine
    overrides: Overrides
    channel: IO[str]
    lines: RequestLines
    folder: Path
    rehearsal: Rehearsal
    token: str = ""
    directory: RunDirectory | None = None
    process: RunProcess | None = None
    own_lock: tuple[int, ...] = ()
    lacks_spares: bool = False
    wanted: ProcessSpec | None = None
    spare_processes: list[RunProcess] = field(default_factory=list)
    spares_end_at: float = inf
    usual_name: str = field(default_factory=linux.name)

    @property
    def _own_processes(self) -> list[RunProcess]:
        """The processes of runs: those that wait, and that of the current request."""
        return [*self.spare_processes, *([self.process] if self.process is not None else [])]

    def take_line(self) -> str:
        """Wait for a line of the entry and return it, "" at the end; make spares meanwhile."""
        while not self.lines.has_news:
            if time.monotonic() >= self.spares_end_at:
                self._end_all_spares()
            if self.lacks_spares:
                self._make_spares()
            ends_at = self.spares_end_at
            wait_s = _TRY_EVERY_S if self.lacks_spares else max(0.0, ends_at - time.monotonic())
            limit_s = None if wait_s == inf else wait_s
            if select.select((self.lines.descriptor,), (), (), limit_s)[0]:
                self.lines.receive()
        return self.lines.take()

    def _make_spares(self) -> None:
        """Make what is missing of the spares, unless a run uses the device alone now."""
        if not try_share(self.own_lock):
            return
        self.lacks_spares = False
        try:
            new_processes = self._fork_spares()
            self.machine.launcher.make_spares(self.machine.spares)
            self.machine.launcher.settle_spares()
            for process in new_processes:
                if not process.has_written(SPARE_READY, READY_S_MAX):
                    self._end_processes([process])
            # Without a folder, the next run reports why.
            with contextlib.suppress(OSError):
                self.rehearsal.prepare_run(self.machine)
        except SandboxFault:
            self.leave()
        finally:
            stop_sharing(self.own_lock)
        age_s = self.overrides.spare_s_max or SPARE_S_MAX
        self.spares_end_at = time.monotonic() + age_s

    def _end_all_spares(self) -> None:
        """End the spares, which are then replaced."""
        self._end_processes(self.spare_processes)
        try:
            self.machine.launcher.make_spares(0)
        except SandboxFault:
            self.leave()
        self.spares_end_at, self.lacks_spares = inf, True

    def _fork_spares(self) -> list[RunProcess]:
        """Fork what is missing of the spare processes."""
        unfit = [
            process
            for process in self.spare_processes
            if process.spec != self.wanted or process.has_ended
        ]
        self._end_processes(unfit)
        forked: list[RunProcess] = []
        # Without one, the next process is forked when it is needed.
        with contextlib.suppress(OSError):
            while self.wanted is not None and len(self.spare_processes) < self.machine.spares:
                forked.append(self._fork(self.wanted, RunFolder.make(self.folder), is_spare=True))
                self.spare_processes.append(forked[-1])
        return forked

    def _end_processes(self, processes: Sequence[RunProcess]) -> None:
        """End spare processes; their children end with them."""
        for process in list(processes):
            self.spare_processes.remove(process)
            process.end()
            process.folder.leave()

    def _take_spare(self, spec: ProcessSpec) -> RunProcess | None:
        """Return a spare process of this specification; None if there is none."""
        fitting = (
            process
            for process in self.spare_processes
            if process.spec == spec and not process.has_ended
        )
        process = next(fitting, None)
        if process is not None:
            self.spare_processes.remove(process)
        elif spec.has_gpu:
            # Only a process with an open device shows whether the contexts of boxes still work.
            self._end_all_spares()
        return process

    def handle_line(self, line: str) -> None:
        """Handle one line of the entry: the token of a request, and the request."""
        self.token, _, body = line.partition(" ")
        if body == CANCEL:
            # The run has ended by now. No author's code has seen this token.
            self.channel.write(f"\n{self.token} {CANCELLED}\n")
            self.channel.flush()
        else:
            self.answer(request_from_line(body))

    def tell(self, message: Message) -> None:
        """Send one line to the entry."""
        # This ends a partial line that an author's code may have left.
        self.channel.write(f"\n{self.token} {to_line(message)}")
        self.channel.flush()

    def answer(self, request: Request) -> None:
        """Handle one request up to its report, which is sent here if the run could not send it."""
        level, missing = self.machine.level, ", ".join(self.machine.missing)
        # An inspection starts no worker.
        level_min = request.level_min if isinstance(request, RunRequest) else "none"
        if LEVELS.index(level) < LEVELS.index(level_min):
            reason = f"isolation level {level} is below {level_min}; missing: {missing}"
            self.tell(failed_request(request, "sandbox", reason))
            return
        try:
            process, directory = self._prepare(request)
        except ProblemFault as fault:
            self.tell(failed_request(request, "problem_fault", messages.make_printable(str(fault))))
            return
        except OSError as error:
            reason = f"the run's folder could not be prepared: {error}"
            self.tell(failed_request(request, "supervisor", reason))
            return
        if isinstance(request, RunRequest):
            budgets_s = run_budgets_s(directory.problem, request.mode)
            wait_s = DEVICE_WAIT_S_MAX if self.machine.device_lock else 0.0
            self.tell(Accepted(budgets_s + request.quiet_wait_s + wait_s))
        self._run(request, directory, process)

    def _prepare(self, request: Request) -> tuple[RunProcess, RunDirectory]:
        """Return a process for a request, and the directory that it needs.

        Ends the process that waits for requests of another purpose. Raises ProblemFault; OSError.
        """
        purpose = _find_purpose(request)
        process = self.process
        if process is not None and (process.purpose != purpose or process.has_ended):
            self._end_process(process)
        if self.process is not None and isinstance(request, RunRequest):
            assert self.process.directory is not None
            self.directory = add_submission(self.process.directory, request.files)
            return self.process, self.directory
        problem = load_problem(Path(request.problem))
        if isinstance(request, RunRequest):
            problem.cases("profile", request.mode, request.case)
        if self.overrides.defences_file:
            self.machine = replace(self.machine, defences=self.overrides.read_defences())
        process = self.process = self._choose_process(request, problem)
        process.purpose = purpose if problem.lang == "py" and not problem.main else ()
        try:
            self.directory = prepare_run_directory(request, problem, process.folder)
        except BaseException:
            self._end_process(process)
            raise
        return process, self.directory

    def _choose_process(self, request: Request, problem: Problem) -> RunProcess:
        """Return a spare process, or fork one. Raises ProblemFault; OSError."""
        run_device = None
        if isinstance(request, RunRequest) and not problem.main:
            run_device = find_device_spec(request, problem, self.machine)
        spec = ProcessSpec.find(request.device, self.machine.defences, run_device)
        if run_device is not None:
            self.wanted = spec
        return self._take_spare(spec) or self._fork(spec, RunFolder.make(self.folder))

    def _run(self, request: Request, directory: RunDirectory, process: RunProcess) -> None:
        process.hand_over(self.token, request, directory)
        if process.is_spare and not process.has_written(TAKES, TAKE_S_MAX):
            process = self._replace_spare(process)
            process.hand_over(self.token, request, directory)
        is_waiting, stop_reason = self._wait_for_run(request, process)
        ending = ""
        if is_waiting:
            self._clean_up()
        else:
            ending = messages.status_failure(self._end_process(process)).message
        if directory is not process.directory:
            directory.leave()
        self.directory = None
        self.lacks_spares = self.machine.spares > 0
        if ending:
            # The author's code may have reported something itself; the first report counts.
            self.tell(_report_dead_run(request, directory.mark.what, stop_reason, ending))

    def _replace_spare(self, process: RunProcess) -> RunProcess:
        """Return a new process for the request of a spare one that ended or lost its device."""
        process.end()
        if process.spec.has_gpu:
            self._end_all_spares()
        self.process = self._fork(process.spec, process.folder)
        self.process.purpose = process.purpose
        return self.process

    def _fork(self, spec: ProcessSpec, folder: RunFolder, *, is_spare: bool = False) -> RunProcess:
        reported, report_end = os.pipe()
        request_end, requests = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reported)
            os.close(requests)
            self._run_in_fork(spec, folder, (request_end, report_end), is_spare=is_spare)
        os.close(report_end)
        os.close(request_end)
        return RunProcess(pid, spec, folder, reported, requests, is_spare=is_spare)

    def _end_process(self, process: RunProcess) -> int:
        """End a run's process with all that it started; return its exit status."""
        self.process = None
        status = process.end()
        self._clean_up()
        process.folder.leave()
        return status

    def _clean_up(self) -> None:
        """End what a run has left behind, or this supervisor if that fails.

        Of the processes beneath the zygote, it ends those that are in no spare box.
        """
        # Processes that an author's code left behind are in no box, and hold what runs hold.
        known = {self.machine.launcher.pid, *(process.pid for process in self._own_processes)}
        if not linux.end_others(known, self.machine.launcher.end_s_max):
            self.leave()
        # A run that died may have left a box behind.
        try:
            self.machine.launcher.clear()
        except SandboxFault:
            self.leave()

    def _wait_for_run(self, request: Request, process: RunProcess) -> tuple[bool, str]:
        """Wait for the run's end.

        Return whether its process waits for the next request, and if it was stopped, because the
        author's code did not end, the reason. The author's budget is CPU time, because other
        processes may keep the core busy, with a multiple of it as wall time. A run that is
        cancelled is killed at once. One that has reported, or whose result is no longer wanted
        because another request came, gets little time to end.
        """
        assert process.directory is not None
        problem, mark = process.directory.problem, process.folder.mark
        limit_s, reason = problem.budgets_s["author"], ""
        if not isinstance(request, RunRequest):
            limit_s = min(limit_s, request.call_s)
        pidfd = os.pidfd_open(process.pid)
        ends_at, event = inf, b""
        has_ended = is_waiting = False
        while not has_ended and not is_waiting:
            used_s, wall_s = mark.runs_s(linux.cpu_s(process.pid))
            if used_s > limit_s or wall_s > _AUTHOR_WALL_SHARE * limit_s:
                reason = f"{mark.what} did not end within {limit_s:g} s"
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            # The next request may come before the process says that it waits for it.
            if not event and (event := self._read_event(request, process)):
                is_waiting = event == WAITS
            if ends_at == inf and (event or self.lines.has_news):
                ends_at = time.monotonic() + _END_S
            if self.lines.is_cancel or time.monotonic() > ends_at:
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
                is_waiting = False
            if not is_waiting:
                has_ended = self._wait_for_news(pidfd, -1 if event else process.reported)
        os.close(pidfd)
        return is_waiting, reason

    def _read_event(self, request: Request, process: RunProcess) -> bytes:
        """Return what a process wrote after its report, b"" if nothing; move its records before."""
        event = process.read_event(self.token)
        if event != KEEPS:
            return event
        if isinstance(request, RunRequest) and not request.is_shared:
            process.keep_records(Path(request.out))
        return b""

    def _wait_for_news(self, pidfd: int, reported: int) -> bool:
        """Wait for the run's end, its report, the entry's next line, or a second.

        Return whether the run ended.
        """
        watched = [pidfd] if self.lines.has_news else [pidfd, self.lines.descriptor]
        watched += [reported] if reported >= 0 else []
        ready, _, _ = select.select(watched, (), (), _POLL_S)
        if self.lines.descriptor in ready:
            self.lines.receive()
        return pidfd in ready

    def _run_in_fork(
        self, spec: ProcessSpec, folder: RunFolder, pipes: tuple[int, int], *, is_spare: bool
    ) -> NoReturn:
        request_end, report_end = pipes
        try:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            self._close_files_in_fork()
            # The code that runs here must not read the next requests.
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            # The supervisor's own descriptors are shared with the other supervisors.
            self.machine = replace(
                self.machine, device_lock=open_device_lock(self.machine.device_lock)
            )
            run_folder = os.open(folder.path, os.O_PATH | os.O_DIRECTORY)
            folders = (run_folder, self.machine.cache.folder)
            leaves_network = self.machine.hides_network
            confine_process(folders, leaves_network=leaves_network, has_gpu=spec.has_gpu)
            _die_with_parent(os.getppid(), signal.SIGKILL)
            os.chdir(folder.path)
            # Torch makes this folder when it computes shapes without memory: in the current folder,
            # since it may not write to /tmp here.
            add_environment({"TORCHINDUCTOR_CACHE_DIR": "inductor"})
            preparation = Preparation()
            if is_spare:
                preparation.run_device = self._open_spare(spec, folder)
                os.write(report_end, SPARE_READY)
            reader = OrderReader(request_end, folder.mark)
            order = reader.read()
            if is_spare:
                self._take_first(preparation, report_end)
            while self._answer_in_fork(order, reader, report_end, preparation):
                os.write(report_end, event_line(self.token, WAITS))
                order = reader.read()
            os.write(report_end, event_line(self.token, ENDS))
        finally:
            # Whatever happens, a fork must never return into its parent's loop.
            _EXIT(0)

    def _close_files_in_fork(self) -> None:
        """Close what belongs to other processes of runs, and to the supervisor alone."""
        for process in self._own_processes:
            process.close_files()
        for descriptor in self.own_lock:
            os.close(descriptor)
        self.own_lock = ()

    def _open_spare(self, spec: ProcessSpec, folder: RunFolder) -> RunDevice:
        """Open the device of a spare process, and rehearse a run. Raises DeviceFault."""
        assert spec.run_device is not None
        run_device = RunDevice(spec.run_device, self.machine)
        run_device.open(self.machine)
        run_device.require_room()
        self.rehearsal.begin_run(self.machine, run_device, folder.mark)
        linux.set_name(SPARE_NAME)
        return run_device

    def _take_first(self, preparation: Preparation, report_end: int) -> None:
        """Take the first request of a spare process, or end if its device does not work."""
        assert preparation.run_device is not None
        if not take_request(preparation.run_device.device, report_end):
            _EXIT(0)
        linux.set_name(self.usual_name)

    def _answer_in_fork(
        self, order: Order, reader: OrderReader, report_end: int, preparation: Preparation
    ) -> bool:
        """Report on a request; return whether this process can take another one."""
        self.token, request, directory, preparation.is_shared = order
        report: Message
        try:
            if isinstance(request, RunRequest):
                report = execute_run(request, directory, self.machine, self.tell, preparation)
            else:
                report = inspection.execute_inspection(request, directory, self.machine, self.tell)
        except Exception as error:  # noqa: BLE001  (unexpected: our own failure)
            traceback.print_exc()
            report = failed_request(request, "supervisor", f"{type(error).__name__}: {error}")
        # Shared runs leave no records.
        if isinstance(request, RunRequest) and not request.is_shared:
            os.write(report_end, event_line(self.token, KEEPS))
            reader.wait_until_kept()
        self.tell(report)
        return isinstance(report, RunReport) and preparation.can_follow(report)

    def leave(self) -> NoReturn:
        """End every process beneath this one, then this one; the status says if all ended."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        # SIGTERM may come while a process is forked, before any list has it.
        linux.kill(linux.descendants(os.getpid(), {self.machine.launcher.pid}))
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            self.machine.launcher.close()
        has_survivors = not linux.end_descendants(self.machine.launcher.end_s_max)
        for process in self._own_processes:
            process.folder.leave()
        self.rehearsal.leave()
        if has_survivors:
            sys.stderr.write("a process of a run could not be killed\n")
            sys.stderr.flush()
        os._exit(LEFT_BEHIND if has_survivors else 0)


def serve(parent: int, options: dict[str, Any]) -> None:
    """Answer requests until standard input ends, SIGTERM arrives or the parent ends."""
    linux.become_reaper()
    linux.become_unreadable()
    # What the author's code prints goes to stderr instead of the channel to the entry.
    channel = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    cache = open_build_cache(Path(options.get("state") or options["folder"]))
    overrides = Overrides.from_options(options)
    machine = replace(
        _make_machine(options.get("level"), overrides, cache),
        device_lock=tuple(options.get("device_lock", ())),
        slot=options.get("slot", 0),
        slots=options.get("slots", 1),
        spares=options.get("spares", SPARES),
    )
    # The trials of the walls leave processes that have ended.
    linux.end_others({machine.launcher.pid})
    for descriptor in machine.device_lock:
        os.set_inheritable(descriptor, False)
    lines = RequestLines(sys.stdin.fileno())
    folder = Path(options["folder"])
    rehearsal = Rehearsal(Path(tempfile.mkdtemp(dir=folder)))
    server = SupervisorServer(
        machine,
        overrides,
        channel,
        lines,
        folder,
        rehearsal,
        own_lock=open_device_lock(machine.device_lock),
    )

    def leave(_signal: int, _frame: FrameType | None) -> None:
        server.leave()

    signal.signal(signal.SIGTERM, leave)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _die_with_parent(parent, signal.SIGTERM)
    # Import or compute once what every run needs, out of the garbage collector's reach.
    gc.disable()
    describe_machine()
    torch: Any = importlib.import_module("torch")
    torch.set_num_threads(1)
    # numpy loads it when a run seeds its generators.
    importlib.import_module("numpy.random")
    gc.freeze()
    gc.enable()
    rehearsal.prepare_run(machine)
    linux.use_huge_pages()
    channel.write(f"{READY}\n")
    channel.flush()
    for line in iter(server.take_line, ""):
        server.handle_line(line)
    server.leave()


def _find_purpose(request: Request) -> Purpose:
    """Return what the process of a request is for, if it can be shared; otherwise ().

    A source that is built is not: the build cache is closed once the author's code was loaded.
    Raises OSError if the problem or the submission cannot be read.
    """
    if not isinstance(request, RunRequest) or not request.is_shared:
        return ()
    paths = map(Path, request.files.paths)
    is_built = any(detect_language(it.name) or names_extensions(it.read_bytes()) for it in paths)
    if request.mode != "test" or request.key or is_built:
        return ()
    manifest = (Path(request.problem) / "manifest.json").read_bytes()
    return (request.problem, manifest, request.device, *request.gpus)


def run_budgets_s(problem: Problem, mode: str) -> float:
    """Return how long a run may take by its problem's budgets."""
    sides = 2 if mode == DUEL else 1
    stages_s = sum(problem.budget_s(stage, mode) for stage in MODES[mode].stages)
    recorded_s = RECORD_S_MAX if MODES[mode].is_recorded else 0.0
    screen_s = 0.0 if problem.shortcuts.is_empty else SCREEN_S_MAX
    # A budget is the submission's own time; the factor bounds the platform's work in between.
    own_s = _PLATFORM_SHARE * (stages_s + recorded_s)
    return sides * (own_s + preparation_s(problem, mode) + screen_s)


def _draw_cases(directory: RunDirectory, request: RunRequest) -> RunDirectory:
    """Return the folder of a run with the cases that its key draws, for both sides of a duel."""
    key, rival = bytes.fromhex(request.key or ""), directory.rival
    problem = directory.problem.with_drawn_cases(request.mode, key)
    if rival is not None:
        rival = replace(rival, problem=rival.problem.with_drawn_cases(request.mode, key))
    return replace(directory, problem=problem, rival=rival)


def execute_run(
    request: RunRequest,
    directory: RunDirectory,
    machine: Machine,
    tell: Tell,
    preparation: Preparation,
) -> RunReport:
    """Execute one run in this process, by our harness or by the problem's own program.

    No worker of the run is left when this returns.
    """
    began = time.monotonic()
    usage: dict[str, float] = {}
    # The key decides which cases there are.
    request = replace(request, key=request.key or secrets.token_hex(KEY_BYTES))
    directory = _draw_cases(directory, request)
    try:
        run: Run
        if request.mode == DUEL:
            run = DuelRun(request, directory, machine, tell, preparation)
        elif directory.problem.main:
            run = ProgramRun(request, directory, machine, tell)
        else:
            run = StagedRun(request, directory, machine, tell, preparation)
        try:
            report = run.execute()
        finally:
            usage = run.worker_teams.usage() | {"device_wait_s": run.device_turn.waited_s}
    except tuple(_FAILURE_CODES) as error:
        failure_code = next(
            code for kind, code in _FAILURE_CODES.items() if isinstance(error, kind)
        )
        reason = str(error)
        if directory.problem.has_hidden_sizes and isinstance(error, ProblemFault | MemoryShortage):
            # The author's code, or the memory that it needs, may tell a size.
            reason = _WITHHELD
        report = failed_run(failure_code, messages.make_printable(reason))
    except (MemoryError, RuntimeError) as error:
        if not is_memory_shortage(error):
            raise
        report = failed_run("memory", "this machine has too little memory left for the run")
    took_s = time.monotonic() - began
    return replace(report, took_s=took_s, usage=usage | {"wall_s": took_s})


def _make_machine(level: str | None, overrides: Overrides, cache: BuildCache) -> Machine:
    isolation = probe_isolation()
    if level:
        isolation = isolation.lowered(level)
    walls = isolation.minus(overrides.without).walls
    launchers = {"zygote": ZygoteLauncher, "bubblewrap": BubblewrapLauncher}
    end_s_max = overrides.end_s_max or linux.END_S_MAX
    # The launcher refuses a box that lacks one of these walls, whoever asks for it.
    launcher = launchers[overrides.launcher](walls, end_s_max=end_s_max)
    build_tools = survey_tools(ncu=overrides.ncu)
    return Machine(
        launcher,
        walls,
        build_tools,
        cache,
        records_calls=overrides.records_calls,
        module_loading=overrides.module_loading,
    )


def _die_with_parent(parent: int, signal_number: signal.Signals) -> None:
    try:
        pidfd = os.pidfd_open(parent)
    except ProcessLookupError:
        os._exit(1)
    linux.die_with_parent(pidfd, signal_number)
    os.close(pidfd)


def _report_dead_run(request: Request, author: str, stop_reason: str, ending: str) -> Message:
    """Report a run that died, and whether the author's code ended it or never ended."""
    if stop_reason or author:
        reason = stop_reason or f"the author's code ended the run in {author}: {ending}"
        return failed_request(request, "problem_fault", messages.make_printable(reason))
    return failed_request(request, "supervisor", f"the run ended without a report: {ending}")


if __name__ == "__main__":
    serve(int(sys.argv[1]), json.loads(sys.argv[2]))
