"""Starts boxes by bubblewrap and exec: a second builder of the same walls, a fresh interpreter."""

import os
import socket
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import NoReturn

from harness.sandbox import bubblewrap, channel, interpreter, jail, linux, privileges, ranks
from harness.sandbox.forked import Forked
from harness.sandbox.jail import Crew
from harness.sandbox.keeper import Way
from harness.sandbox.settings import replace_environment
from harness.sandbox.spec import Spec

_RECORD_BYTES_MAX = 4096


class Executed(Forked):
    """The Launcher whose workers are started by exec, so that nothing of us is in their memory."""

    way = "exec"

    def __init__(self, walls: Sequence[str] = ()) -> None:
        """Returns before it is ready; `walls` is what no box may lack, whoever asks."""
        super().__init__(walls, imports=())


def way_into(spec: Spec, crew: Crew) -> Way:
    """By bubblewrap, or where there are no namespaces by our own walls; by exec in both cases."""
    if spec.has_namespaces:
        return Wrapped(spec, crew)
    imported = interpreter.guest_files()
    return jail.Jail(spec, replace(crew, serve=lambda _: _become(spec), imported=imported))


def _become(spec: Spec) -> NoReturn:
    replace_environment(spec.environment)
    program = ranks.command(spec.path)
    os.execv(program[0], program)  # noqa: S606  (a program of our own)


class Wrapped:
    """The way into a box by bubblewrap."""

    def __init__(self, spec: Spec, crew: Crew) -> None:
        self._spec = spec
        self._crew = crew
        # Where bubblewrap notes that the program inside was started, and how it ended.
        self._record = os.memfd_create("record")
        self.kept: Sequence[int] = (self._record,)

    def prepare(self) -> None:
        """Bubblewrap makes its own namespaces. Errors: OSError, if there is none."""
        bubblewrap.require(self._spec)

    def begin(self) -> NoReturn:
        """Becomes bubblewrap. Errors: OSError."""
        crew, spec = self._crew, self._spec
        count = len(crew.controls)
        moved = jail.moved([*crew.controls, crew.output, crew.report.fileno(), self._record])
        crew.report.detach()
        output, report, record = moved[count:]
        controls = range(ranks.CONTROL, ranks.CONTROL + count)
        for place, control in zip(controls, moved, strict=False):
            os.dup2(control, place)
        linux.silence_streams()
        for stream in (1, 2):
            os.dup2(output, stream)
        linux.keep_descriptors([*controls, report, record])
        os.set_inheritable(record, True)
        privileges.die_first()
        # An ordinary user's other processes count until the box has a namespace of users.
        privileges.limit(spec, has_processes=os.geteuid() == 0)
        told = socket.socket(fileno=report)
        program = bubblewrap.command(spec, _inside(spec, controls), record)
        channel.tell(told, {"built": count})
        os.execve(program[0], program, spec.environment)  # noqa: S606  (a program of our own)

    def fault(self, code: int) -> str:
        """Bubblewrap notes how the program inside ended, unless it never came to be."""
        noted = os.pread(self._record, _RECORD_BYTES_MAX, 0)
        if code < 0 or b"exit-code" in noted:
            return ""
        return f"bubblewrap could not build the box, and left with status {code}"


def _inside(spec: Spec, controls: Sequence[int]) -> list[str]:
    """The worker; behind a starter that reaps, for several of them and where it is to be pid 1."""
    is_root = os.geteuid() == 0
    if len(controls) == 1 and is_root:
        return ranks.command(spec.path)
    is_limited = is_root or "pids" in spec.walls
    processes_max = 0 if is_limited else spec.limits.processes_max
    numbers = map(str, (processes_max, *controls))
    return [sys.executable, *ranks.FLAGS, ranks.__file__, spec.path, *numbers]
