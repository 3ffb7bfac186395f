"""One job to the harness, one report back; the agent's only meeting with the harness."""

import asyncio
import json
import logging
import shutil
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path

from gpu_agent.domain import (
    Began,
    Machine,
    News,
    Outcome,
    Step,
    gpus_of,
)
from harness import entry
from harness.entry import (
    CaseReport,
    Harness,
    Progress,
    RunReport,
    RunRequest,
    StageFinished,
    Started,
)
from shared.blobs import BLOB_BYTES_MAX, Blobs
from shared.errors import Failed
from shared.events import (
    DUEL,
    HARNESS_CODE,
    CaseResult,
    DuelResult,
    JobAssigned,
    Mismatch,
    Missing,
    StageResult,
)
from shared.problems.languages import suffix

logger = logging.getLogger(__name__)

ARTEFACTS_MAX = 16
MIB = 1024**2
Told = Callable[[News], Awaitable[None]]


def machine(device: str, gpu_index: int = 0) -> Machine:
    """What the harness finds here. It forks, so it is to be called before there are threads.

    Errors: Failed, if there is no such device or GPU; it is opened in a process of its own.
    """
    found = entry.isolation()
    try:
        seen = entry.look(device, found.walls, gpu_index)
    except entry.DeviceFault as fault:
        raise Failed(f"the device {device} does not work here: {fault}") from fault
    return Machine(
        harness=entry.VERSION,
        level=found.level,
        tier=seen.tier,
        missing=[Missing(wall=one.wall, reason=one.reason, mend=one.mend) for one in found.missing],
        toolchains=entry.toolchains(),
        environment=entry.environment() | seen.environment,
        memory_mib=entry.memory_bytes() // MIB,
        sandbox_memory_mib=entry.sandbox_bytes_max(device) // MIB,
    )


@dataclass(frozen=True)
class Files:
    """What a run left behind; `artefacts` are names, media types and bytes."""

    log: bytes
    samples: bytes
    artefacts: list[tuple[str, str, bytes]]


@dataclass
class HarnessRuns:
    """Runs jobs in the isolated harness, which stays warm from one to the next.

    `folder` holds problems by digest, runs in hand and what the harness remembers of this machine;
    `device` is the one that is timed, of several GPUs the one of `gpu_index`. A ranked run is
    refused by a harness that isolates less than `level_min`; `canary` does known work and says what
    is wrong with the machine. `code` is the digest of the harness code that the agent registered
    with, once it is kept: a run by any other is refused.
    """

    blobs: Blobs
    folder: Path
    canary: Callable[[], str]
    level_min: str = "none"
    device: str = "cpu"
    gpu_index: int = 0
    harness: Harness | None = None
    ailment: str = ""
    last_job: str = ""
    code: str = ""

    async def keep_code(self, named: str) -> None:
        """Let everybody have the harness code that is registered. Errors: Failed; of a put."""
        kept = await self.blobs.put(await asyncio.to_thread(entry.code), "application/zip")
        if kept.digest != named:
            raise Failed("the harness code was changed while the agent started: start it again")
        self.code = named

    async def warm(self) -> None:
        """Wait until the harness can take a run; where it cannot, the next run says why."""
        harness = await self._own()
        try:
            await harness.warm()
        except entry.Silent as silent:
            logger.warning("the harness is not ready: %s", silent)

    async def _own(self) -> Harness:
        if self.harness is None:
            state = self.folder / "state"
            await asyncio.to_thread(state.mkdir, parents=True, exist_ok=True)
            self.harness = Harness(state=str(state))
        return self.harness

    async def close(self) -> None:
        """End the harness and all beneath it."""
        if self.harness is not None:
            await self.harness.close()

    async def health(self) -> str:
        """Why no more jobs may be run here, "" if the next may come.

        A supervisor that a failure ended is replaced before that: no order waits for its imports.
        """
        ailment = self.ailment or await asyncio.to_thread(self.canary)
        if self.harness is not None and not ailment:
            await self.warm()
            self._look_for_leftovers(self.harness)
        return ailment or self.ailment

    def _look_for_leftovers(self, harness: Harness) -> None:
        if harness.has_left and not self.ailment:
            self.ailment = f"something of job {self.last_job} could not be killed"

    async def run(self, order: JobAssigned, told: Told) -> tuple[Outcome, Files]:
        """Run one job to its end. Errors: Missing, Failed; cancellation kills it."""
        try:
            problem = await self._problem(order.problem_digest)
            files = {f"submission{suffix(order.name)}": order.source}
            if order.rival is not None:
                files[_rival_file(order)] = order.rival
            sources = {name: await self.blobs.get(blob.digest) for name, blob in files.items()}
            home = await asyncio.to_thread(self._home, sources)
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
        request = RunRequest(
            problem=str(problem),
            source=str(home / f"submission{suffix(order.name)}"),
            mode=order.mode,
            out=str(out),
            device=self.device,
            level_min=self.level_min if order.mode in ("ranked", DUEL) else "none",
            gpus=gpus_of(order, self.gpu_index),
            case=order.case,
            rival=str(home / _rival_file(order)) if order.rival is not None else "",
        )

        async def hear(message: Started | Progress | StageFinished) -> None:
            if isinstance(message, Started):
                self._check_code(message.environment.get(HARNESS_CODE, ""))
            await told(_news(message))

        harness = await self._own()
        self.last_job = order.job
        try:
            report = await harness.evaluate(request, hear)
        finally:
            self._look_for_leftovers(harness)
        outcome = _outcome(report)
        if report.failure_code in entry.DOUBTFUL and not self.ailment:
            outcome = replace(outcome, has_passed_self_test=await self._run_self_test(order))
        return outcome, await asyncio.to_thread(_files_of, report, out)

    async def _run_self_test(self, order: JobAssigned) -> bool:
        """Whether a known kernel passes here; if not, the agent takes no more jobs."""
        harness = await self._own()
        fault = await harness.self_test(self.device, gpus_of(order, self.gpu_index)[:1])
        if fault:
            self.ailment = f"a known kernel failed after job {order.job}: {fault}"
        return not fault

    def _check_code(self, digest: str) -> None:
        """Whether a run is by the code that everybody can fetch. Errors: Failed."""
        if self.code and digest != self.code:
            self.ailment = "the harness code was changed under this agent: start it again"
            raise Failed(self.ailment)

    def _home(self, sources: dict[str, bytes]) -> Path:
        """A run's own folder, with the submission in it, of a duel with both."""
        runs = self.folder / "runs"
        runs.mkdir(parents=True, exist_ok=True)
        home = Path(tempfile.mkdtemp(dir=runs))
        (home / "out").mkdir()
        for name, source in sources.items():
            (home / name).write_bytes(source)
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


