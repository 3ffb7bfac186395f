"""Boxes with small submissions in them, and their results."""

import contextlib
import json
import os
import select
import socket
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from harness.sandbox.box import BoxSpec, Limits, SandboxFault
from harness.sandbox.launcher import Box, ZygoteLauncher
from harness.sandbox.probe import Isolation

SUBMISSIONS = Path(__file__).parent / "submissions"
HONEST = "def custom_kernel(data): return data\n"
READY = b"R"
_ANSWER_BYTES_MAX = 64 * 1024
_PRINTED_BYTES_MAX = 1024 * 1024


@dataclass
class RunningBox:
    """One box in use: its control sockets, and the pipe that its workers print to."""

    box: Box
    controls: list[socket.socket]
    output: int

    def answer(self, rank: int = 0, within_s: float = 30.0) -> bytes:
        """Return the next message of a rank, b"" if it ended or sent nothing in time."""
        control = self.controls[rank]
        ready, _, _ = select.select([control.fileno(), self.box.pidfd], [], [], within_s)
        if control.fileno() not in ready:
            return b""
        try:
            return control.recv(_ANSWER_BYTES_MAX)
        except ConnectionError:
            return b""

    def leave(self) -> None:
        """Close the control sockets, which makes an honest worker end."""
        for control in self.controls:
            control.close()

    def end(self) -> bool:
        """End the box, whatever its workers do."""
        self.leave()
        return self.box.end()

    def printed(self) -> str:
        """Return what was printed so far."""
        output = b""
        os.set_blocking(self.output, False)
        while len(output) < _PRINTED_BYTES_MAX:
            try:
                chunk = os.read(self.output, _ANSWER_BYTES_MAX)
            except BlockingIOError:
                break
            if not chunk:
                break
            output += chunk
        return output.decode(errors="replace")


@dataclass
class BoxFactory:
    """Starts boxes: a launcher, a machine's walls and a folder for submissions."""

    launcher: ZygoteLauncher
    isolation: Isolation
    folder: Path
    running_boxes: list[RunningBox] = field(default_factory=list)

    def close(self) -> None:
        """End every box."""
        for running_box in self.running_boxes:
            running_box.end()
            os.close(running_box.output)
        self.running_boxes.clear()

    def spec(self, source: str = HONEST, **changes: Any) -> BoxSpec:
        """Return a spec with every wall of this machine, for this source."""
        submission, scratch = (self.folder / name for name in ("submission", "scratch"))
        for folder in (submission, scratch):
            folder.mkdir(exist_ok=True)
            folder.chmod(0o777)
        (submission / "kernel.py").write_text(source)
        spec = BoxSpec(
            walls=self.isolation.walls,
            limits=Limits(),
            submission=str(submission),
            main="kernel.py",
            scratch=str(scratch),
        )
        spec = replace(spec, **changes)
        homes = dict.fromkeys(("HOME", "TMPDIR"), spec.home)
        environment = {"PATH": os.defpath, "LANG": "C.UTF-8", **homes}
        return replace(spec, environment=spec.environment or environment)

    def start_box(self, spec: BoxSpec) -> RunningBox:
        """Start a box; its workers are told to set up."""
        pairs = [
            socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(spec.ranks)
        ]
        read, write = os.pipe()
        controls = [own_end for own_end, _ in pairs]
        try:
            box = self.launcher.start(spec, [worker_end.fileno() for _, worker_end in pairs], write)
        except SandboxFault:
            for control in controls:
                control.close()
            os.close(read)
            raise
        finally:
            os.close(write)
            for _, worker_end in pairs:
                worker_end.close()
        self.running_boxes.append(RunningBox(box, controls, read))
        for control in controls:
            # A box that could not be built may have ended; its status says so.
            with contextlib.suppress(BrokenPipeError):
                control.send(b"S{}")
        return self.running_boxes[-1]

    def run_submission(self, file_name: str, **changes: Any) -> Any:
        """Return what a file of the folder `submissions` prints at its import, as JSON."""
        running_box = self.start_box(self.spec((SUBMISSIONS / file_name).read_text(), **changes))
        answer = running_box.answer()
        running_box.end()
        printed = running_box.printed()
        assert answer == READY, printed + answer.decode(errors="replace")
        return json.loads(printed)
