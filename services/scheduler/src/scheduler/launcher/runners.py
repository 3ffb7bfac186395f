"""Starts agents: as processes of this machine, or as runs of a GitHub Actions workflow.

Source: GitHub's REST API, version 2022-11-28: workflow dispatches, workflow runs, jobs and logs.
"""

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx

from scheduler.launcher.service import End, LostAnswer, Request
from shared.errors import Failed
from shared.servers.process import Launch, run_steps, stop_steps, tail
from shared.signing import CREDENTIAL_SETTINGS

OUTPUT_LENGTH_MAX = 500
AGENT = "WARPBOARD_GPU_AGENT"
STOP_S_MAX = 12.0
# The agent's exit codes: a verdict, no job, and a job without a verdict, which the log explains.
ENDS = {0: "", 3: "it left without a job", 4: ""}
GITHUB_API_VERSION = "2022-11-28"
REQUEST_S_MAX = 20.0
RUNS_MAX = 100
ANSWER_BYTES_MAX = 8 * 1024 * 1024
LOG_LENGTH_MAX = 1000
# A gateway gave up; the server behind it may have done what it was asked for.
GATEWAY_FAILURES = (502, 504)
# The name of a run in the workflow file.
WORKFLOW_TITLE = "warpboard agent {id}"


class LocalRunner:
    """Agents as processes with this environment, which end with the launcher.

    Each has its data below a folder. Those with a place in `gpu_indexes` time that GPU.
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
        log = tail(self._log(request))[-OUTPUT_LENGTH_MAX:]
        return End(ENDS.get(code, f"the agent ended with code {code}: {log}"))

    def forget(self, request: Request) -> None:
        """Forget its process; see the port."""
        self._processes.pop(request.id, None)

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


class GitHubRunner:
    """Agents as runs of one workflow of a repository, found again by the title of the run."""

    def __init__(
        self, http: httpx.AsyncClient, workflow: str, ref: str, poll_s: float = 5.0
    ) -> None:
        self._http = http
        self._workflow, self._ref = workflow, ref
        self.poll_s = poll_s
        # Those of this process; None until GitHub lists the run.
        self._runs: dict[str, int | None] = {}

    async def start(self, request: Request, credential: str) -> None:
        """Start a run of the workflow; see the port."""
        inputs = {"instance": request.id, "gpu": request.gpu, "credential": credential}
        path = f"actions/workflows/{self._workflow}/dispatches"
        self._runs[request.id] = None
        await self._request("POST", path, {"ref": self._ref, "inputs": inputs})

    async def has_started(self, request: Request) -> bool:
        """Return whether GitHub lists a run of the request; see the port."""
        return await self._find_run(request) is not None

    async def find_end(self, request: Request) -> End | None:
        """Return how a run ended, with the end of its log; see the port."""
        run = await self._find_run(request)
        if run is None or run["status"] != "completed":
            return None
        if run["conclusion"] == "success":
            return End("", run["html_url"])
        reason = await self._explain_failure(run["id"])
        return End(f"the workflow ended with {run['conclusion']}{reason}", run["html_url"])

    def forget(self, request: Request) -> None:
        """Forget its run; see the port."""
        self._runs.pop(request.id, None)

    async def stop(self, request: Request) -> None:
        """Cancel a run; see the port."""
        run = await self._find_run(request)
        if run is None and request.id in self._runs:
            raise Failed("GitHub does not list its run yet")
        if run is not None and run["status"] != "completed":
            await self._request("POST", f"actions/runs/{run['id']}/cancel")
        self.forget(request)

    async def close(self) -> None:
        """Close the connections; runs go on."""
        await self._http.aclose()

    async def _find_run(self, request: Request) -> Any:
        """Return the run of a request, None until GitHub lists it."""
        if (id_ := self._runs.get(request.id)) is not None:
            return await self._read(f"actions/runs/{id_}")
        path = f"actions/workflows/{self._workflow}/runs"
        query = f"?event=workflow_dispatch&per_page={RUNS_MAX}"
        runs = (await self._read(path + query))["workflow_runs"]
        title = WORKFLOW_TITLE.format(id=request.id)
        run = next((run for run in runs if run["display_title"] == title), None)
        if run is not None:
            self._runs[request.id] = run["id"]
        return run

    async def _explain_failure(self, run: int) -> str:
        """Return the failed step of a run and the end of its log, as far as they can be read."""
        try:
            jobs = (await self._read(f"actions/runs/{run}/jobs"))["jobs"]
            job = next((job for job in jobs if job["conclusion"] != "success"), None)
            if job is None:
                return ""
            steps = [step["name"] for step in job["steps"] if step["conclusion"] == "failure"]
            path = f"actions/jobs/{job['id']}/logs"
            log = await self._request("GET", path, bytes_max=LOG_LENGTH_MAX)
        except (Failed, KeyError) as error:
            return f"; its log cannot be read: {error}"
        step = f" in step {steps[0]!r}" if steps else ""
        return f"{step}: {log.decode(errors='replace').strip()}"

    async def _read(self, path: str) -> Any:
        """Return the JSON of an answer. Raises Failed."""
        try:
            return json.loads(await self._request("GET", path))
        except ValueError as error:
            raise Failed(f"GitHub's answer to GET {path} is not JSON") from error

    async def _request(
        self, method: str, path: str, body: object = None, bytes_max: int = ANSWER_BYTES_MAX
    ) -> bytes:
        """Send a request below the repository, and return at most the last bytes of the answer.

        Raises LostAnswer if GitHub may have done it, else Failed with GitHub's message.
        """
        answer = b""
        try:
            # The client's own limit is one for each part of an answer.
            async with (
                asyncio.timeout(REQUEST_S_MAX),
                self._http.stream(method, path, json=body) as response,
            ):
                async for part in response.aiter_bytes():
                    answer = (answer + part)[-bytes_max:]
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise Failed(f"GitHub cannot be reached: {error!r}") from error
        except (httpx.HTTPError, TimeoutError) as error:
            raise LostAnswer(f"GitHub did not answer to {method} {path}: {error!r}") from error
        if response.is_success:
            return answer
        try:
            message = str(json.loads(answer)["message"])
        except (ValueError, KeyError, TypeError):
            message = answer.decode(errors="replace")[:LOG_LENGTH_MAX]
        failure = LostAnswer if response.status_code in GATEWAY_FAILURES else Failed
        raise failure(f"GitHub answered {response.status_code} to {method} {path}: {message}")


def connect_github(api_url: str, repository: str, token: str) -> httpx.AsyncClient:
    """Return a client for a repository such as `owner/name`."""
    headers = {
        "Accept": "application/vnd.github+json",
        "Authorization": f"Bearer {token}",
        "X-GitHub-Api-Version": GITHUB_API_VERSION,
    }
    return httpx.AsyncClient(
        base_url=f"{api_url.rstrip('/')}/repos/{repository}/",
        headers=headers,
        # Logs are a redirect to another host, which gets no token.
        follow_redirects=True,
        timeout=REQUEST_S_MAX,
    )