def _rival_file(order: JobAssigned) -> str:
    return f"rival{suffix(order.rival_name)}"


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


def _files_of(report: RunReport, out: Path) -> Files:
    """What lies in a run's folder, as far as a blob takes it."""
    artefacts = [
        (one.name, one.media, _read(out / Path(one.name).name))
        for one in report.artefacts[:ARTEFACTS_MAX]
    ]
    return Files(
        log=_read(out / "log.txt"),
        samples=_read(out / "samples.json.gz"),
        artefacts=[(name, media, data) for name, media, data in artefacts if data],
    )


def _read(path: Path) -> bytes:
    is_fit = path.is_file() and path.stat().st_size <= BLOB_BYTES_MAX
    return path.read_bytes() if is_fit else b""


def _news(message: Started | Progress | StageFinished) -> News:
    if isinstance(message, Started):
        return Began(
            harness=message.harness,
            level=message.level,
            tier=message.tier,
            key_commit=message.key_commit,
            missing=message.missing,
            environment=message.environment,
        )
    if isinstance(message, Progress):
        return Step(message.stage, message.case, message.done, message.total)
    return StageResult(
        stage=message.stage, verdict=message.verdict, took_s=message.took_s, cases=message.cases
    )


def _outcome(report: RunReport) -> Outcome:
    return Outcome(
        verdict=report.verdict,
        stage=report.stage,
        reason=report.reason,
        took_s=report.took_s,
        key=report.key,
        cases=[_case(case) for case in report.cases],
        log_head=report.log_head,
        log_tail=report.log_tail,
        failure_code=report.failure_code,
        usage=report.usage,
        sigma_run=report.sigma_run,
        tie_us=report.tie_us,
        duel=_duel(report),
    )


def _duel(report: RunReport) -> DuelResult | None:
    found = report.duel
    if found is None:
        return None
    return DuelResult(
        winner=found.winner,
        failed=found.failed,
        ratio=found.ratio,
        interval=found.interval,
        pairs=len(found.pairs_us),
    )


def _case(case: CaseReport) -> CaseResult:
    """The same of a case: each of an event's fields has its twin in the harness's report."""
    said = {name: getattr(case, name) for name in CaseResult.__struct_fields__}
    wrong = [Mismatch(index=m.index, got=m.got, expected=m.expected) for m in case.mismatches]
    return CaseResult(**said | {"mismatches": wrong})
