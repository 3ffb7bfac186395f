"""Checks before each job that the machine works, runs it in the harness, and reports in events.

It is the only module of the agent that talks to the harness.
"""

import asyncio
import dataclasses
import hashlib
import json
import logging
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from math import inf
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from gpu_agent.chunks import ChunkRun
from gpu_agent.domain import Machine, RunFiles, fit_item, required_level, run_gpus
from gpu_agent.service import RunObserver
from harness import entry
from harness.entry import (
    Harness,
    InspectRequest,
    Progress,
    RunReport,
    RunRequest,
    StageFinished,
    Started,
)
from harness.evaluations import Measurement, measure_speedup
from harness.pool import HarnessPool, count_fitting_slots, count_slots
from harness.vocabulary import CHECK, NOISY, PASSED
from shared.api.evaluations import EvaluationItem
from shared.api.fields import JsonObject
from shared.api.submissions import Progress as CaseProgress
from shared.api.submissions import SubmissionRequest
from shared.blobs import BLOB_BYTES_MAX, BlobStore
from shared.checks.examination import Machine as CheckMachine
from shared.checks.examination import examine, slow_examination
from shared.checks.findings import MACHINE_FINDING
from shared.checks.harness_port import ShowProgress
from shared.checks.problem_files import ProblemFiles, Solutions, compile_files, split_solutions
from shared.checks.request import REPORT_NAME, read_request
from shared.clock import now
from shared.errors import Failed, Refused
from shared.evaluations import (
    JSON_LINES,
    RESULTS_NAME,
    ItemResult,
    encode_lines,
    read_items,
)
from shared.events import (
    HARNESS_CODE,
    AgentRegistered,
    ChunkVerdicts,
    JobAssigned,
    Missing,
    RunCompleted,
    RunFailed,
    RunOptions,
    RunStarted,
    StageResult,
)
from shared.problems.submission_file import suffix
from shared.source_files import SourceFile, unpack_files

logger = logging.getLogger(__name__)

Value = TypeVar("Value")

# What is in the folder of a run.
SOURCE_FOLDER, RIVAL_FOLDER, OUT_FOLDER = "source", "rival", "out"
ARTEFACTS_MAX = 16
MIB = 1024**2
# About 50 ms of known work with a known answer, and the most processor time that it may take: wall
# time would say nothing on a machine that is merely busy.
CANARY_BLOCK_BYTES = 1 << 20
CANARY_BLOCKS = 64
CANARY_ANSWER = "3b6a07d0d404fab4e23b6d34bc6696a6a312dd92821332385e5af7c01c421351"
CANARY_S_MAX = 5.0
# It costs more than many a test run, and a machine does not break between two of them.
CANARY_EVERY_S = 30.0
# The item of a chunk is run again after these failures, and after a noisy time.
ITEM_ATTEMPTS_MAX, REPEATED_CODES = 2, ("supervisor", NOISY)
# The stage of a chunk's progress, whose cases are items.
CHUNK_STAGE = "items"
BENCHMARK = "benchmark"
# How long the check of a problem may take.
CHECK_S_MAX = 900.0


def inspect_machine(device: str, gpu_index: int = 0, build_slots: int | None = None) -> Machine:
    """Return what the harness finds on this machine. It forks: call it before there are threads.

    It takes a run more than it has `build_slots`, whose number it decides itself if there is none.
    Raises Refused if it has not the memory for as many, and Failed if there is no such device or
    GPU, which is opened in a separate process.
    """
    slots = 0 if build_slots is None else build_slots + 1
    if slots > 1 and slots > (fitting_slots := count_fitting_slots(device)):
        usual, memory = entry.usual_sandbox_bytes(device) // MIB, entry.memory_bytes() // MIB
        raise Refused(
            "bad_settings",
            f"{build_slots} build slots: expected {max(0, fitting_slots - 1)} at most, because "
            f"each submission may use {usual} MiB of the {memory} MiB of this machine",
        )
    isolation = entry.isolation()
    try:
        device_report = entry.probe_device(device, isolation.walls, gpu_index)
    except entry.DeviceFault as fault:
        raise Failed(f"the device {device} does not work here: {fault}") from fault
    return Machine(
        harness=entry.VERSION,
        level=isolation.level,
        tier=device_report.tier,
        missing=_convert(isolation.missing, list[Missing]),
        toolchains=entry.toolchains(),
        environment=entry.environment() | device_report.environment,
        memory_mib=entry.memory_bytes() // MIB,
        sandbox_memory_mib=entry.sandbox_bytes_max(device) // MIB,
        slots=slots or count_slots(device),
    )


