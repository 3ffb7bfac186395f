"""KernelBot's own server on this machine, and submissions to it."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import httpx
import yaml

from bench.noop_platform import ROOT, STEP_S, UP_S_MAX, WORK, stop
from shared.servers.postgresql import Postgres
from warpboard.processes.services import choose_ports

CHECKOUT, PYTHON = "WARPBOARD_KERNELBOT", "WARPBOARD_KERNELBOT_PYTHON"
FOLDER = ROOT / "bench" / "kernelbot"
ADMIN = "a-token-for-the-bench"
# Its names of this machine's CPU and of a runner that returns at once.
CPU, NOOP = "T4", "L4"
LEADERBOARD = f"{WORK.name}-dev"
MODES = {"test": "test", "benchmark": "benchmark", "ranked": "leaderboard"}
END_S_MAX = 180.0
IMPORT_S_MAX = 60.0
USERS = 32
TASK = """
files:
  - {{name: "submission.py", source: "@SUBMISSION@"}}
  - {{name: "cuda_on_cpu.py", source: "{shim}"}}
  - {{name: "reference.py", source: "reference.py"}}
  - {{name: "utils.py", source: "{examples}/utils.py"}}
  - {{name: "eval.py", source: "{examples}/eval.py"}}
lang: "py"
config: {{main: "eval.py"}}
description: "The work problem of the benchmarks."
tests: {tests}
benchmarks: {benchmarks}
ranking_by: "last"
gpus: ["{cpu}", "{noop}"]
"""


class Installation(NamedTuple):
    """A checkout of KernelBot and a Python with its dependencies."""

    checkout: Path
    python: str


def find_kernelbot() -> Installation | str:
    """Return the installation that the environment names, or why there is none."""
    checkout, python = os.environ.get(CHECKOUT), os.environ.get(PYTHON, sys.executable)
    if not checkout:
        return f"{CHECKOUT} does not name a checkout of gpu-mode/kernelbot"
    source = Path(checkout) / "src"
    if not (source / "kernelbot" / "api").is_dir():
        return f"{CHECKOUT}={checkout} is not a checkout of gpu-mode/kernelbot"
    command = [python, "-c", "import discord, fastapi, kernelguard, modal, psycopg2, yoyo"]
    imported = subprocess.run(command, capture_output=True, check=False, timeout=IMPORT_S_MAX)
    if imported.returncode != 0:
        missing = imported.stderr.decode().strip().rpartition("\n")[2]
        return f"{python} lacks a dependency of KernelBot ({missing}): set {PYTHON}"
    return Installation(Path(checkout).resolve(), python)


class KernelBot:
    """A KernelBot that runs here."""

    def __init__(self, url: str, pids: list[int]) -> None:
        self.url, self.pids = url, pids
        self.http = httpx.Client(base_url=url, timeout=END_S_MAX)

    def submit(self, source: str, mode: str) -> dict[str, Any]:
        """Submit a kernel, wait for the verdict, and return its public result."""
        answer = self.http.post(
            f"/{LEADERBOARD}/{CPU}/{MODES[mode]}",
            files={"file": ("kernel.py", source.encode())},
            headers={"X-Popcorn-Cli-Id": "bench0"},
        )
        answer.raise_for_status()
        result = read_result(answer.text)
        for run in result["runs"].values():
            assert run["run"]["passed"], run["run"]
        return result


def read_result(stream: str) -> dict[str, Any]:
    """Return the public result at the end of a stream of server-sent events."""
    data = stream.rpartition("data: ")[2]
    event = json.loads(data)
    assert event["status"] == "success", event
    result: dict[str, Any] = event["results"][0]
    assert result["success"], result["error"]
    return result


def count_samples(result: dict[str, Any], mode: str) -> int:
    """Return how many calls the score of a result is made of."""
    if mode == "test":
        return 0
    return int(float(result["runs"][MODES[mode]]["run"]["result"]["benchmark.0.runs"]))


@contextmanager
def running_kernelbot(installation: Installation) -> Iterator[KernelBot]:
    """Start Postgres and KernelBot's server with our problem, and stop both in the end."""
    with TemporaryDirectory() as home, ExitStack() as stack:
        folder = Path(home)
        folder.chmod(0o711)  # Postgres runs as nobody and must walk here.
        postgres = Postgres(folder / "postgres")
        dsn = postgres.start()
        stack.callback(postgres.stop)
        _write_problem(folder / "problems" / WORK.name, installation.checkout)
        port = choose_ports({}, ["kernelbot"])["kernelbot"]
        environ = {
            **os.environ,
            "DATABASE_URL": dsn,
            "DISABLE_SSL": "1",
            "ADMIN_TOKEN": ADMIN,
            "PROBLEM_DEV_DIR": str(folder / "problems"),
            "PYTHONPATH": str(installation.checkout / "src"),
        }
        command = [installation.python, str(FOLDER / "server.py"), str(installation.checkout)]
        log_path = folder / "server.log"
        with log_path.open("wb") as log:
            server = subprocess.Popen(
                [*command, str(port), sys.executable],
                env=environ,
                cwd=folder,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        stack.callback(stop, server)
        assert postgres.process is not None
        kernelbot = KernelBot(f"http://127.0.0.1:{port}", [server.pid, postgres.process.pid])
        _await_health(kernelbot, server, log_path)
        headers = {"Authorization": f"Bearer {ADMIN}"}
        answer = kernelbot.http.post(
            "/admin/leaderboards", json={"directory": WORK.name}, headers=headers
        )
        answer.raise_for_status()
        yield kernelbot


def _await_health(kernelbot: KernelBot, server: "subprocess.Popen[bytes]", log: Path) -> None:
    until = time.monotonic() + UP_S_MAX
    while True:
        try:
            kernelbot.http.get("/health").raise_for_status()
            return
        except httpx.TransportError:
            if server.poll() is not None or time.monotonic() > until:
                raise SystemExit(f"KernelBot did not start:\n{log.read_text()[-3000:]}") from None
        time.sleep(STEP_S)


def _write_problem(folder: Path, checkout: Path) -> None:
    """Write the problem that `bench/work` has, for KernelBot's own evaluation."""
    folder.mkdir(parents=True)
    reference = (WORK / "reference.py").read_text()
    cases = yaml.safe_load((WORK / "task.yml").read_text())
    (folder / "reference.py").write_text(f"import cuda_on_cpu\n{reference}")
    (folder / "task.yml").write_text(
        TASK.format(
            shim=FOLDER / "cuda_on_cpu.py",
            examples=checkout / "examples",
            tests=json.dumps(cases["tests"]),
            benchmarks=json.dumps(cases["benchmarks"]),
            cpu=CPU,
            noop=NOOP,
        )
    )
