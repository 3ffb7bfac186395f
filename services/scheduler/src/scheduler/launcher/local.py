"""Starts agents as processes of this machine, which end with the launcher."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from scheduler.launcher.service import End, Request
from shared.errors import Failed
from shared.servers.process import Launch, run_steps, stop_steps, tail
from shared.signing import CREDENTIAL_SETTINGS

AGENT = "WARPBOARD_GPU_AGENT"
STOP_S_MAX = 12.0
LOG_LENGTH_MAX = 500
# The agent's exit codes: a verdict, no job, and a job without a verdict, which the log explains.
ENDS = {0: "", 3: "it left without a job", 4: ""}


class LocalRunner:
    """Agents as processes with this environment; each has its data below a folder.

    Those with a place in `gpu_indexes` time that GPU.
    """

    poll_s = 0.2

    def __init__(
        self,
        folder: Path,
        environ: Mapping[str, str],
        credential_key: str,
        gpu_indexes: Mapping[str, int],
    ) -> None:
        self._folder = folder
        self._environ = environ
        self._credential_key = credential_key
        self._gpu_indexes = gpu_indexes
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    async def start(self, request: Request, credential: str) -> None:
        """Start an agent; see the port."""
        folder = self._folder / request.agent
        sealed, key = (f"{AGENT}_{name}" for name in CREDENTIAL_SETTINGS)
        environ = {
            f"{AGENT}_OPS_LISTEN": "127.0.0.1:0",
            **self._environ,
            f"{AGENT}_DATA": str(folder),
            sealed: credential,
            key: self._credential_key,
        }
        if (index := self._gpu_indexes.get(request.agent)) is not None:
            environ[f"{AGENT}_GPU_INDEX"] = str(index)
        command = (sys.executable, "-P", "-m", "gpu_agent", "--once")
        try:
            launch = Launch(command, self._log(request), environ=environ)
            self._processes[request.id] = launch.start()
        except OSError as error:
            raise Failed(f"no process: {error}") from error

    async def has_started(self, request: Request) -> bool:
        """Return whether its process is known: it ends with this one; see the port."""
        return request.id in self._processes

    async def find_end(self, request: Request) -> End | None:
        """Return how an agent ended; see the port."""
        process = self._processes.get(request.id)
        code = process.poll() if process is not None else None
        if code is None:
            return None
        del self._processes[request.id]
        log = tail(self._log(request))[-LOG_LENGTH_MAX:]
        return End(ENDS.get(code, f"the agent ended with code {code}: {log}"))

    async def stop(self, request: Request) -> None:
        """Stop an agent; see the port."""
        process = self._processes.pop(request.id, None)
        if process is not None:
            steps = stop_steps(process, signal.SIGTERM, STOP_S_MAX)
            await asyncio.to_thread(run_steps, steps)

    async def close(self) -> None:
        """Stop all agents at once; they return their jobs."""
        processes = list(self._processes.values())
        stops = [stop_steps(process, signal.SIGTERM, STOP_S_MAX) for process in processes]
        await asyncio.gather(*(asyncio.to_thread(run_steps, steps) for steps in stops))
        self._processes.clear()

    def _log(self, request: Request) -> Path:
        return self._folder / f"{request.agent}.log"