def run_canary() -> str:
    """Do known work, twice at most; return why the machine is not trusted, "" if it is well."""
    return _try_canary() and _try_canary()


def _try_canary() -> str:
    block, digest = bytes(CANARY_BLOCK_BYTES), hashlib.sha256()
    began = time.thread_time()
    for _ in range(CANARY_BLOCKS):
        digest.update(block)
    took_s = time.thread_time() - began
    if digest.hexdigest() != CANARY_ANSWER:
        return "the canary's answer is wrong: this machine computes falsely"
    if took_s > CANARY_S_MAX:
        return f"the canary took {took_s:.1f} s of processor, over {CANARY_S_MAX:.0f} s"
    return ""


@dataclass
class HarnessRuns:
    """Runs jobs in the isolated harness, which stays warm between jobs.

    `folder` holds problems by digest, the current runs and the harness's state for this machine.
    `device` is the timed device; `gpu_index` picks one of several GPUs. `slots` runs go on at once,
    each with a supervisor of its own, which keeps `spares` boxes ready. The harness refuses ranked
    runs if it isolates less than `level_min`, and lets them wait up to `quiet_wait_s` for a quiet
    machine. `canary` returns what is wrong with the machine; once it found nothing, it is asked
    again after `canary_every_s` and after a failure.
    `code` is the digest of the registered harness code once it is stored; runs of other code are
    refused.
    """

    blobs: BlobStore
    folder: Path
    canary: Callable[[], str]
    level_min: str = "none"
    device: str = "cpu"
    gpu_index: int = 0
    quiet_wait_s: float = 0.0
    slots: int = 1
    spares: int = 1
    pool: HarnessPool | None = None
    starting: asyncio.Task[None] | None = None
    fault: str = ""
    last_jobs: dict[Harness, str] = field(default_factory=dict)
    code: str = ""
    current_runs: int = 0
    # Two runs may need the same problem at once.
    fetching: asyncio.Lock = field(default_factory=asyncio.Lock)
    self_testing: asyncio.Lock = field(default_factory=asyncio.Lock)
    canary_every_s: float = CANARY_EVERY_S
    well_until: float = -inf

    async def keep_code(self, registered_digest: str) -> None:
        """Store the registered harness code, so that everybody can fetch it. Raises Failed."""
        blob = await self.blobs.put(await asyncio.to_thread(entry.code), "application/zip")
        if blob.digest != registered_digest:
            raise Failed("the harness code was changed while the agent started: start it again")
        self.code = registered_digest

    async def warm(self) -> None:
        """Wait until the harness can take a run; if it cannot, the next run reports why."""
        async with self.lend() as harness:
            if not harness.is_ready:
                logger.warning("the harness is not ready")
        assert self.pool is not None, "lend creates it"
        # The other supervisors follow while the agent is at work already.
        self.starting = asyncio.create_task(self.pool.restore())

    @asynccontextmanager
    async def lend(self, job: str = "") -> AsyncIterator[Harness]:
        """Lend a supervisor to a job, and check what the job left."""
        if self.pool is None:
            state = self.folder / "state"
            state.mkdir(parents=True, exist_ok=True)
            self.pool = HarnessPool(
                self.slots, device=self.device, spares=self.spares, state=str(state)
            )
        async with self.pool.lend() as harness:
            self.last_jobs[harness] = job
            try:
                yield harness
            finally:
                self._check_leftovers()

    async def close(self) -> None:
        """Stop the harness and all its processes."""
        if self.starting is not None:
            self.starting.cancel()
            await asyncio.wait({self.starting})
        if self.pool is not None:
            await self.pool.close()

    async def health(self) -> str:
        """Return why this machine must take no more jobs, "" if the next may start.

        A supervisor that a failure ended is replaced first, so no order waits for its imports.
        """
        fault = self.fault
        if not fault and time.monotonic() >= self.well_until:
            # At once, so that the other slots need not ask, too.
            self.well_until = time.monotonic() + self.canary_every_s
            fault = await self._ask_canary()
        if fault:
            self.fault = self.fault or fault
        elif self.pool is not None:
            await self.pool.restore()
            self._check_leftovers()
        return self.fault

    def _check_leftovers(self) -> None:
        for harness, job in self.last_jobs.items():
            if harness.has_left and not self.fault:
                self.fault = f"something of job {job} could not be killed"

    async def _ask_canary(self) -> str:
        """Return what is wrong with the machine; on the device `cpu` not while a run is timed."""
        async with self.pool.share_cores() if self.pool is not None else nullcontext():
            return await asyncio.to_thread(self.canary)

    async def run(
        self, order: JobAssigned, observer: RunObserver
    ) -> tuple[RunCompleted | RunFailed, RunFiles]:
        """Run one job to its end. Raises Missing and Failed; cancellation kills it."""
        self.current_runs += 1
        try:
            if order.mode == CHECK:
                return await self._check(order, observer)
            problem = await self._fetch_problem(order.problem_digest)
            if order.chunk is not None:
                return await self._run_chunk(order, problem, observer)
            files = _unpack(order.name, await self.blobs.get(order.source.digest))
            rival: Sequence[SourceFile] = ()
            if order.rival is not None:
                rival = _unpack(order.rival_name, await self.blobs.get(order.rival.digest))
            run_folder = await asyncio.to_thread(self.create_run_folder, files, rival)
            try:
                request = self._make_request(order, problem, run_folder, files, rival)
                return await self._evaluate(order, request, observer)
            finally:
                shutil.rmtree(run_folder, ignore_errors=True)
        except OSError as error:
            raise Failed(f"the agent's disk does not work: {error}") from error
        finally:
            self.current_runs -= 1

    async def _evaluate(
        self, order: JobAssigned, request: RunRequest, observer: RunObserver
    ) -> tuple[RunCompleted | RunFailed, RunFiles]:
        environment: dict[str, str] = {}

        async def handle_message(message: Started | Progress | StageFinished) -> None:
            if isinstance(message, Started):
                environment.update(self.check_code(message))
                started = RunStarted(
                    fingerprint=observer.registration.fingerprint,
                    harness=message.harness,
                    level=message.level,
                    tier=message.tier,
                    key_commit=message.key_commit,
                    missing=message.missing,
                )
                await observer.report_start(started)
            elif isinstance(message, Progress):
                await observer.report_case(message.stage, message.case, message.done, message.total)
            else:
                await observer.report_stage(_convert(message, StageResult))

        async with self.lend(order.job) as harness:
            report = await harness.evaluate(request, handle_message)
        files = await asyncio.to_thread(_collect_files, report, Path(request.out))
        if not report.failure_code:
            return _convert_verdict(report, environment), files
        return await self._make_failure(order, report), files

    def _make_request(
        self,
        order: JobAssigned,
        problem: Path,
        run_folder: Path,
        files: Sequence[SourceFile],
        rival: Sequence[SourceFile] = (),
    ) -> RunRequest:
        """Return the request for files in a run's folder."""
        return RunRequest(
            problem=str(problem),
            source=str(run_folder / SOURCE_FOLDER / files[0].name),
            others=[file.name for file in files[1:]],
            mode=order.mode,
            out=str(run_folder / OUT_FOLDER),
            device=self.device,
            level_min=required_level(order.mode, self.level_min, is_chunk=order.chunk is not None),
            quiet_wait_s=self.quiet_wait_s if order.mode == "ranked" else 0.0,
            gpus=run_gpus(order, self.gpu_index),
            rival=str(run_folder / RIVAL_FOLDER / rival[0].name) if rival else "",
            rival_others=[file.name for file in rival[1:]],
            yardstick_us=order.yardstick_us,
            best_us=order.best_us,
            is_shared=order.chunk is not None,
            **{name: getattr(order, name) for name in RunOptions.__struct_fields__},
        )

    def check_code(self, started: Started) -> dict[str, str]:
        """Return the environment of a run. Raises Failed if other code than registered runs it."""
        if self.code and started.environment.get(HARNESS_CODE, "") != self.code:
            self.fault = "the harness code was changed under this agent: start it again"
            raise Failed(self.fault)
        return started.environment

    async def _make_failure(self, order: JobAssigned, report: RunReport) -> RunFailed:
        """Return how the platform failed, after a self-test if the machine may be at fault."""
        self.well_until = -inf
        is_doubtful = report.failure_code in entry.DOUBTFUL
        return RunFailed(
            stage=report.stage,
            code=report.failure_code,
            reason=report.reason,
            has_passed_self_test=is_doubtful and await self._run_self_test(order),
        )

    async def _run_chunk(
        self, order: JobAssigned, problem: Path, observer: RunObserver
    ) -> tuple[RunCompleted | RunFailed, RunFiles]:
        """Run the items of a chunk; their results are an artefact."""
        chunk, began = order.chunk, time.monotonic()
        assert chunk is not None, "it is the order of a chunk"
        items = read_items(await self.blobs.get(order.source.digest))
        items = items[chunk.first : chunk.first + chunk.count]
        if len(items) < chunk.count:
            raise Failed(f"the evaluation has no items up to {chunk.first + chunk.count}")
        manifest = await asyncio.to_thread((problem / "manifest.json").read_bytes)
        ranking_by = json.loads(manifest)["ranking_by"]
        await observer.report_start(_make_start(observer.registration))

        async def run_item(number: int, item: EvaluationItem) -> ItemResult | RunFailed:
            report, messages = await self._run_item(order, problem, item)
            if report.failure_code:
                return await self._make_failure(order, report)
            measured = _measure(order, ranking_by, report)
            return fit_item(_make_result(number, item, report, measured, messages))

        chunk_run = ChunkRun(
            items,
            chunk.first,
            run_item,
            lambda: self.slots + 1 - self.current_runs,
            lambda: observer.lease.is_stopping,
            lambda done: observer.report_case(CHUNK_STAGE, "", done, len(items)),
        )
        results, failure = await chunk_run.run()
        if not results:
            assert failure is not None, "the first item always begins"
            return failure, RunFiles()
        verdicts = ChunkVerdicts(first=chunk.first, verdicts=[result.verdict for result in results])
        completed = msgspec.structs.replace(self._complete(PASSED, began), chunk=verdicts)
        return completed, RunFiles(artefacts=[(RESULTS_NAME, JSON_LINES, encode_lines(results))])

    async def _run_item(
        self, order: JobAssigned, problem: Path, item: EvaluationItem
    ) -> tuple[RunReport, "_ItemMessages"]:
        """Run an item, again if its supervisor died or the machine was too noisy for a time."""
        entry, *others = item.files
        files, attempt = [SourceFile(_plain_name(entry.name), entry.data), *others], 0
        while True:
            messages, attempt = _ItemMessages(self), attempt + 1
            run_folder = await asyncio.to_thread(self.create_run_folder, files)
            try:
                request = self._make_request(order, problem, run_folder, files)
                async with self.lend(order.job) as harness:
                    report = await harness.evaluate(request, messages.take)
            finally:
                shutil.rmtree(run_folder, ignore_errors=True)
            is_noisy = any(case.grade == NOISY for case in report.cases)
            is_repeated = is_noisy or report.failure_code in REPEATED_CODES
            if not is_repeated or attempt == ITEM_ATTEMPTS_MAX:
                return report, messages

    async def _check(
        self, order: JobAssigned, observer: RunObserver
    ) -> tuple[RunCompleted | RunFailed, RunFiles]:
        """Check a problem for its author; the report is an artefact."""
        problem, solutions = await self._fetch_draft(order)
        await observer.report_start(_make_start(observer.registration))
        began = time.monotonic()
        harness = _CheckHarness(self, order)

        async def report(progress: CaseProgress) -> None:
            await observer.report_case(progress.stage, progress.case, progress.done, progress.total)

        try:
            async with asyncio.timeout(CHECK_S_MAX):
                examined = await examine(harness, problem, solutions, report)
        except TimeoutError:
            examined = slow_examination(CHECK_S_MAX)
        for finding in examined.findings:
            if finding.code == MACHINE_FINDING:
                is_well = await self._run_self_test(order)
                code = harness.failure_code
                return RunFailed(
                    stage="", code=code, reason=finding.text, has_passed_self_test=is_well
                ), RunFiles()
        machine = CheckMachine(f"{entry.VERSION} {self.code[:16]}", self.device, order.gpu)
        checked = examined.report(problem, machine, now())
        completed = self._complete(PASSED if checked.is_clean else "check_failed", began)
        report_bytes = checked.model_dump_json().encode()
        return completed, RunFiles(artefacts=[(REPORT_NAME, "application/json", report_bytes)])

    def _complete(self, verdict: str, began: float) -> RunCompleted:
        """Return the end of a run that has no cases and no key: its results are an artefact."""
        return RunCompleted(
            verdict=verdict,
            stage="",
            reason="",
            cases=[],
            took_s=time.monotonic() - began,
            key="",
            environment={HARNESS_CODE: self.code},
        )

    async def _fetch_draft(self, order: JobAssigned) -> tuple[ProblemFiles, Solutions]:
        """Return an unpublished problem and its solutions. Raises Failed."""
        try:
            request = read_request(await self.blobs.get(order.source.digest))
            files = {name: await self.blobs.get(digest) for name, digest in request.files.items()}
            own, solutions = split_solutions(request.slug, files)
            problem = await asyncio.to_thread(compile_files, request.slug, own, request.gpus)
        except Refused as refused:
            raise Failed(f"the files of the problem do not compile here: {refused}") from refused
        if problem.digest != order.problem_digest:
            raise Failed("the files of the problem compile to another version here")
        return dataclasses.replace(problem, gpus=tuple(request.gpus) or problem.gpus), solutions

    async def _run_self_test(self, order: JobAssigned) -> bool:
        """Return whether a known kernel passes here; if not, the agent takes no more jobs."""
        # The items of a chunk may fail together: if one finds the machine at fault, all do.
        async with self.self_testing:
            if self.fault:
                return False
            async with self.lend(order.job) as harness:
                reason = await harness.self_test(self.device, run_gpus(order, self.gpu_index)[:1])
            if reason:
                self.fault = f"a known kernel failed after job {order.job}: {reason}"
            return not reason

    def create_run_folder(
        self, files: Sequence[SourceFile], rival: Sequence[SourceFile] = ()
    ) -> Path:
        """Create a run's folder with the submission in it, for a duel with both."""
        runs = self.folder / "runs"
        runs.mkdir(parents=True, exist_ok=True)
        home = Path(tempfile.mkdtemp(dir=runs))
        (home / OUT_FOLDER).mkdir()
        _write_files(home / SOURCE_FOLDER, files)
        _write_files(home / RIVAL_FOLDER, rival)
        return home

    async def _fetch_problem(self, digest: str) -> Path:
        """Return the folder of a problem version, fetched once, complete or absent."""
        folder = self.folder / "problems" / digest
        async with self.fetching:
            if not folder.is_dir():
                manifest = await self.blobs.get(digest)
                files = {
                    name: await self.blobs.get(blob_digest)
                    for name, blob_digest in json.loads(manifest)["files"].items()
                }
                files["manifest.json"] = manifest
                await asyncio.to_thread(_write_folder, folder, files)
        return folder

    def sweep(self) -> None:
        """Remove what a predecessor left; a power cut may have damaged its problems, too."""
        for name in ("runs", "problems"):
            if (self.folder / name).exists():
                shutil.rmtree(self.folder / name)


