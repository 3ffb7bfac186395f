"""More real agents beside a platform's own, as an operator adds them, and what is done to them."""

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from harness.sandbox.keeper import SPARE_NAME
from shared.servers.process import Launch, kill, run_steps, stop_steps
from tests.support.people import HONEST, add_problem
from tests.support.platform import QUICK, Running
from tests.support.processes import descendants, name_of
from tests.support.waits import find_free_ports, until

LOCAL = "local"
# Those that tests hire; each has an account on the bus from the start.
HIRED = ("member", "other", "slow", "evil")
SETTINGS = QUICK | {"WARPBOARD_AGENTS": " ".join(HIRED)}
DOWN_S_MAX = 20.0
KEY_S_MAX = 60.0
WHY = {"reason": "a system test"}
ZYGOTE = "harness.zygote"
# A problem of one small case, and a kernel that takes as long on a busy machine as on an idle one.
TASK = """
files:
  - {name: "submission.py", source: "@SUBMISSION@"}
  - {name: "reference.py", source: "reference.py"}
lang: "py"
config: {main: "eval.py"}
description: "Copy it."
tests: [{size: 64, seed: 1}]
benchmarks: [{size: 64, seed: 3}]
test_timeout: 60
benchmark_timeout: 60
ranked_timeout: 20
gpus: ["CPU"]
"""
STEADY = "import time\n" + HONEST.replace("    source,", "    time.sleep(0.01)\n    source,")


class Crew:
    """The agents of one platform: its own, `local`, and those that were hired."""

    def __init__(self, running: Running) -> None:
        self.running = running
        self.hired: dict[str, subprocess.Popen[bytes]] = {}
        token = (running.folder / "operator_token").read_text().strip()
        headers = {"Authorization": f"Bearer {token}", "Warpboard-Operator": "olga"}
        self.http = httpx.Client(base_url=running.url, headers=headers, timeout=30)

    def close(self) -> None:
        """Let all go that were hired."""
        for process in self.hired.values():
            run_steps(stop_steps(process, signal.SIGTERM, DOWN_S_MAX))
        self.http.close()

    def hire(self, *names: str, module: str = "gpu_agent", **settings: str) -> None:
        """Enrol and start agents like the platform's own; returns once all are free.

        Another `module` is a program like the agent's.
        """
        for name in names:
            environ = self._environ(name, settings)
            command = self.running.command(module)
            said = subprocess.run(
                [*command, "key"], env=environ, capture_output=True, timeout=KEY_S_MAX, check=True
            )
            key = {"sign_key": said.stdout.decode().strip(), "owner": "tests"}
            self.admin("post", f"agents/{name}/enroll", **key)
            log = self.running.folder.parent / f"{name}.log"
            self.hired[name] = Launch(command, log, environ=environ).start()
        until(lambda: self.are_free(*names))

    def _environ(self, name: str, settings: dict[str, str]) -> dict[str, str]:
        told = {
            "ID": name,
            "NATS_CREDENTIALS": self.running.bus_login(f"agent-{name}").credentials,
            "DATA": str(self.running.folder / name),
            "OPS_LISTEN": f"127.0.0.1:{find_free_ports(1)[0]}",
        }
        given = {f"WARPBOARD_GPU_AGENT_{key}": value for key, value in (told | settings).items()}
        return self.running.environ("gpu-agent") | given

    def staff(self, *names: str) -> None:
        """Make `local` and these the only agents, and wait until all are free and run nothing."""
        for name in self.hired.keys() - {*names}:
            self.kill(name)
        self.hire(*(name for name in names if name not in self.hired))
        present = (LOCAL, *names)
        until(lambda: self.pool().get("agents_online") == len(present) and self.are_free(*present))
        # The self-test of a new agent may still be ending.
        until(lambda: not any(self.workers(name) for name in present))

    def kill(self, name: str) -> None:
        """SIGKILL a hired agent."""
        kill(self.hired.pop(name))

    def pid(self, name: str) -> int:
        """The process of an agent."""
        pid = self.running.pid("gpu-agent") if name == LOCAL else self.hired[name].pid
        assert pid is not None, f"agent {name} is not there"
        return pid

    def workers(self, name: str) -> list[int]:
        """The processes that load an agent's submission: the last forks of its zygote.

        Those of a spare box have none.
        """
        found = descendants(self.pid(name), ZYGOTE)
        parents = set(found.values())
        spares = {pid for pid in found if name_of(pid) == SPARE_NAME}
        leaves = {one: above for one, above in found.items() if above in found}
        return [
            one
            for one, above in leaves.items()
            if one not in parents and found[above] not in spares
        ]

    def admin(self, method: str, path: str, **said: Any) -> None:
        """An operator's act, which must be done."""
        body = said if method == "put" else said | WHY
        answer = self.http.request(method, f"/v1/admin/{path}", json=body)
        assert answer.is_success, answer.text

    def agent(self, name: str) -> dict[str, Any]:
        """An agent as everybody sees it; empty until it is seen."""
        items = self.http.get("/v1/agents").json()["items"]
        return next((one for one in items if one["id"] == name), {})

    def are_free(self, *names: str) -> bool:
        """Whether all of these agents can take a job."""
        return all(self.agent(name).get("is_free") for name in names)

    def pool(self) -> dict[str, Any]:
        """The queue of the GPU type CPU."""
        pools = self.http.get("/v1/queue").json()["pools"]
        return next((one for one in pools if one["gpu"] == "CPU"), {})


@contextmanager
def crew_of(running: Running, slug: str, problem: dict[str, str]) -> Iterator[Crew]:
    """Start a platform with these SETTINGS at least, and a problem of these files."""
    folder = running.folder.parent
    (folder / slug).mkdir()
    for name, text in problem.items():
        (folder / slug / name).write_text(text)
    crew: Crew | None = None
    try:
        crew = Crew(running.up())
        add_problem(running.url, folder / slug)
        yield crew
    finally:
        if crew is not None:
            crew.close()
        if running.process is not None and running.process.poll() is None:
            running.stop()
    assert running.left() == []
