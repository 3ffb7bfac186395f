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
import select
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
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
from harness.check.screen import SCREEN_S_MAX
from harness.defences import Overrides
from harness.devices.cuda import host
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
from harness.problem import MemoryShortage, Problem, ProblemFault, RunDirectory
from harness.sandbox import fork_entry, linux, realtime, seccomp, walls
from harness.sandbox.box import SandboxFault
from harness.sandbox.bubblewrap import BubblewrapLauncher
from harness.sandbox.launcher import ZygoteLauncher
from harness.sandbox.probe import probe_isolation
from harness.sandbox.settings import add_environment
from harness.supervisor.duel_run import DuelRun
from harness.supervisor.folders import (
    RUN_UID,
    add_submission,
    open_build_cache,
    prepare_run_directory,
)
from harness.supervisor.profiler import ProfilerFault
from harness.supervisor.program_run import ProgramRun
from harness.supervisor.run import PreparedProblem, Run, StagedRun, Tell
from harness.time.stage import NoisyMachine
from harness.vocabulary import DUEL, LEVELS, MODES

_READ = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/opt", "/etc/ld.so.cache", "/etc/alternatives")
# A device's driver writes to its nodes, to /proc and /sys, and to the pipes of its service.
_WRITTEN = ("/proc", "/dev", "/sys", host.MPS_PIPES)

_POLL_S = 1.0
# How many spare boxes a supervisor has by default: each run starts with one.
SPARES = 1
# How often it looks whether a run that is timed has ended, to make them.
_TRY_EVERY_S = 1.0
# What a run's process writes after a report.
_WAITS, _ENDS = b"w", b"e"
_CHUNK_BYTES = 64 * 1024
_END_S = 5.0
_AUTHOR_WALL_SHARE = 3
_PLATFORM_SHARE = 3
# The codes of failures that are not the submission's fault.
_FAILURE_CODES: dict[type[Exception], str] = {
    ProblemFault: "problem_fault",
    SandboxFault: "sandbox",
    DeviceFault: "device",
    NoisyMachine: "noisy",
    MemoryShortage: "memory",
    ProfilerFault: "profiler",
}
Purpose = tuple[object, ...]
# An author's code may replace os._exit.
_EXIT = os._exit


def confine_process(folders: Sequence[int], *, leaves_network: bool, has_gpu: bool) -> None:
    """Confine this process irrevocably; `folders` are descriptors it may still write to.

    With `leaves_network` it enters an empty network namespace: the worker gets a socket that is
    created here, and a socket reveals the addresses of the namespace it was created in. With
    `has_gpu` it can connect to unix sockets in the machine's folders, as a GPU's driver needs.

    As root it switches to an account that owns nothing. Such an account may be unable to import
    an interpreter below a closed home folder, so then it keeps the capability to read files;
    Landlock, where the kernel has it, leaves it no files to read except the interpreter's. It also
    keeps the right to run at a low real-time priority, if this machine has it (`realtime`).
    """
    if leaves_network:
        fork_entry.leave_network_namespace()
    if linux.landlock_version() >= linux.LANDLOCK_VERSION_MIN:
        read = [*_READ, *walls.interpreter_folders(), walls.package_folder()]
        written = [*_WRITTEN, *(f"/proc/self/fd/{folder}" for folder in folders)]
        linux.restrict_paths(linux.AllowedPaths(read=read, written=written))
    # A GPU's driver chooses the cores of its other threads, which the filter below would refuse.
    # A capability in a user's own namespace allows no priority.
    is_root = os.getuid() == 0
    scheduling = realtime.permit(may_keep_capability=is_root and not has_gpu)
    if is_root:
        # A virtual environment may be readable while its base interpreter is not.
        is_open = all(_is_reachable(Path(prefix)) for prefix in (sys.prefix, sys.base_prefix))
        reading = 0 if is_open else 1 << linux.CAP_DAC_READ_SEARCH
        linux.become_user(RUN_UID, reading | scheduling)
    else:
        linux.empty_bounding_set()
        linux.drop_capabilities(scheduling)
    linux.become_unreadable()
    seccomp.install_worker_filter(seccomp.socket_families(1, has_unix=has_gpu))
    if scheduling:
        seccomp.forbid_foreign_scheduling()


def _is_reachable(folder: Path) -> bool:
    path = (folder.resolve(), *folder.resolve().parents)
    return all(place.stat().st_mode & 0o005 == 0o005 for place in path)


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