class _CheckHarness:
    """The agent's harness, as the check of a problem uses it. `failure_code` is the last one."""

    def __init__(self, runs: HarnessRuns, order: JobAssigned) -> None:
        self._runs, self._order = runs, order
        self.failure_code = "supervisor"

    @property
    def gpu(self) -> str:
        """The GPU type of this machine."""
        return self._order.gpu

    async def inspect(
        self, problem: ProblemFiles, report_progress: ShowProgress, *, scaled_s: float = 0.0
    ) -> JsonObject:
        """Inspect a problem's own code; return findings, or why it could not be inspected."""

        async def listen(message: Started | Progress | StageFinished) -> None:
            if isinstance(message, Progress):
                await report_progress(CaseProgress(**asdict(message), stages=[]))

        home = await asyncio.to_thread(self._runs.create_run_folder, ())
        try:
            folder = home / "problem"
            await asyncio.to_thread(_lay_out, folder, problem)
            gpus = run_gpus(self._order, self._runs.gpu_index)
            request = InspectRequest(str(folder), device=self._runs.device, gpus=gpus)
            if scaled_s:
                request = dataclasses.replace(
                    request, is_scaled=True, limit_s=scaled_s, call_s=scaled_s
                )
            async with self._runs.lend(self._order.job) as harness:
                report = await harness.inspect(request, listen)
            return self._note_failure(asdict(report))
        finally:
            shutil.rmtree(home, ignore_errors=True)

    async def run(
        self, problem: ProblemFiles, submission: SubmissionRequest, *, is_reference: bool = False
    ) -> JsonObject:
        """Run one submission; return its end in the keys of a run."""

        async def ignore(_: Started | Progress | StageFinished) -> None:
            """The check shows its own progress."""

        entry = SourceFile(_plain_name(submission.name), submission.source)
        files = () if is_reference else (entry, *submission.others)
        home = await asyncio.to_thread(self._runs.create_run_folder, files)
        try:
            folder = home / "problem"
            await asyncio.to_thread(_lay_out, folder, problem)
            request = RunRequest(
                problem=str(folder),
                source=str(home / SOURCE_FOLDER / files[0].name) if files else "",
                others=[file.name for file in files[1:]],
                mode=submission.mode,
                out=str(home / OUT_FOLDER),
                device=self._runs.device,
                gpus=run_gpus(self._order, self._runs.gpu_index),
            )
            async with self._runs.lend(self._order.job) as harness:
                report = asdict(await harness.evaluate(request, ignore))
        finally:
            shutil.rmtree(home, ignore_errors=True)
        return self._note_failure(report | {"verdict": report["verdict"] or None})

    def _note_failure(self, report: JsonObject) -> JsonObject:
        self.failure_code = report["failure_code"] or self.failure_code
        return report


