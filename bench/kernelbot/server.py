"""KernelBot's API server, backend and database, with launchers that run on this machine.

`python server.py CHECKOUT PORT RUNNER_PYTHON`, by a Python with KernelBot's dependencies and with
KernelBot's `src` on PYTHONPATH. Its own code is not changed. GPU type T4 is this machine's CPU;
on L4 every submission passes at once. Settings are KernelBot's: DATABASE_URL, DISABLE_SSL,
ADMIN_TOKEN, PROBLEM_DEV_DIR. Users `bench0` to `bench31` exist.
"""

import asyncio
import datetime as dt
import json
import os
import sys
from enum import Enum
from pathlib import Path
from typing import Any

import uvicorn
import yoyo
from kernelbot.api.main import app, init_api, init_background_submission_manager
from kernelbot.env import env
from libkernelbot.backend import KernelBackend
from libkernelbot.background_submission_manager import BackgroundSubmissionManager
from libkernelbot.run_eval import CompileResult, EvalResult, FullResult, RunResult, SystemInfo

USERS = 32
LINE_BYTES_MAX = 2**24
RUNNER = Path(__file__).parent / "runner.py"
LocalGpu = Enum("LocalGpu", {"T4": "T4"})
NoopGpu = Enum("NoopGpu", {"L4": "L4"})
PROVIDER = "github"
STAGES = {
    "test": ("test",),
    "benchmark": ("benchmark",),
    "leaderboard": ("test", "benchmark", "leaderboard"),
    "private": ("test", "benchmark", "leaderboard"),
}
STATISTICS = {"runs": 100, "mean": 1e6, "std": 1e4, "err": 1e3, "best": 9e5, "worst": 1.1e6}


class LocalLauncher:
    """Runs KernelBot's evaluation in a local process, one submission after the other."""

    name, gpus = "local", LocalGpu

    def __init__(self, python: str) -> None:
        self._python = python
        self._turn = asyncio.Lock()
        self._runner: asyncio.subprocess.Process | None = None

    async def run_submission(self, config: dict[str, Any], _gpu: Any, _status: Any) -> Any:
        """Evaluate a submission."""
        async with self._turn:
            runner = self._runner or await self.start()
            assert runner.stdin is not None
            assert runner.stdout is not None
            runner.stdin.write(json.dumps(config).encode() + b"\n")
            line = await runner.stdout.readline()
        return _decode(json.loads(line))

    async def start(self) -> asyncio.subprocess.Process:
        """Start the process that evaluates."""
        # KernelBot starts `python3`.
        path = f"{Path(self._python).parent}{os.pathsep}{os.environ['PATH']}"
        self._runner = await asyncio.create_subprocess_exec(
            self._python,
            str(RUNNER),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=LINE_BYTES_MAX,
            env={**os.environ, "PATH": path, "OMP_NUM_THREADS": "1"},
        )
        return self._runner


class NoopLauncher:
    """Says that every submission has passed."""

    name, gpus = "noop", NoopGpu

    async def run_submission(self, config: dict[str, Any], _gpu: Any, _status: Any) -> Any:
        """Return what a runner would, at once."""
        runs = {stage: _passed(stage) for stage in STAGES[config["mode"]]}
        return FullResult(success=True, error="", runs=runs, system=SystemInfo())


def _passed(stage: str) -> EvalResult:
    now = dt.datetime.now(dt.UTC)
    result: dict[str, str] = {"check": "pass"}
    if stage == "test":
        result |= {"test-count": "1", "test.0.spec": "size: 1", "test.0.status": "pass"}
    else:
        result |= {"benchmark-count": "1", "benchmark.0.spec": "size: 1"}
        result |= {f"benchmark.0.{name}": str(value) for name, value in STATISTICS.items()}
    run = RunResult(
        success=True,
        passed=True,
        command="",
        stdout="",
        stderr="",
        exit_code=0,
        duration=0.0,
        result=result,
    )
    return EvalResult(start=now, end=now, compilation=None, run=run, profile=None)


def _decode(result: dict[str, Any]) -> FullResult:
    """Return the result that the runner sent as JSON."""
    runs = {}
    for name, run in result["runs"].items():
        compilation = run["compilation"] and CompileResult(**run["compilation"])
        runs[name] = EvalResult(
            start=dt.datetime.fromisoformat(run["start"]),
            end=dt.datetime.fromisoformat(run["end"]),
            compilation=compilation,
            run=RunResult(**run["run"]),
            profile=None,
        )
    system = SystemInfo(**result["system"])
    return FullResult(success=result["success"], error=result["error"], runs=runs, system=system)


def _migrate(checkout: Path) -> None:
    database = yoyo.get_backend(env.DATABASE_URL)
    migrations = yoyo.read_migrations(str(checkout / "src" / "migrations"))
    database.apply_migrations(database.to_apply(migrations))


def _create_users(backend: KernelBackend) -> None:
    with backend.db as db:
        for number in range(USERS):
            user = f"bench{number}"
            db.init_user_from_cli(user, PROVIDER)
            db.create_user_from_cli(str(number + 1), user, user, PROVIDER)


async def serve(checkout: Path, port: int, python: str) -> None:
    """Serve until a signal, as KernelBot's `--api-only` does."""
    _migrate(checkout)
    backend = KernelBackend(env=env)
    _create_users(backend)
    local = LocalLauncher(python)
    await local.start()
    for launcher in (local, NoopLauncher()):
        backend.register_launcher(launcher)
    init_api(backend)
    manager = init_background_submission_manager(BackgroundSubmissionManager(backend))
    await manager.start()
    config = uvicorn.Config(app, host="127.0.0.1", port=port, limit_concurrency=None)
    try:
        await uvicorn.Server(config).serve()
    finally:
        await manager.stop()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))
