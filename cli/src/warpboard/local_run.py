"""Runs submissions in the agents' harness on this machine, without a server."""

import asyncio
import hashlib
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from harness import entry
from harness.entry import InspectRequest, RunRequest
from harness.vocabulary import CPU_DEVICE, CPU_TYPE
from shared.api.fields import JsonObject
from shared.api.submissions import Progress, SubmissionRequest
from shared.checks.problem_files import ProblemFiles
from shared.errors import Refused
from shared.problem_versions import write_version
from shared.problems.submission_file import suffix
from shared.source_files import check_files


class LocalHarness:
    """The harness of this machine, which works in temporary folders."""

    def __init__(self, harness: entry.Harness | None = None) -> None:
        """Without a harness every run gets one of its own."""
        self._harness = harness

    @asynccontextmanager
    async def warm(self) -> AsyncIterator["LocalHarness"]:
        """Return the same with a supervisor that stays for as long as the context lasts.

        Raises Refused without torch, as do the methods that run something.
        """
        check_torch()
        async with entry.Harness() as harness:
            yield LocalHarness(harness)

    gpu = CPU_TYPE

    def code(self) -> JsonObject:
        """Return the harness's version, folder and code digest."""
        return {
            "version": entry.VERSION,
            "folder": str(Path(entry.__file__).parent),
            "digest": hashlib.sha256(entry.code()).hexdigest(),
        }

    def offer(self) -> JsonObject:
        """Return what this machine offers, in the keys of an Offer."""
        isolation = entry.isolation()
        missing, launchers_missing, priorities_missing = (
            [{"wall": wall.wall, "reason": wall.reason, "fix": wall.fix} for wall in walls]
            for walls in (isolation.missing, isolation.launchers, isolation.priorities)
        )
        return {
            "level": isolation.level,
            "tier": entry.probe_device(CPU_DEVICE, isolation.walls).tier,
            "device": CPU_DEVICE,
            "kernel": isolation.kernel,
            "walls": list(isolation.walls),
            "missing": missing,
            "launchers": ["zygote", *["bubblewrap"] * isolation.has_bubblewrap],
            "launchers_missing": launchers_missing,
            "priorities": [] if priorities_missing else ["real-time"],
            "priorities_missing": priorities_missing,
            "toolchains": entry.toolchains(),
            "gpus": [_describe_gpu(gpu, isolation) for gpu in entry.find_gpus()],
        }

    async def inspect(
        self,
        problem: ProblemFiles,
        report_progress: Callable[[Progress], Awaitable[None]],
        *,
        scaled_s: float = 0.0,
    ) -> JsonObject:
        """Inspect a problem's own code; return findings, or why it could not be inspected.

        With `scaled_s`, only measure how far the check lets right answers move to lazy ones, for so
        many seconds.
        """
        check_torch()

        async def listen(message: entry.Started | entry.Progress | entry.StageFinished) -> None:
            if isinstance(message, entry.Progress):
                await report_progress(Progress(**asdict(message), stages=[]))

        with tempfile.TemporaryDirectory(prefix="warpboard-run-") as home:
            folder = Path(home) / "problem"
            await asyncio.to_thread(write_version, problem, folder)
            request = InspectRequest(str(folder))
            if scaled_s:
                request = replace(request, is_scaled=True, limit_s=scaled_s, call_s=scaled_s)
            if self._harness is not None:
                return asdict(await self._harness.inspect(request, listen))
            async with entry.Harness() as harness:
                return asdict(await harness.inspect(request, listen))

    async def run(  # noqa: PLR0913  (a run has as many terms)
        self,
        problem: ProblemFiles,
        submission: SubmissionRequest,
        report_progress: Callable[[Progress], Awaitable[None]] | None = None,
        *,
        rival: SubmissionRequest | None = None,
        level_min: str = "none",
        is_reference: bool = False,
        save: Path | None = None,
        device: str = CPU_DEVICE,
    ) -> JsonObject:
        """Run one submission; return its end in the keys of a run, without a verdict if we fail.

        With a rival it is a duel, and the end also has the key `duel`. With `is_reference` the
        problem's reference is submitted, and no source. `save` is a folder for the
        files of the run. `device` is `cpu`, or a GPU such as `cuda:0`.
        """
        check_torch()
        machine: dict[str, Any] = {}

        async def listen(message: entry.Started | entry.Progress | entry.StageFinished) -> None:
            if isinstance(message, entry.Started):
                machine.update(level=message.level, tier=message.tier, missing=message.missing)
            if isinstance(message, entry.Progress) and report_progress is not None:
                await report_progress(Progress(**asdict(message), stages=[]))

        with tempfile.TemporaryDirectory(prefix="warpboard-run-") as home:
            for side in (submission, rival):
                files_max = problem.parse_manifest().get("source_files_max", 1)
                if side is not None:
                    check_files(side.name, side.others, files_max, problem.version_files)
            request = await asyncio.to_thread(_prepare_run, Path(home), problem, submission, rival)
            kind, _, index = device.partition(":")
            gpus = [] if kind == CPU_DEVICE else [int(index or 0)]
            request = replace(request, level_min=level_min, device=kind, gpus=gpus)
            if is_reference:
                request = replace(request, source="")
            evaluate = entry.evaluate if self._harness is None else self._harness.evaluate
            report = await evaluate(request, listen)
            files = await asyncio.to_thread(_collect_files, Path(request.out), save)
        return asdict(report) | machine | {"files": files, "verdict": report.verdict or None}