def _lay_out(folder: Path, problem: ProblemFiles) -> None:
    files = {**problem.version_files, "manifest.json": problem.manifest}
    _write_files(folder, [SourceFile(name, data) for name, data in files.items()])


def _unpack(name: str, blob: bytes) -> Sequence[SourceFile]:
    """Return the files of a blob, the entry first, under a name of ours. Raises Failed."""
    entry, *others = unpack_files(name, blob)
    return [SourceFile(_plain_name(entry.name), entry.data), *others]


def _plain_name(name: str) -> str:
    """Return a name for an entry, whatever its client calls it."""
    return f"submission{suffix(name)}"


def _write_folder(folder: Path, files: dict[str, bytes]) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(dir=folder.parent, prefix="fresh-"))
    _write_files(fresh, [SourceFile(name, data) for name, data in files.items()])
    fresh.rename(folder)


def _write_files(folder: Path, files: Sequence[SourceFile]) -> None:
    for file in files:
        target = folder / file.name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(file.data)


def _collect_files(report: RunReport, out: Path) -> RunFiles:
    """Read the files in a run's folder that are small enough for a blob."""
    artefacts = [
        (artefact.name, artefact.media, _read_storable(out / Path(artefact.name).name))
        for artefact in report.artefacts[:ARTEFACTS_MAX]
    ]
    return RunFiles(
        log=_read_storable(out / "log.txt"),
        samples=_read_storable(out / "samples.json.gz"),
        artefacts=[(name, media, data) for name, media, data in artefacts if data],
    )