@dataclass(frozen=True)
class RunProcess:
    """A forked process that runs one request, or several of the same `purpose`; () means one.

    It writes a byte to `reported` after each report, and reads further requests from `requests`.
    `directory` is that of its first request. `others` were the supervisor's processes before it.
    """

    pid: int
    directory: RunDirectory
    reported: int
    requests: int
    purpose: Purpose
    others: frozenset[int]

    @property
    def has_ended(self) -> bool:
        """Whether the process has ended; it is not reaped."""
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def hand_over(self, token: str, request: Request, directory: RunDirectory) -> None:
        """Send the next request to the process, which is waiting for it."""
        folders = (directory.folder, directory.submission, directory.scratch)
        message = [token, to_line(request), directory.problem.submission, *map(str, folders)]
        # If it has just ended, the wait for its report finds that out.
        with contextlib.suppress(BrokenPipeError):
            os.write(self.requests, json.dumps(message).encode() + b"\n")

    def end(self) -> int:
        """End the process and return its exit status."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        _, status = os.waitpid(self.pid, 0)
        os.close(self.reported)
        os.close(self.requests)
        return os.waitstatus_to_exitcode(status)


def _take_over(line: str, first: RunDirectory) -> tuple[str, Request, RunDirectory]:
    """Return the token, the request and the directory that were handed over to this process."""
    token, request, main, *folders = json.loads(line)
    folder, submission, scratch = map(Path, folders)
    problem = replace(first.problem, submission=main)
    directory = replace(
        first, folder=folder, problem=problem, submission=submission, scratch=scratch
    )
    return token, request_from_line(request), directory


@dataclass
class SupervisorServer:
    """The warm process: the machine, the channel to the entry, and the current run.

    `token` starts each of its lines, so a line that an author's code prints belongs to no later
    run. `process` runs the current request, or waits for the next one that can share it.
    `spares` is how many spare boxes are kept ready, `lacks_spares` whether some may be missing, and
    `own_lock` the device lock that is shared while they are built.
    """

    machine: Machine
    overrides: Overrides
    channel: IO[str]
    lines: RequestLines
    folder: Path
    token: str = ""
    directory: RunDirectory | None = None
    process: RunProcess | None = None
    spares: int = 0
    own_lock: tuple[int, ...] = ()
    lacks_spares: bool = False

    def take_line(self) -> str:
        """Wait for a line of the entry and return it, "" at the end; make spare boxes meanwhile."""
        while self.lacks_spares and not self.lines.has_news:
            self._make_spares()
            wait_s = _TRY_EVERY_S if self.lacks_spares else 0.0
            if select.select((self.lines.descriptor,), (), (), wait_s)[0]:
                self.lines.receive()
        return self.lines.take()

    def _make_spares(self) -> None:
        """Make what is missing of the spare boxes, unless a run uses the device alone now."""
        if not try_share(self.own_lock):
            return
        self.lacks_spares = False
        try:
            self.machine.launcher.make_spares(self.spares)
            self.machine.launcher.settle_spares()
        except SandboxFault:
            self.leave()
        finally:
            stop_sharing(self.own_lock)

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
            directory, purpose = self._prepare(request)
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
        self._run(request, directory, purpose)

    def _prepare(self, request: Request) -> tuple[RunDirectory, Purpose]:
        """Return the directory of a request, and what a new process for it is for.

        Ends the process that waits for requests of another purpose. Raises ProblemFault; OSError.
        """
        purpose = _find_purpose(request)
        process = self.process
        if process is not None and (process.purpose != purpose or process.has_ended):
            self._end_process(process)
        if self.process is not None and isinstance(request, RunRequest):
            self.directory = directory = add_submission(self.process.directory, request.source)
            return directory, purpose
        self.directory = directory = prepare_run_directory(request, self.folder)
        problem = directory.problem
        if isinstance(request, RunRequest):
            problem.cases("profile", request.mode, request.case)
        return directory, purpose if problem.lang == "py" and not problem.main else ()

    def _run(self, request: Request, directory: RunDirectory, purpose: Purpose) -> None:
        process = self.process
        if process is None:
            process = self.process = self._fork(request, directory, purpose)
        else:
            process.hand_over(self.token, request, directory)
        is_waiting, stop_reason = self._wait_for_run(request, process)
        ending = ""
        if is_waiting:
            self._clean_up({*process.others, process.pid})
        else:
            ending = messages.status_failure(self._end_process(process)).message
        if directory is not process.directory:
            directory.leave()
        self.directory = None
        self.lacks_spares = self.spares > 0
        if ending:
            # The author's code may have reported something itself; the first report counts.
            self.tell(_report_dead_run(request, directory.mark.what, stop_reason, ending))

    def _fork(self, request: Request, directory: RunDirectory, purpose: Purpose) -> RunProcess:
        if self.overrides.defences_file:
            self.machine = replace(self.machine, defences=self.overrides.read_defences())
        others = frozenset(linux.descendants(os.getpid()))
        reported, report_end = os.pipe()
        request_end, requests = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reported)
            os.close(requests)
            self._run_in_fork(request, directory, purpose, (request_end, report_end))
        os.close(report_end)
        os.close(request_end)
        return RunProcess(pid, directory, reported, requests, purpose, others)

    def _end_process(self, process: RunProcess) -> int:
        """End a run's process with all that it started; return its exit status."""
        self.process = None
        status = process.end()
        self._clean_up(process.others)
        process.directory.leave()
        return status

    def _clean_up(self, known: Collection[int]) -> None:
        """End what a run has left behind, or this supervisor if that fails."""
        # Processes that an author's code left behind are in no box, and hold what runs hold.
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
        problem, mark = process.directory.problem, process.directory.mark
        limit_s, reason = problem.budgets_s["author"], ""
        if not isinstance(request, RunRequest):
            limit_s = min(limit_s, request.call_s)
        pidfd = os.pidfd_open(process.pid)
        ends_at = inf
        has_ended = is_waiting = False
        while not has_ended and not is_waiting:
            used_s, wall_s = mark.runs_s(linux.cpu_s(process.pid))
            if used_s > limit_s or wall_s > _AUTHOR_WALL_SHARE * limit_s:
                reason = f"{mark.what} did not end within {limit_s:g} s"
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            if ends_at == inf and select.select((process.reported,), (), (), 0)[0]:
                is_waiting = os.read(process.reported, 1) == _WAITS
                ends_at = time.monotonic() + _END_S
            if ends_at == inf and self.lines.has_news:
                ends_at = time.monotonic() + _END_S
            if self.lines.is_cancel or time.monotonic() > ends_at:
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
                is_waiting = False
            if not is_waiting:
                has_ended = self._wait_for_news(pidfd, process.reported if ends_at == inf else -1)
        os.close(pidfd)
        return is_waiting, reason

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
        self,
        request: Request,
        directory: RunDirectory,
        purpose: Purpose,
        pipes: tuple[int, int],
    ) -> NoReturn:
        request_end, report_end = pipes
        try:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            # The code that runs here must not read the next requests.
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            # The supervisor's own descriptors are shared with the other supervisors.
            self.machine = replace(
                self.machine, device_lock=open_device_lock(self.machine.device_lock)
            )
            run_folder = os.open(directory.folder, os.O_PATH | os.O_DIRECTORY)
            folders = (run_folder, directory.out, self.machine.cache.folder)
            leaves_network, has_gpu = self.machine.hides_network, request.device != "cpu"
            confine_process(folders, leaves_network=leaves_network, has_gpu=has_gpu)
            _die_with_parent(os.getppid(), signal.SIGKILL)
            os.chdir(directory.folder)
            # Torch makes this folder when it computes shapes without memory: in the current folder,
            # since it may not write to /tmp here.
            add_environment({"TORCHINDUCTOR_CACHE_DIR": "inductor"})
            prepared = PreparedProblem() if purpose else None
            with os.fdopen(request_end, encoding="utf-8") as requests:
                while self._answer_in_fork(request, directory, prepared):
                    os.write(report_end, _WAITS)
                    self.token, request, directory = _take_over(requests.readline(), directory)
            os.write(report_end, _ENDS)
        finally:
            # Whatever happens, a fork must never return into its parent's loop.
            _EXIT(0)

    def _answer_in_fork(
        self, request: Request, directory: RunDirectory, prepared: PreparedProblem | None
    ) -> bool:
        """Report on a request; return whether this process can take the next one."""
        report: Message
        try:
            if isinstance(request, RunRequest):
                report = execute_run(request, directory, self.machine, self.tell, prepared)
            else:
                report = inspection.execute_inspection(request, directory, self.machine, self.tell)
        except Exception as error:  # noqa: BLE001  (unexpected: our own failure)
            traceback.print_exc()
            report = failed_request(request, "supervisor", f"{type(error).__name__}: {error}")
        self.tell(report)
        return isinstance(report, RunReport) and prepared is not None and prepared.is_usable(report)

    def leave(self) -> NoReturn:
        """End every process beneath this one, then this one; the status says if all ended."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.process.pid, signal.SIGKILL)
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            self.machine.launcher.close()
        has_survivors = not linux.end_descendants(self.machine.launcher.end_s_max)
        if self.process is not None and self.process.directory is not self.directory:
            self.process.directory.leave()
        if self.directory is not None:
            self.directory.leave()
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
    )
    for descriptor in machine.device_lock:
        os.set_inheritable(descriptor, False)
    lines = RequestLines(sys.stdin.fileno())
    server = SupervisorServer(
        machine,
        overrides,
        channel,
        lines,
        Path(options["folder"]),
        spares=options.get("spares", SPARES),
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
    source = Path(request.source)
    is_built = bool(detect_language(source.name)) or names_extensions(source.read_bytes())
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


def execute_run(
    request: RunRequest,
    directory: RunDirectory,
    machine: Machine,
    tell: Tell,
    prepared: PreparedProblem | None = None,
) -> RunReport:
    """Execute one run in this process, by our harness or by the problem's own program.

    `prepared` is what the runs of this process share, if there are several. No worker of the run is
    left when this returns.
    """
    began = time.monotonic()
    usage: dict[str, float] = {}
    try:
        run: Run
        if request.mode == DUEL:
            run = DuelRun(request, directory, machine, tell)
        elif directory.problem.main:
            run = ProgramRun(request, directory, machine, tell)
        else:
            run = StagedRun(request, directory, machine, tell, prepared)
        try:
            report = run.execute()
        finally:
            usage = run.worker_teams.usage() | {"device_wait_s": run.device_turn.waited_s}
    except tuple(_FAILURE_CODES) as error:
        failure_code = next(
            code for kind, code in _FAILURE_CODES.items() if isinstance(error, kind)
        )
        report = failed_run(failure_code, messages.make_printable(str(error)))
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