def _describe_gpu(gpu: entry.FoundGpu, isolation: entry.Isolation) -> JsonObject:
    """Return a GPU with its timing tier, or with the reason why it cannot be used."""
    tier, problem = "", ""
    try:
        tier = entry.probe_device(gpu.device, isolation.walls, gpu.index).tier
    except entry.DeviceFault as fault:
        problem = str(fault)
    return asdict(gpu) | {"tier": tier, "problem": problem}


def check_torch() -> None:
    """Refuse to run anything without torch, which a client alone does not bring. Raises Refused."""
    if find_spec("torch") is None:
        raise Refused(
            "no_torch",
            "this runs code on your own machine, for which it needs torch: pip install torch",
        )


def _prepare_run(
    home: Path,
    problem: ProblemFiles,
    submission: SubmissionRequest,
    rival: SubmissionRequest | None,
) -> RunRequest:
    folder, out = home / "problem", home / "out"
    out.mkdir()
    write_version(problem, folder)
    source, others = _write_submission(home / "source", submission)
    request = RunRequest(
        str(folder),
        source,
        submission.mode,
        str(out),
        precision=submission.precision,
        others=others,
    )
    if rival is None:
        return request
    rival_source, rival_others = _write_submission(home / "rival", rival)
    return replace(request, rival=rival_source, rival_others=rival_others)


def _write_submission(folder: Path, submission: SubmissionRequest) -> tuple[str, list[str]]:
    """Write the files of a submission; return the path of its entry, and the names of the others.

    The entry gets a name of its own, because a local file may have any.
    """
    entry = folder / f"submission{suffix(submission.name)}"
    folder.mkdir()
    entry.write_bytes(submission.source)
    for file in submission.others:
        target = folder / file.name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(file.data)
    return str(entry), [file.name for file in submission.others]


def _collect_files(out: Path, folder: Path | None) -> list[JsonObject]:
    paths = sorted(path for path in out.iterdir() if path.is_file() and not path.is_symlink())
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        for path in paths:
            shutil.copyfile(path, folder / path.name)
    return [
        {
            "name": path.name,
            "media": "",
            "bytes": path.stat().st_size,
            "digest": hashlib.sha256(path.read_bytes()).hexdigest(),
        }
        for path in paths
    ]
