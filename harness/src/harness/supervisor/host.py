"""Stays warm from run to run: imports torch once, keeps a launcher, and forks a run per request.

It never runs an author's code and never touches a GPU, so whatever a run does to its own process
is gone with it. When this process ends, every process beneath it ends.
"""

import contextlib
import gc
import importlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from types import FrameType
from typing import IO, Any, NoReturn

from harness import code
from harness.messages import (
    LEFT_BEHIND,
    LEVELS,
    LINE_BYTES_MAX,
    READY,
    Message,
    Request,
    RunRequest,
    request_from_line,
    to_line,
    unanswered,
)
from harness.problem import ProblemFault
from harness.sandbox import linux, processes
from harness.sandbox.box import Launcher, SandboxFault
from harness.sandbox.executed import Executed
from harness.sandbox.forked import Forked
from harness.sandbox.probe import probe
from harness.supervisor import confine, inspection, run, verdict
from harness.supervisor.defences import Defences
from harness.supervisor.home import Home, prepare
from harness.supervisor.run import Machine
from harness.supervisor.state import State
from harness.toolchains.cache import Cache
from harness.toolchains.plan import survey

_LOOK_MS = 1000
_END_S = 5.0
_AUTHOR_WALL_SHARE = 3
# An author's code may put another in its place.
_EXIT = os._exit


@dataclass
class Host:
    """The warm process: where runs happen, where it is heard, and the run in hand.

    `token` begins each of its lines: what an author's code writes there is no line of a later run.
    """

    machine: Machine
    channel: IO[str]
    folder: Path
    state: State
    token: str = ""
    home: Home | None = None
    child: int = 0

    def hear(self, line: str) -> None:
        """One line of the entry: the token of a request, and the request."""
        self.token, _, said = line.partition(" ")
        self.answer(request_from_line(said))

    def tell(self, message: Message) -> None:
        """One line to the entry."""
        # Should an author's code have left half a line, it ends here.
        self.channel.write(f"\n{self.token} {to_line(message)}")
        self.channel.flush()

    def answer(self, request: Request) -> None:
        """One request, up to its report, which is said here if the run could not say it."""
        level, missing = self.machine.level, ", ".join(self.machine.missing)
        # An inspection starts no worker.
        wanted = request.level_min if isinstance(request, RunRequest) else "none"
        if LEVELS.index(level) < LEVELS.index(wanted):
            reason = f"isolation level {level} is below {wanted}; missing: {missing}"
            self.tell(unanswered(request, "sandbox", reason))
            return
        try:
            self.home = prepare(request, self.folder, self.state.history(request.device))
        except ProblemFault as fault:
            self.tell(unanswered(request, "problem_fault", verdict.printable(str(fault))))
            return
        except OSError as error:
            self.tell(unanswered(request, "supervisor", f"the run could not be laid out: {error}"))
            return
        if isinstance(request, RunRequest):
            self._run(request, self.home)
            return
        before = processes.descendants(os.getpid())
        self._run(request, self.home)
        # What an author's code left behind has no box that would end it.
        processes.end_others(before)

    def _run(self, request: Request, home: Home) -> None:
        before = set(processes.descendants(os.getpid()))
        heard, said = os.pipe()
        self.child = os.fork()
        if self.child == 0:
            os.close(heard)
            self._be_a_run(request, home, said)
        os.close(said)
        endless = self._endless(request, home, heard)
        _, status = os.waitpid(self.child, 0)
        self.child = 0
        # What an author's code left behind has no box that would end it, and holds what runs hold.
        if not processes.end_others(before):
            self.leave()
        os.close(heard)
        # A run that died may have left a box behind.
        try:
            self.machine.launcher.clear()
        except SandboxFault:
            self.leave()
        with contextlib.suppress(OSError, ValueError):
            self.state.keep(request.device, home.history())
        home.leave()
        self.home = None
        # Whether it has reported its author's code may have said; the first report is what counts.
        ended = verdict.of_status(os.waitstatus_to_exitcode(status)).message
        self.tell(_unreported(request, home.mark.what, endless, ended))

    def _endless(self, request: Request, home: Home, heard: int) -> str:
        """Waits for the run's end; why it had to be ended, if the author's code never ends.

        The author's budget is processor time, for others may keep the core busy; and so much more
        of the wall. What has reported, or is asked for no more since another is, has little time
        to end.
        """
        limit_s, reason = home.problem.budgets_s["author"], ""
        if not isinstance(request, RunRequest):
            limit_s = min(limit_s, request.call_s)
        pidfd = os.pidfd_open(self.child)
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        ends_at = inf
        while not poll.poll(_LOOK_MS):
            used_s, wall_s = home.mark.runs_s(processes.cpu_s(self.child))
            if used_s > limit_s or wall_s > _AUTHOR_WALL_SHARE * limit_s:
                reason = f"{home.mark.what} did not end within {limit_s:g} s"
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            if ends_at == inf and select.select((heard, sys.stdin), (), (), 0)[0]:
                ends_at = time.monotonic() + _END_S
            if time.monotonic() > ends_at:
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        os.close(pidfd)
        return reason

    def _be_a_run(self, request: Request, home: Home, said: int) -> NoReturn:
        """The fork's whole life."""
        try:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            # What is asked next is not for whoever's code runs here.
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            here = os.open(home.folder, os.O_PATH | os.O_DIRECTORY)
            folders = (here, home.out, self.machine.cache.folder)
            confine.give_up(
                folders,
                leaves_network=self.machine.hides_network,
                has_gpu=request.device != "cpu",
            )
            _die_with(os.getppid(), signal.SIGKILL)
            os.chdir(home.folder)
            self.tell(self._report(request, home))
            os.write(said, b".")
        finally:
            # Whatever happens, a fork must never return into the loop above it.
            _EXIT(0)

    def _report(self, request: Request, home: Home) -> Message:
        try:
            if isinstance(request, RunRequest):
                return run.execute(request, home, self.machine, self.tell)
            return inspection.execute(request, home, self.machine)
        except Exception as error:  # noqa: BLE001  (what is unforeseen is the supervisor's failure)
            return unanswered(request, "supervisor", f"{type(error).__name__}: {error}")

    def leave(self) -> NoReturn:
        """Ends every process beneath this one, then this one, by a status that says if all did."""
        if self.child:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.child, signal.SIGKILL)
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            self.machine.launcher.close()
        has_left = not processes.end_descendants()
        if self.home is not None:
            self.home.leave()
        if has_left:
            sys.stderr.write("something of a run could not be killed\n")
            sys.stderr.flush()
        os._exit(LEFT_BEHIND if has_left else 0)


