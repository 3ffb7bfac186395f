"""One job to the harness, one report back; the agent's only meeting with the harness."""

import asyncio
import json
import shutil
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from gpu_agent.domain import Began, News, Outcome, StageOver, Step
from harness import entry
from harness.entry import Progress, RunReport, RunRequest, StageFinished, Started
from shared.blobs import Blobs
from shared.errors import Failed
from shared.events import CaseResult, JobAssigned

SOURCE = "submission.py"
Told = Callable[[News], Awaitable[None]]


@dataclass(frozen=True)
class Files:
    """What a run left behind."""

    log: bytes
    samples: bytes


@dataclass(frozen=True)
class HarnessRuns:
    """Runs jobs in the isolated harness; `folder` holds problems by digest and runs in hand."""

    blobs: Blobs
    folder: Path
    version: str = entry.VERSION
    level: str = entry.LEVEL

    def environment(self) -> dict[str, str]:
        """What a run's times depend on here."""
        return entry.environment()

    async def run(self, order: JobAssigned, told: Told) -> tuple[Outcome, Files]:
        """Run one job to its end. Errors: Missing, Failed; cancellation kills it."""
        try:
            problem = await self._problem(order.problem_digest)
            source = await self.blobs.get(order.source.digest)
            home = await asyncio.to_thread(self._home, source)
            try:
                return await self._evaluate(order, problem, home, told)
            finally:
                shutil.rmtree(home, ignore_errors=True)
        except OSError as error:
            raise Failed(f"the agent's disk does not work: {error}") from error

    async def _evaluate(
        self, order: JobAssigned, problem: Path, home: Path, told: Told
    ) -> tuple[Outcome, Files]:
        out = home / "out"
        request = RunRequest(str(problem), str(home / SOURCE), order.mode, str(out))
        report = await entry.evaluate(request, lambda message: told(_news(message)))
        return _outcome(report), Files(_read(out / "log.txt"), _read(out / "samples.json"))

    def _home(self, source: bytes) -> Path:
        """A run's own folder, with the submission in it."""
        runs = self.folder / "runs"
        runs.mkdir(parents=True, exist_ok=True)
        home = Path(tempfile.mkdtemp(dir=runs))
        (home / "out").mkdir()
        (home / SOURCE).write_bytes(source)
        return home

    async def _problem(self, digest: str) -> Path:
        """The folder of a problem version, fetched once, complete or absent."""
        folder = self.folder / "problems" / digest
        if folder.is_dir():
            return folder
        manifest = await self.blobs.get(digest)
        files = {name: await self.blobs.get(one) for name, one in _files(manifest).items()}
        await asyncio.to_thread(_lay_out, folder, files | {"manifest.json": manifest})
        return folder

    def sweep(self) -> None:
        """Remove what a predecessor left; its problems too, which a power cut may have damaged."""
        for name in ("runs", "problems"):
            if (self.folder / name).exists():
                shutil.rmtree(self.folder / name)


def _lay_out(folder: Path, files: dict[str, bytes]) -> None:
    """Write the files beside the folder, then give them its name."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(dir=folder.parent, prefix="fresh-"))
    for name, data in files.items():
        target = fresh / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    fresh.rename(folder)


def _files(manifest: bytes) -> dict[str, str]:
    files: dict[str, str] = json.loads(manifest)["files"]
    return files


def _read(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


def _news(message: Started | Progress | StageFinished) -> News:
    if isinstance(message, Started):
        return Began(message.harness, message.level, message.tier, message.key_commit)
    if isinstance(message, Progress):
        return Step(message.stage, message.case, message.done, message.total)
    return StageOver(message.stage, message.verdict, message.took_s, message.cases)


def _outcome(report: RunReport) -> Outcome:
    cases = [
        CaseResult(
            name=case.name,
            stage=case.stage,
            verdict=case.verdict,
            message=case.message,
            is_hidden=case.is_hidden,
            time_us=case.time_us,
            interval_us=case.interval_us,
            samples=case.samples,
        )
        for case in report.cases
    ]
    return Outcome(
        verdict=report.verdict,
        stage=report.stage,
        reason=report.reason,
        took_s=report.took_s,
        key=report.key,
        cases=cases,
        log_head=report.log_head,
        log_tail=report.log_tail,
        failure_code=report.failure_code,
    )
