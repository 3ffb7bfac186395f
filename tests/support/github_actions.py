"""As much of GitHub's API as a launcher calls; dispatched workflows may be run for real."""

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import yaml
from fastapi import FastAPI, Request
from fastapi.responses import (
    JSONResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)

from scheduler.launcher.runners import WORKFLOW_TITLE
from shared.http import serve
from tests.support.platform import ROOT
from tests.support.waits import eventually, find_free_ports

TOKEN = "a-token"
REPOSITORY = "/repos/team/kernels/actions"
WORKFLOW = ROOT / "deploy" / "github" / "warpboard-agent.yml"
EXPRESSION = re.compile(r"\$\{\{ (.+?) \}\}")
CHOICE = re.compile(r"(\S+) == '(\w+)' && (\S+) \|\| (\S+)")


class Machines:
    """Where a cloud runs agents: processes with this environment, each with a log in a folder."""

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        self.folder = folder
        self.environ = environ
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self, command: list[str], environ: Mapping[str, str]) -> subprocess.Popen[bytes]:
        """Start a command as on a fresh machine, without settings of ours but the given ones."""
        own = {name: text for name, text in os.environ.items() if not name.startswith("WARPBOARD")}
        own["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{own['PATH']}"
        with self.log(len(self.processes)).open("wb") as log:
            process = subprocess.Popen(
                command,
                env=own | dict(self.environ) | dict(environ),
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,
            )
        self.processes.append(process)
        return process

    def log(self, number: int) -> Path:
        """The log of a process."""
        return self.folder / f"{number}.log"

    def end(self) -> None:
        """Stop all processes."""
        for process in self.processes:
            if process.poll() is None:
                process.terminate()
        for process in self.processes:
            process.wait(30)


def run_workflow(
    inputs: Mapping[str, str], key: str, machines: Machines
) -> subprocess.Popen[bytes]:
    """Run the last step of the ready workflow, after the installation."""
    context = {f"inputs.{name}": text for name, text in inputs.items()}
    context["secrets.WARPBOARD_CREDENTIAL_KEY"] = key
    context["runner.temp"] = str(machines.folder / f"temp-{len(machines.processes)}")
    step = yaml.safe_load(WORKFLOW.read_text())["jobs"]["agent"]["steps"][-1]
    environ = {
        name: EXPRESSION.sub(lambda match: _evaluate(match[1], context), text)
        for name, text in step["env"].items()
    }
    return machines.start(["bash", "-e", "-c", step["run"]], environ)


def _evaluate(expression: str, context: Mapping[str, str]) -> str:
    """Return the value of an expression: a name, or one text if a name has a value, else another.

    >>> _evaluate("inputs.gpu == 'CPU' && 'cpu' || 'cuda'", {"inputs.gpu": "CPU"})
    'cpu'
    """
    choice = CHOICE.fullmatch(expression)
    if choice is not None:
        name, value, yes, no = choice.groups()
        return _evaluate(yes if context[name] == value else no, context)
    return expression[1:-1] if expression.startswith("'") else context[expression]


@dataclass
class GitHub:
    """The part of GitHub that a launcher calls; `runs` are those of its workflow.

    With `machines`, the ready workflow runs there, with the credential key as its secret; the next
    `held` runs never find a machine. While `answers` is not set, it dispatches and does not answer,
    and its logs do not end. While `lists_runs` is false, none can be found by its title.
    """

    url: str
    runs: list[dict[str, Any]] = field(default_factory=list)
    inputs: list[dict[str, str]] = field(default_factory=list)
    cancelled: list[int] = field(default_factory=list)
    machines: Machines | None = None
    key: str = ""
    held: int = 0
    lists_runs: bool = True
    searches: int = 0
    answers: asyncio.Event = field(default_factory=asyncio.Event)
    processes: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def launcher_settings(self) -> dict[str, str]:
        """What a launcher needs to start agents here, except for its credential key."""
        return {
            "KIND": "github",
            "GITHUB_TOKEN": TOKEN,
            "GITHUB_REPOSITORY": "team/kernels",
            "GITHUB_API_URL": self.url,
            "POLL_S": "0.2",
        }

    def look(self) -> None:
        """See which runs have ended on their machines."""
        for run in self.runs:
            process = self.processes.get(run["id"])
            if process is not None and (code := process.poll()) is not None:
                run |= {"status": "completed", "conclusion": "failure" if code else "success"}

    def finish(self, conclusion: str) -> None:
        """End the newest run."""
        self.runs[-1] |= {"status": "completed", "conclusion": conclusion}


def _application(github: GitHub) -> FastAPI:
    app = FastAPI()

    @app.middleware("http")
    async def authorize(request: Request, call_next: Any) -> Response:
        is_known = request.headers.get("authorization") == f"Bearer {TOKEN}"
        if request.url.path.startswith("/repos") and not is_known:
            return JSONResponse({"message": "Bad credentials"}, 401)
        response: Response = await call_next(request)
        return response

    @app.post(REPOSITORY + "/workflows/{workflow}/dispatches", status_code=204)
    async def dispatch(workflow: str, request: Request) -> Response:
        body = await request.json()
        if not workflow.endswith("agent.yml") or set(body) != {"ref", "inputs"}:
            return JSONResponse({"message": "Not Found"}, 404)
        github.inputs.append(body["inputs"])
        id_ = 100 + len(github.runs)
        run = {
            "id": id_,
            "display_title": WORKFLOW_TITLE.format(id=body["inputs"]["instance"]),
            "status": "queued",
            "conclusion": None,
            "html_url": f"https://github.com/team/kernels/actions/runs/{id_}",
        }
        github.runs.append(run)
        if github.held:
            github.held -= 1
        elif github.machines is not None:
            process = run_workflow(body["inputs"], github.key, github.machines)
            github.processes[id_] = process
        await github.answers.wait()
        return Response(status_code=204)

    @app.get(REPOSITORY + "/workflows/{workflow}/runs")
    async def runs(event: str) -> dict[str, Any]:
        assert event == "workflow_dispatch"
        github.searches += 1
        github.look()
        return {"workflow_runs": github.runs[::-1] if github.lists_runs else []}

    _serve_runs(app, github)
    _serve_logs(app, github)
    return app


def _serve_runs(app: FastAPI, github: GitHub) -> None:
    @app.get(REPOSITORY + "/runs/{run}")
    async def read_run(run: int) -> dict[str, Any]:
        github.look()
        return github.runs[run - 100]

    @app.get(REPOSITORY + "/runs/{run}/jobs")
    async def jobs(run: int) -> dict[str, Any]:
        steps = [
            {"name": "Install the agent", "conclusion": "success"},
            {"name": "Run one job", "conclusion": "failure"},
        ]
        return {"jobs": [{"id": run + 1000, "conclusion": "failure", "steps": steps}]}

    @app.post(REPOSITORY + "/runs/{run}/cancel", status_code=202)
    async def cancel(run: int) -> dict[str, Any]:
        github.cancelled.append(run)
        if run in github.processes:
            github.processes[run].terminate()
        return {}


def _serve_logs(app: FastAPI, github: GitHub) -> None:
    @app.get(REPOSITORY + "/jobs/{job}/logs")
    async def logs(job: int) -> Response:
        return RedirectResponse(f"/elsewhere/{job}.txt", 302)

    @app.get("/elsewhere/{name}")
    async def text(name: str) -> Response:
        if github.machines is not None:
            process = github.processes[int(name.partition(".")[0]) - 1000]
            number = github.machines.processes.index(process)
            return PlainTextResponse(github.machines.log(number).read_text())

        async def lines() -> AsyncIterator[str]:
            yield f"the log of {name}\n" + 1000 * "-"
            await github.answers.wait()
            yield "\nRuntimeError: no GPU\n"

        return StreamingResponse(lines())


@asynccontextmanager
async def open_github(machines: Machines | None = None, key: str = "") -> AsyncIterator[GitHub]:
    """Serve the imitation on a free port."""
    (port,) = find_free_ports(1)
    server, stopping = (
        GitHub(f"http://127.0.0.1:{port}", machines=machines, key=key),
        asyncio.Event(),
    )
    server.answers.set()
    serving = asyncio.create_task(serve(_application(server), "127.0.0.1", port, stopping))
    try:
        await eventually(lambda: _is_up(server.url))
        yield server
    finally:
        server.answers.set()
        stopping.set()
        await serving
        if machines is not None:
            await asyncio.to_thread(machines.end)


async def _is_up(url: str) -> bool:
    try:
        async with httpx.AsyncClient() as http:
            await http.get(url)
    except httpx.TransportError:
        return False
    return True
