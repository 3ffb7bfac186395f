"""A daemon of NVIDIA's MPS for the experiments; it stops only what it started."""

import os
import subprocess
import time
from pathlib import Path
from typing import Self

from harness.devices.cuda import host
from harness.devices.device import DeviceFault

START_S_MAX = 10.0


class MpsDaemon:
    """Our own daemon, with pipes and logs in its own folder. Raises DeviceFault.

    A box only needs this folder bound. `environment` is what each client must set before it opens
    its context, including the referee's process.
    """

    def __init__(self, folder: Path, pipes: Path | None = None) -> None:
        """`pipes` is another folder for the pipes, such as that where a harness looks for one."""
        self._folders = {pipes or folder / "pipe": 0o777, folder / "log": 0o755}
        pipe_folder, log_folder = self._folders
        self.is_for_all = True
        self.environment = {
            "CUDA_MPS_PIPE_DIRECTORY": str(pipe_folder),
            "CUDA_MPS_LOG_DIRECTORY": str(log_folder),
        }

    def __enter__(self) -> Self:
        """Start the daemon for several uids, without caches that a client could keep."""
        for path, mode in self._folders.items():
            path.mkdir(parents=True, exist_ok=True)
            path.chmod(mode)
        environment = {
            **self.environment,
            "PATH": os.defpath,
            "CUDA_DEVICE_DEFAULT_PERSISTING_L2_CACHE_PERCENTAGE_LIMIT": "0",
        }
        try:
            self._start(environment, "-multiuser-server")
        except subprocess.CalledProcessError:
            # Older versions lack this option: then referee and worker must have the same uid.
            self.is_for_all = False
            self._start(environment)
        ends_at = time.monotonic() + START_S_MAX
        while not self.is_running():
            if time.monotonic() > ends_at:
                raise DeviceFault("the MPS daemon was started but does not answer")
            time.sleep(0.05)
        return self

    def _start(self, environment: dict[str, str], *options: str) -> None:
        command = [host.find_control(), "-d", *options]
        try:
            subprocess.run(
                command, env=environment, check=True, capture_output=True, timeout=START_S_MAX
            )
        except subprocess.CalledProcessError as error:
            if options:
                raise
            message = (error.stderr or error.stdout).decode(errors="replace").strip()
            raise DeviceFault(f"the MPS daemon does not start: {message}") from error
        except (OSError, subprocess.SubprocessError) as error:
            raise DeviceFault(f"the MPS daemon does not start: {error}") from error

    def __exit__(self, *_: object) -> None:
        """Stop the daemon, its server and their processes."""
        host.ask_daemon("quit", self.environment)
        ends_at = time.monotonic() + host.ANSWER_S_MAX
        while self.is_running() and time.monotonic() < ends_at:
            time.sleep(0.05)

    def is_running(self) -> bool:
        """Return whether the daemon answers."""
        return host.ask_daemon("get_default_active_thread_percentage", self.environment) is not None
