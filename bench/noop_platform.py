"""The platform that is measured, no-op agents beside it, and what its processes cost."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx

from bench.noop_agent import enrolment, names
from shared.bus_keys.authority import Authority
from shared.bus_keys.login import BusLogin
from shared.bus_keys.permissions import MAINTENANCE
from shared.problem_folders import read_problem_files

ROOT = Path(__file__).parent.parent
PROBLEM, GPU = "identity", "H100"
# The problem of kernels that do a known amount of work.
WORK = ROOT / "bench" / "work"
# A kernel of that problem, which no-op agents pass at once.
SOURCE = "def custom_kernel(data):\n    data[-1].copy_(data[0])\n    return data[-1]\n"
UP_S_MAX = 90.0
DOWN_S_MAX = 60.0
# The folder of a platform that `python -m bench --smoke` has started for all benchmarks.
SHARED = "WARPBOARD_BENCH_PLATFORM"
EDGE_TOKEN = "a-token-for-the-bench"  # noqa: S105 - nobody's
SETTINGS = {
    # Repeated runs of a podium are no part of what is measured.
    "WARPBOARD_RANKER_CONFIRMATIONS": "false",
    "WARPBOARD_RANKER_RETIMES": "false",
    "WARPBOARD_INGEST_EDGE_TOKEN": EDGE_TOKEN,
    "WARPBOARD_GPU_AGENT_QUIET_WAIT_S": "0",
}
STEP_S = 0.1
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


class Platform:
    """A platform that runs in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def url(self) -> str:
        """The public address."""
        return str(self._state()["url"])

    def _state(self) -> dict[str, Any]:
        state: dict[str, Any] = json.loads((self.folder / "state.json").read_text())
        return state

    def pids(self) -> dict[str, int]:
        """The processes by name."""
        return {row["name"]: row["pid"] for row in self._state()["processes"]}

    def environ(self, name: str) -> dict[str, str]:
        """What a service was told at its start."""
        raw = Path(f"/proc/{self.pids()[name]}/environ").read_text()
        return dict(line.split("=", 1) for line in raw.split("\0") if "=" in line)

    @property
    def bus_login(self) -> BusLogin:
        """How to log in to the bus with the rights of all services."""
        url = self.environ("scheduler")["WARPBOARD_SCHEDULER_NATS_URL"]
        return BusLogin(url, str(Authority(self.keys).credentials_path(MAINTENANCE)))

    @property
    def keys(self) -> Path:
        """The folder of the bus's keys."""
        return self.folder / "keys"

    def has_free_agent(self, http: httpx.Client) -> bool:
        """Whether the platform's own agent is free."""
        try:
            items = http.get(f"{self.url}/v1/agents").json()["items"]
        except (OSError, KeyError, ValueError, httpx.HTTPError):
            return False
        return any(item["is_free"] for item in items)

    @property
    def operator(self) -> dict[str, str]:
        """What an operator's request says of them."""
        token = self.environ("ingest")["WARPBOARD_INGEST_OPERATOR_TOKEN"]
        return {"Authorization": f"Bearer {token}", "Warpboard-Operator": "bench"}

    def publish(self, folder: Path) -> None:
        """Publish one of the repository's problems by the name of its folder."""
        slug = folder.name
        files = [("files", one) for one in read_problem_files(folder).items()]
        url = f"{self.url}/v1/problems"
        data = {"slug": slug, "unchecked": "`make problems` checks it"}
        answer = httpx.post(url, data=data, files=files, headers=self.operator, timeout=30)
        answer.raise_for_status()

    def agents(self, count: int, prefix: str) -> "subprocess.Popen[bytes]":
        """A process of so many no-op agents, each enrolled."""
        with httpx.Client(base_url=self.url, headers=self.operator) as http:
            return start_agents(http, self.bus_login.url, self.keys, count, prefix)


@contextmanager
def running_platform(agents: int = 0) -> Iterator[Platform]:
    """Yield a platform with PROBLEM published and `agents` no-op agents.

    It is a new one, unless `python -m bench --smoke` has started one for all benchmarks.
    """
    with ExitStack() as stack:
        shared = os.environ.get(SHARED)
        platform = Platform(Path(shared)) if shared else stack.enter_context(_new_platform())
        if agents:
            stack.callback(stop, platform.agents(agents, "noop"))
        yield platform


def start_agents(
    operator: httpx.Client, nats_url: str, keys: Path, count: int, prefix: str
) -> "subprocess.Popen[bytes]":
    """A process of so many no-op agents, each enrolled by the operator of a platform."""
    for name in names(prefix, count):
        path = f"/v1/admin/agents/{name}/enroll"
        operator.post(path, json=enrolment(name)).raise_for_status()
    told = {"NATS_URL": nats_url, "KEYS": str(keys)}
    told |= {"COUNT": str(count), "NAMES": prefix, "GPU": GPU}
    environ = os.environ | {f"WARPBOARD_NOOP_{key}": value for key, value in told.items()}
    command = [sys.executable, "-m", "bench.noop_agent"]
    return subprocess.Popen(command, env=environ, cwd=ROOT, start_new_session=True)


@contextmanager
def _new_platform() -> Iterator[Platform]:
    """Run `warpboard up` in an empty folder until the end, with PROBLEM published."""
    with TemporaryDirectory() as home, ExitStack() as stack:
        platform = Platform(Path(home, "bench"))
        command = [sys.executable, "-m", "warpboard", "up", "--folder", str(platform.folder)]
        process = subprocess.Popen(
            command,
            env=os.environ | SETTINGS,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        stack.callback(stop, process)
        until = time.monotonic() + UP_S_MAX
        with httpx.Client(timeout=5) as http:
            while not platform.has_free_agent(http):
                if process.poll() is not None or time.monotonic() > until:
                    raise SystemExit("the platform did not start: run `warpboard up` and look")
                time.sleep(STEP_S)
        platform.publish(ROOT / "problems" / PROBLEM)
        yield platform


def stop(process: "subprocess.Popen[bytes]") -> None:
    """Ask a process to end, and kill it when it does not."""
    process.terminate()
    try:
        process.wait(DOWN_S_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(DOWN_S_MAX)


def cpu_s(pid: int) -> float:
    """The processor time that a process and its living children have taken."""
    return sum(own_cpu_s(process) for process in [pid, *_children(pid)])


def own_cpu_s(pid: int) -> float:
    """The processor time that a process has taken, 0 if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / TICKS_A_SECOND


def _children(pid: int) -> list[int]:
    try:
        said = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [int(one) for one in said]


def machine_cpu_s() -> float:
    """Return the processor time that everything on this machine has taken.

    Boxes end without a parent that would count them, so this is the cost of a run on a machine that
    does nothing else.
    """
    user, nice, system = Path("/proc/stat").read_text().split()[1:4]
    return (int(user) + int(nice) + int(system)) / TICKS_A_SECOND


def peak_mib(pid: int) -> float:
    """The most memory that a process has had so far."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return 0.0


def load() -> str:
    """What else the machine does: the load of the last minute over the processors."""
    return f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"


def spent(pids: Mapping[str, int]) -> dict[str, float]:
    """The processor time of each named process until now."""
    return {name: cpu_s(pid) for name, pid in pids.items()}
