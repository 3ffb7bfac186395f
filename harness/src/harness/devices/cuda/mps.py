"""NVIDIA's service that lets two contexts run at once; we stop only a daemon that we started."""

import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Self

from harness.devices.device import DeviceFault

CONTROL = "nvidia-cuda-mps-control"
FOLDERS = ("/usr/bin", "/usr/local/nvidia/bin", "/usr/local/bin")
ANSWER_S_MAX = 10.0
START_S_MAX = 10.0

# Where a daemon that nobody configured listens.
PIPES = "/tmp/nvidia-mps"  # noqa: S108  (the vendor's own place)


class Mps:
    """A daemon of ours, with pipes and logs in a folder of its own. Errors: DeviceFault.

    The folder is all that a box needs bound; `environment` is what each client must have set
    before it opens its context, the referee's process too.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.is_for_all = True
        self.environment = {
            "CUDA_MPS_PIPE_DIRECTORY": str(folder / "pipe"),
            "CUDA_MPS_LOG_DIRECTORY": str(folder / "log"),
        }

    def __enter__(self) -> Self:
        """Starts the daemon for several uids, with no cache that a client could keep for itself."""
        for name in ("pipe", "log"):
            path = self._folder / name
            path.mkdir(parents=True, exist_ok=True)
            path.chmod(0o777 if name == "pipe" else 0o755)
        environment = {
            **self.environment,
            "PATH": os.defpath,
            "CUDA_DEVICE_DEFAULT_PERSISTING_L2_CACHE_PERCENTAGE_LIMIT": "0",
        }
        try:
            self._start(environment, "-multiuser-server")
        except subprocess.CalledProcessError:
            # Older ones know no such word: then referee and worker must be of one uid.
            self.is_for_all = False
            self._start(environment)
        until = time.monotonic() + START_S_MAX
        while not self.is_running():
            if time.monotonic() > until:
                raise DeviceFault("the MPS daemon was started and does not answer")
            time.sleep(0.05)
        return self

    def _start(self, environment: dict[str, str], *options: str) -> None:
        command = [_control(), "-d", *options]
        try:
            subprocess.run(
                command, env=environment, check=True, capture_output=True, timeout=START_S_MAX
            )
        except subprocess.CalledProcessError as error:
            if options:
                raise
            said = (error.stderr or error.stdout).decode(errors="replace").strip()
            raise DeviceFault(f"the MPS daemon does not start: {said}") from error
        except (OSError, subprocess.SubprocessError) as error:
            raise DeviceFault(f"the MPS daemon does not start: {error}") from error

    def __exit__(self, *_: object) -> None:
        """Stops the daemon, and with it its server and their processes."""
        ask("quit", self.environment)
        until = time.monotonic() + ANSWER_S_MAX
        while self.is_running() and time.monotonic() < until:
            time.sleep(0.05)

    def is_running(self) -> bool:
        """Whether the daemon answers."""
        return ask("get_default_active_thread_percentage", self.environment) is not None


def is_running(pipes: str = PIPES) -> bool:
    """Whether a daemon, whoever started it, answers on these pipes."""
    if not (Path(pipes) / "control").exists():
        return False
    question = "get_default_active_thread_percentage"
    return ask(question, {"CUDA_MPS_PIPE_DIRECTORY": pipes}) is not None


def ask(question: str, environment: dict[str, str]) -> str | None:
    """The daemon's answer, or None if none answers in time."""
    try:
        answer = subprocess.run(
            [_control()],
            input=f"{question}\n",
            env={"PATH": os.defpath, **environment},
            capture_output=True,
            text=True,
            check=True,
            timeout=ANSWER_S_MAX,
        )
    except (OSError, subprocess.SubprocessError, DeviceFault):
        return None
    return answer.stdout.strip()


def join(environment: dict[str, str]) -> None:
    """Makes this process a client: to be done before it opens a context, which reads it once."""
    for name, value in environment.items():
        os.putenv(name, value)


def _control() -> str:
    path = shutil.which(CONTROL, path=os.pathsep.join((*FOLDERS, os.defpath)))
    if path is None:
        raise DeviceFault(f"{CONTROL} is not installed on this machine")
    return path
