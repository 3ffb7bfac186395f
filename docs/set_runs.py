"""Runs submissions against a problem of a public set, on the cpu device and within bounds."""

import ast
import asyncio
import hashlib
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
# Of a model, where even that takes longer; the sizes are those that its file names.
SIZES = {"batch_size": 2, "M": 128, "N": 128, "K": 128}
SMALL = "one call, sizes cut ({})"
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
    elif b"ref_kernel" in (source := problem.version_files.get("reference.py", b"")):
        # A submission is not told that `cuda` means the processor, so its text is.
        yield Sample("right", "ref_kernel", source.replace(b"cuda", b"cpu") + REFERENCE)
    yield from (Sample("wrong", one.name, one.source) for one in found.wrong)
    yield Sample("wrong", "nothing", NOTHING)


async def tried(
    harness: LocalHarness, problem: ProblemFiles, given: Sequence[Sample], limit_s: float
) -> Tried:
    """What becomes of submissions, each within so many seconds, up to the first that takes longer.

    Where that is one to the whole problem, one call of its first case alone is tried instead; of a
    single file, whose one case is called five times, no more than that is, and where it is too
    large for this machine, one of smaller sizes.
    """
    if "form" not in json.loads(problem.manifest):
        found = await _runs(harness, problem, given, limit_s)
        if not is_late(found):
            return Tried("", found)
    found = await _runs(harness, _cut(problem), given, limit_s)
    return Tried(CUT, found)


async def tried_small(
    harness: LocalHarness, problem: ProblemFiles, given: Sequence[Sample], limit_s: float
) -> Tried:
    """The same of a model whose file names its sizes, with such as any machine can bear."""
    names, small = _small(problem.version_files["reference.py"])
    cut = _cut(problem)
    manifest: dict[str, Any] = json.loads(cut.manifest)
    manifest["files"] = {"reference.py": hashlib.sha256(small).hexdigest()}
    files = {**problem.version_files, "reference.py": small}
    cut = replace(cut, manifest=json.dumps(manifest).encode(), version_files=files)
    samples = [replace(one, source=_small(one.source)[1]) for one in given]
    return Tried(SMALL.format(names), await _runs(harness, cut, samples, limit_s))


def has_sizes(problem: ProblemFiles) -> bool:
    """Whether it is a model whose file names sizes."""
    is_model = json.loads(problem.manifest).get("form") == "kernelbench"
    return is_model and bool(_small(problem.version_files["reference.py"])[0])


def _small(source: bytes) -> tuple[str, bytes]:
    """Which sizes a module sets, and the module with smaller ones.

    >>> _small(b"M = 4 * 1024")
    ('M = 128', b'M = 128')
    """
    lines = source.splitlines(keepends=True)
    found: list[str] = []
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            if name in SIZES and node.lineno == node.end_lineno:
                found.append(f"{name} = {SIZES[name]}")
                end = lines[node.lineno - 1][node.end_col_offset :]
                lines[node.lineno - 1] = found[-1].encode() + end
    return ", ".join(found), b"".join(lines)


def is_late(found: Sequence[Run]) -> bool:
    """Whether a bound of time was met."""
    return any(said.startswith(LATE) for _, _, said in found)


def is_too_large(found: Sequence[Run]) -> bool:
    """Whether a bound of time or of memory was met."""
    return is_late(found) or any("memory" in said for _, _, said in found)


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