def serve(parent: int, options: dict[str, Any]) -> None:
    """Answers requests until standard input ends, SIGTERM comes or the parent ends."""
    linux.become_reaper()
    linux.become_unreadable()
    channel = _channel()
    state = State(Path(options.get("state") or options["folder"]))
    machine = _machine(options, state.cache)
    host = Host(machine, channel, Path(options["folder"]), state)

    def leave(_signal: int, _frame: FrameType | None) -> None:
        host.leave()

    signal.signal(signal.SIGTERM, leave)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _die_with(parent, signal.SIGTERM)
    _warm_up()
    channel.write(f"{READY}\n")
    channel.flush()
    for line in iter(lambda: sys.stdin.readline(LINE_BYTES_MAX), ""):
        host.hear(line)
    host.leave()


def _machine(options: dict[str, Any], cache: Cache) -> Machine:
    found = probe()
    if level := options.get("level"):
        found = found.lowered(level)
    walls = found.minus(options.get("without", ())).walls
    kinds: dict[str, Callable[[Sequence[str]], Launcher]]
    kinds = {"zygote": Forked, "bubblewrap": Executed}
    # A box that lacks one of these is refused, whoever asks for it.
    launcher = kinds[options.get("launcher", "zygote")](walls)
    workshop = survey(ncu=options.get("ncu", ""))
    return Machine(launcher, walls, workshop, cache, Defences(**options.get("defences", {})))


def _channel() -> IO[str]:
    """Where the entry listens. What the author's code prints must not get there."""
    channel = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return channel


def _warm_up() -> None:
    """What every run needs is imported or made once, and kept out of the collector's sight."""
    gc.disable()
    code.digest()
    torch: Any = importlib.import_module("torch")
    torch.set_num_threads(1)
    gc.freeze()
    gc.enable()


def _die_with(parent: int, by: signal.Signals) -> None:
    """This process ends when its parent does, whose pid it was told while it lived."""
    try:
        above = os.pidfd_open(parent)
    except ProcessLookupError:
        os._exit(1)
    linux.die_with(above, by)
    os.close(above)


def _unreported(request: Request, author: str, endless: str, ended: str) -> Message:
    """Of a run that died: whether the author's code was its end, endless or not."""
    if endless:
        return unanswered(request, "problem_fault", verdict.printable(endless))
    if author:
        reason = f"the author's code ended the run in {author}: {ended}"
        return unanswered(request, "problem_fault", verdict.printable(reason))
    return unanswered(request, "supervisor", f"the run ended without a report: {ended}")
