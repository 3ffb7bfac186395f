"""New credentials for every process of a running platform: no process ends and nothing is lost."""

import subprocess
import sys

import pytest

from tests.support.people import Person
from tests.support.platform import Running
from tests.support.waits import until

pytestmark = [pytest.mark.platform, pytest.mark.long, pytest.mark.server]
USERS = {
    "ingest": "ingest",
    "ranker": "ranker",
    "scheduler": "scheduler",
    "agent-local": "gpu-agent",
}
SOURCE = b"from task import input_t, output_t\n\n\ndef custom_kernel(data: input_t) -> output_t:\n"
COPY = b"    x, y = data\n    y[...] = x\n    return y\n"
COMMAND_S_MAX = 60


def run_keys(running: Running, *words: str) -> str:
    """Run a command of the keys of a platform, and return what it printed."""
    command = [sys.executable, "-m", "warpboard", "server", "keys", *words]
    done = subprocess.run(
        [*command, "--folder", str(running.folder)],
        capture_output=True,
        timeout=COMMAND_S_MAX,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def reconnects(running: Running, service: str) -> int:
    """How often a process has logged that it came back."""
    log = running.folder / "logs" / f"{service}.log"
    return log.read_text(errors="replace").count("reconnected to NATS")


@pytest.mark.parametrize("user", USERS)
def test_a_process_goes_on_with_new_credentials(platform: Running, user: str, ada: Person) -> None:
    service = USERS[user]
    pid, before = platform.pid(service), reconnects(platform, service)
    number = ada.submit(SOURCE + COPY, problem="identity", mode="test")
    run_keys(platform, "rotate", user)
    assert "the servers know it" in run_keys(platform, "retire", user)
    until(lambda: reconnects(platform, service) == before + 1)
    assert ada.end(number)["outcome"] == "passed"
    assert platform.pid(service) == pid