def _read_storable(path: Path) -> bytes:
    is_storable = path.is_file() and path.stat().st_size <= BLOB_BYTES_MAX
    return path.read_bytes() if is_storable else b""


def _convert_verdict(report: RunReport, environment: dict[str, str]) -> RunCompleted:
    """Return the event of a verdict, without the files, which are stored as blobs."""
    values = _field_values(report) | {"environment": environment, "artefacts": []}
    if report.duel is not None:
        values["duel"] = _field_values(report.duel) | {"pairs": len(report.duel.pairs_us)}
    return _convert(values, RunCompleted)


def _make_start(registration: AgentRegistered) -> RunStarted:
    """Return the start of a run that has no key of its own."""
    return RunStarted(
        fingerprint=registration.fingerprint,
        harness=registration.harness,
        level=registration.level,
        tier=registration.tier,
        key_commit="",
    )


@dataclass
class _ItemMessages:
    """What the run of an item reported before its end."""

    runs: HarnessRuns
    key_commit: str = ""
    stages: list[StageResult] = field(default_factory=list)

    async def take(self, message: Started | Progress | StageFinished) -> None:
        """Keep what its result needs. Raises Failed if other code than registered runs it."""
        if isinstance(message, Started):
            self.runs.check_code(message)
            self.key_commit = message.key_commit
        elif isinstance(message, StageFinished):
            self.stages.append(_convert(message, StageResult))


def _make_result(
    number: int,
    item: EvaluationItem,
    report: RunReport,
    measured: Measurement | None,
    messages: _ItemMessages,
) -> ItemResult:
    """Return the result of an item that ended with a verdict."""
    values = _field_values(report) | {
        "item": number,
        "id": item.id,
        "doubts": report.composition.doubts if report.composition else [],
        "stages": messages.stages,
        "key_commit": messages.key_commit,
    }
    if measured is not None:
        values |= _field_values(measured) | {"time_interval_us": measured.interval_us}
    return _convert(values, ItemResult)


def _measure(order: JobAssigned, ranking_by: str, report: RunReport) -> Measurement | None:
    if report.verdict != PASSED or order.mode != BENCHMARK:
        return None
    timed = [case for case in report.cases if case.stage == "time"]
    return measure_speedup(ranking_by, timed, report.tie_us)


def _field_values(value: Any) -> dict[str, Any]:
    """Return the fields of a dataclass; `asdict` would copy every value below it."""
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}


def _convert(value: object, kind: type[Value]) -> Value:
    """Make the event's value of a value of the harness, which has fields of the same names."""
    return msgspec.convert(value, kind, from_attributes=True)
