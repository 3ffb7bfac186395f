"""Runs submissions against a problem of a public set, on the cpu device and within bounds."""

import asyncio
import json
import os
import re
import resource
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from warpboard.domain.answers import Progress
from warpboard.local_run import LocalDisk, LocalHarness
from warpboard.service.ports import ProblemFiles, Terms, Wish

MEMORY_SHARE = 3
REASON_CHARS = 160
CUT = "one call of the first case"
Run = tuple[str, str, str]
ERROR = re.compile(r"[\w.]+(Error|Exception)\b")
LATE = "no verdict: took more than"
NOTHING = b"""\
import torch
def custom_kernel(data):
    return None
class ModelNew(torch.nn.Module):
    def __init__(self, *_):
        super().__init__()
    def forward(self, *inputs):
        return None
"""
ITSELF = b"\nModelNew = Model\n"
REFERENCE = b"\ncustom_kernel = ref_kernel\n"


@dataclass(frozen=True)
class Sample:
    """What is submitted: `right` or `wrong`, its name, its source."""

    kind: str
    name: str
    source: bytes


@dataclass
class Tried:
    """What came of each submission: kind, name, and "" if it ended as it must; `how` much ran."""

    how: str = ""
    runs: list[Run] = field(default_factory=list)


def bound_memory() -> None:
    """Lets this process, and all that it starts, have a third of the machine's memory each."""
    whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limit = whole // MEMORY_SHARE
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def samples(path: Path, problem: ProblemFiles) -> Iterator[Sample]:
    """A set's own solutions, what the problem itself makes a right one, and one doing nothing."""
    found = LocalDisk().samples(path, problem.slug)
    yield from (Sample("right", one.name, one.source) for one in found.correct)
    if path.is_file():
        yield Sample("right", "itself", path.read_bytes() + ITSELF)
    elif source := problem.version_files.get("reference.py"):
        # A submission is not told that `cuda` means the processor, so its text is.
        yield Sample("right", "ref_kernel", source.replace(b"cuda", b"cpu") + REFERENCE)
    yield from (Sample("wrong", one.name, one.source) for one in found.wrong)
    yield Sample("wrong", "nothing", NOTHING)


async def tried(
    harness: LocalHarness, problem: ProblemFiles, given: Sequence[Sample], limit_s: float
) -> Tried:
    """What becomes of submissions, each within so many seconds, up to the first that takes longer.

    Where that is one to the whole problem, one call of its first case alone is tried instead; of a
    single file, whose one case is called five times, no more than that is.
    """
    if "form" not in json.loads(problem.manifest):
        found = await _runs(harness, problem, given, limit_s)
        if not any(said.startswith(LATE) for _, _, said in found):
            return Tried("", found)
    return Tried(CUT, await _runs(harness, _cut(problem), given, limit_s))


def _cut(problem: ProblemFiles) -> ProblemFiles:
    manifest: dict[str, Any] = json.loads(problem.manifest)
    manifest |= {"tests": manifest["tests"][:1], "benchmarks": manifest["benchmarks"][:1]}
    return replace(problem, manifest=json.dumps(manifest | {"calls": 1}).encode())


async def _runs(
    harness: LocalHarness, problem: ProblemFiles, given: Sequence[Sample], limit_s: float
) -> list[Run]:
    found: list[Run] = []
    for sample in given:
        said = await _ended(harness, problem, sample, ("test", limit_s))
        if sample.kind == "wrong" and said.startswith("passed"):
            # It may be wrong in timed cases alone.
            said = await _ended(harness, problem, sample, ("benchmark", limit_s))
        found.append((sample.kind, sample.name, said))
        if said.startswith(LATE):
            break
    return found


async def _ended(
    harness: LocalHarness, problem: ProblemFiles, sample: Sample, how: tuple[str, float]
) -> str:
    mode, limit_s = how
    wish = Wish(f"{sample.name}.py", sample.source, problem.slug, mode)
    try:
        async with asyncio.timeout(limit_s):
            run = await harness.run(problem, wish, _unheard, Terms())
    except TimeoutError:
        return f"{LATE} {limit_s:.0f} s on this machine"
    return said_of(sample.kind, run["verdict"] or "", run["reason"])


async def _unheard(_: Progress) -> None:
    pass


def said_of(kind: str, verdict: str, reason: str) -> str:
    """Nothing where a submission of this kind ended as it must, else how it did.

    >>> said_of("right", "passed", ""), said_of("wrong", "crashed", "")
    ('', '')
    >>> said_of("wrong", "", "reference.py: No module")
    'no verdict: reference.py: No module'
    """
    # Of a traceback its end alone: no line of another's source, no path of this machine.
    lines = reason.strip().splitlines() or [""]
    errors = [line for line in lines if ERROR.match(line)]
    said = " ".join((errors or lines)[-1].split())[:REASON_CHARS]
    is_right = verdict == "passed" if kind == "right" else verdict not in ("", "passed")
    return "" if is_right else f"{verdict or 'no verdict'}: {said}"
