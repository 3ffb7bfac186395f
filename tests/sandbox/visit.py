"""Boxes with small submissions in them, and what came of them."""

import contextlib
import json
import os
import select
import socket
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from harness.sandbox.box import Box, Launcher, SandboxFault
from harness.sandbox.probe import Isolation
from harness.sandbox.spec import Limits, Spec

GUESTS = Path(__file__).parent / "guests"
HONEST = "def custom_kernel(data): return data\n"
READY = b"R"
_ANSWER_BYTES_MAX = 64 * 1024
_PRINTED_BYTES_MAX = 1024 * 1024


@dataclass
class Visit:
    """One box in use: its control sockets, and the pipe that its workers print to."""

    box: Box
    controls: list[socket.socket]
    output: int

    def answer(self, rank: int = 0, within_s: float = 30.0) -> bytes:
        """The next message of a rank, b"" if it ended or said nothing in time."""
        control = self.controls[rank]
        ready, _, _ = select.select([control.fileno(), self.box.pidfd], [], [], within_s)
        if control.fileno() not in ready:
            return b""
        try:
            return control.recv(_ANSWER_BYTES_MAX)
        except ConnectionError:
            return b""

    def leave(self) -> None:
        """Closes the control sockets, upon which an honest worker ends."""
        for control in self.controls:
            control.close()

    def end(self) -> bool:
        """Ends the box, whatever its workers do."""
        self.leave()
        return self.box.end()

    def printed(self) -> str:
        """What was printed so far."""
        found = b""
        os.set_blocking(self.output, False)
        while len(found) < _PRINTED_BYTES_MAX:
            try:
                chunk = os.read(self.output, _ANSWER_BYTES_MAX)
            except BlockingIOError:
                break
            if not chunk:
                break
            found += chunk
        return found.decode(errors="replace")


@dataclass
class Lodge:
    """Where visits are made: a launcher, a machine's walls and a folder for submissions."""

    launcher: Launcher
    isolation: Isolation
    folder: Path
    visits: list[Visit] = field(default_factory=list)

    def close(self) -> None:
        """Ends every visit."""
        for visit in self.visits:
            visit.end()
            os.close(visit.output)
        self.visits.clear()

    def spec(self, source: str = HONEST, **changes: Any) -> Spec:
        """A spec with every wall that this machine has, for this source."""
        shown, scratch = (self.folder / name for name in ("submission", "scratch"))
        for one in (shown, scratch):
            one.mkdir(exist_ok=True)
            one.chmod(0o777)
        (shown / "kernel.py").write_text(source)
        spec = Spec(
            walls=self.isolation.walls,
            limits=Limits(),
            submission=str(shown),
            main="kernel.py",
            scratch=str(scratch),
        )
        spec = replace(spec, **changes)
        homes = dict.fromkeys(("HOME", "TMPDIR"), spec.home)
        environment = {"PATH": os.defpath, "LANG": "C.UTF-8", **homes}
        return replace(spec, environment=spec.environment or environment)

    def enter(self, spec: Spec) -> Visit:
        """A visit that has begun; its workers are told to set up."""
        pairs = [
            socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(spec.ranks)
        ]
        read, write = os.pipe()
        controls = [ours for ours, _ in pairs]
        try:
            box = self.launcher.start(spec, [theirs.fileno() for _, theirs in pairs], write)
        except SandboxFault:
            for control in controls:
                control.close()
            os.close(read)
            raise
        finally:
            os.close(write)
            for _, theirs in pairs:
                theirs.close()
        self.visits.append(Visit(box, controls, read))
        for control in controls:
            # A box that could not be built may be gone: its status says so.
            with contextlib.suppress(BrokenPipeError):
                control.send(b"S{}")
        return self.visits[-1]

    def told(self, guest: str, **changes: Any) -> Any:
        """What a submission of the folder `guests` prints at its import, which is JSON."""
        visit = self.enter(self.spec((GUESTS / guest).read_text(), **changes))
        answer = visit.answer()
        visit.end()
        printed = visit.printed()
        assert answer == READY, printed + answer.decode(errors="replace")
        return json.loads(printed)
