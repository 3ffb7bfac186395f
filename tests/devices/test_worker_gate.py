"""On a GPU, a call lies between a gate and an end word, whichever clock is used."""

import socket
from pathlib import Path
from typing import Any

from harness.worker import protocol
from harness.worker.cuda import LocalCase
from harness.worker.server import WorkerServer

NONCE = bytes(range(protocol.NONCE_BYTES))


class LocallyTimedCase(LocalCase):
    """A locally timed case, on a machine that has no device for it."""

    def __init__(self, said: list[str]) -> None:
        self._said = said

    def gate(self, nonce: bytes) -> None:
        """Before the call."""
        self._said.append(f"gate {nonce.hex()[:4]}")

    def release(self, nonce: bytes) -> bool:
        """After it."""
        self._said.append(f"release {nonce.hex()[:4]}")
        return False

    def settle(self) -> None:
        """At last."""
        self._said.append("settle")


def test_a_case_that_is_timed_locally_is_gated_too() -> None:
    said: list[str] = []
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    guest: Any = WorkerServer(theirs, Path("/nowhere/submission.py"))
    guest._load = lambda _case: lambda _scalars: said.append("call")
    guest._open_case(LocallyTimedCase(said))
    answer = guest._answer(protocol.GO + NONCE, guest._run)
    assert answer == protocol.DONE + NONCE
    assert said == ["gate 0001", "call", "release 0001", "settle"]
    ours.close()
    theirs.close()
