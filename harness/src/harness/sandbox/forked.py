"""Starts boxes by a zygote: a process that has imported torch already and forks one for each."""

import json
import os
import secrets
import select
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

from harness.sandbox import channel, processes
from harness.sandbox.box import SandboxFault
from harness.sandbox.kept import KeptBox
from harness.sandbox.spec import Spec, to_json

_FLAGS = ("-I", "-B", "-u", "-X", "faulthandler")
_ENVIRONMENT = {
    "PATH": os.defpath,
    "LANG": "C.UTF-8",
    "OMP_NUM_THREADS": "1",
    # A CUDA build of torch must ask for devices without starting the driver, or no fork has one.
    "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
}
# The first answer waits for the imports, and one that clears for all that must be killed.
_ANSWER_S_MAX = 120.0
_END_S_MAX = processes.END_S_MAX + 5.0


class Forked:
    """The Launcher that forks a zygote, which the first process to make this one starts.

    Whoever uses it needs no privilege, for the zygote keeps them.
    """

    way = "fork"

    def __init__(self, walls: Sequence[str] = (), imports: Sequence[str] = ("torch",)) -> None:
        """Returns before the zygote is ready.

        `walls` is what no box may lack, whoever asks, since who asks may have been taken over;
        `imports` are what each worker finds imported.
        """
        options = {"walls": list(walls), "imports": list(imports)}
        self._socket, theirs = channel.pair()
        with theirs:
            arguments = (str(theirs.fileno()), str(os.getpid()), json.dumps(options))
            self._process = subprocess.Popen(
                [sys.executable, *_FLAGS, "-m", "harness.zygote", *arguments],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                cwd="/",
                env=_ENVIRONMENT,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The zygote's."""
        return self._process.pid

    def start(self, spec: Spec, controls: Sequence[int], output: int) -> KeptBox:
        """A box whose walls are up. Errors: SandboxFault."""
        assert len(controls) == spec.ranks
        ours, theirs = channel.pair()
        try:
            wish = {"start": to_json(spec), "way": self.way}
            _, descriptors = self._ask(wish, [theirs.fileno(), output, *controls])
        except SandboxFault:
            ours.close()
            raise
        finally:
            theirs.close()
        box = KeptBox(ours, descriptors[0])
        try:
            box.settle(spec.ranks)
        except SandboxFault:
            box.end()
            raise
        return box

    def counts(self) -> dict[str, int]:
        """The zygote's open descriptors, boxes and processes. Errors: SandboxFault."""
        said, _ = self._ask({"counts": True})
        return dict(said["counts"])

    def clear(self) -> None:
        """Ends every box that was started and is left. Errors: SandboxFault."""
        said, _ = self._ask({"clear": True})
        if not said["is_clear"]:
            raise SandboxFault("a box could not be emptied")

    def close(self) -> None:
        """Ends every box, then the zygote."""
        self._socket.close()
        try:
            self._process.wait(_END_S_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(_END_S_MAX)

    def _ask(
        self, wish: dict[str, Any], descriptors: Sequence[int] = ()
    ) -> tuple[dict[str, Any], list[int]]:
        token = secrets.token_hex(8)
        try:
            channel.tell(self._socket, {"token": token, **wish}, descriptors)
        except OSError as error:
            raise SandboxFault(f"the zygote is gone: {error}") from error
        until = time.monotonic() + _ANSWER_S_MAX
        while select.select([self._socket], [], [], max(0.0, until - time.monotonic()))[0]:
            heard = channel.hear(self._socket)
            if heard is None:
                raise SandboxFault("the zygote is gone")
            said, came = heard
            # What an earlier user asked, and did not live to hear, is nobody's any more.
            if said["token"] == token:
                return _unless_fault(said, came)
            channel.close_all(came)
        raise SandboxFault(f"the zygote did not answer within {_ANSWER_S_MAX} s")


def _unless_fault(said: dict[str, Any], came: list[int]) -> tuple[dict[str, Any], list[int]]:
    if "fault" in said:
        channel.close_all(came)
        raise SandboxFault(said["fault"])
    return said, came
