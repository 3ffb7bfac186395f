"""Runs submissions against a problem of a public set, on the cpu device and within bounds."""

import asyncio
import json
import os
import re
import resource
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from harness.vocabulary import CPU_TYPE
from shared.api.fields import JsonObject
from shared.api.submissions import SubmissionRequest
from shared.checks import problem_files
from shared.checks.findings import OWN_CODE
from shared.checks.problem_files import ProblemFiles
from shared.errors import Refused
from shared.presentation.units import one_line
from shared.problem_versions import load_problem
from shared.problems.compilation import compile_problem
from shared.problems.kernelbench import AS_ANSWER, REFERENCE_CPU
from warpboard.files import load_solutions
from warpboard.local_run import LocalHarness
from warpboard.service.checks import find_faults

MEMORY_SHARE = 3
REASON_CHARS = 160
CUT = "one call of the first case"
REDUCED = "reduced sizes"
ERROR = re.compile(r"[\w.]+(Error|Exception)\b")
NO_VERDICT = "no verdict"
# How many times longer than a submission a check may take.
CHECK_FACTOR = 3
ZEROS_CODE, REJECTED, ACCEPTED = "check_takes_zeros", "rejected", "accepted"
# With these findings, or with one of the others for all of its code, nothing is known of zeros:
# a constant answer may be zero.
BROKEN = {"author_fails", "author_forks", "author_memory", "answer_constant"}
UNINSPECTED = ("not_inspected",)
LATE = f"{NO_VERDICT}: took more than"
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
# Off by a thousandth, ten times what a model's check tolerates.
OFF = b"""
class ModelNew(Model):
    def forward(self, *inputs):
        return super().forward(*inputs) * 1.001 + 0.001
"""
REFERENCE = b"\ncustom_kernel = ref_kernel\n"

# The problem that the exploits of pygpubench are written for, as one of ours.
EXPLOITS = "exploits"
CONTROL, WRONG_CONTROL = "submission_correct.py", "submission_wrong.py"
CONTROL_RUNS = 3
GAIN_MAX = 0.5
CONTROLLED = f"mode benchmark, beside {CONTROL}"
GRAYSCALE = {
    "task.yml": b"""\
files:
  - {name: "submission.py", source: "@SUBMISSION@"}
  - {name: "reference.py", source: "reference.py"}
lang: "py"
description: "The luma of an image of red, green and blue."
config: {main: "eval.py"}
templates: {}
tests:
  - {size: 127, seed: 1}
benchmarks:
  - {size: 512, seed: 2}
gpus: ["CPU"]
""",
    "reference.py": b"""\
import torch

WEIGHTS = torch.tensor([0.2989, 0.5870, 0.1140])


def generate_input(size, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(size, size, 3, generator=generator), torch.empty(size, size)


def ref_kernel(data):
    image, output = data
    return torch.sum(image * WEIGHTS, dim=-1, out=output)


def check_implementation(data, output):
    wanted = torch.sum(data[0] * WEIGHTS, dim=-1)
    return bool(((output - wanted).abs() <= 1e-6 + 1e-6 * wanted).all()), "values differ"
""",
}
KERNEL = b"""
def custom_kernel(data):
    image, output = data
    kernel(output, image)
    return output
"""


class Outcome(msgspec.Struct, frozen=True):
    """How a submission that is `right` or `wrong` ended; `said` is "" if it was as it must."""

    kind: str
    name: str
    said: str = ""
    verdict: str = ""


class Check(msgspec.Struct, frozen=True):
    """What `problem check` says: why a problem cannot be published, and whether zeros pass.

    `is_tested` unless nothing was run on any of its GPU types. `zeros` is "" if it is unknown.
    """

    refusal: str = ""
    is_tested: bool = True
    zeros: str = ""


@dataclass(frozen=True)
class Sample:
    """What is submitted: `right` or `wrong`, its name, its source."""

    kind: str
    name: str
    source: bytes


@dataclass(frozen=True)
class Tried:
    """What came of the submissions to a problem, how much of it was run, and what was not."""

    how: str
    runs: list[Outcome]
    left_out: str = ""


def bound_memory() -> None:
    """Lets this process, and all that it starts, have a third of the machine's memory each."""
    whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limit = whole // MEMORY_SHARE
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def load(path: Path) -> ProblemFiles | str:
    """The problem of a set, or why it does not load."""
    try:
        return load_problem(path, None, ("CPU",))
    except Refused as refused:
        return refused.reason


def own_solutions(path: Path, problem: ProblemFiles) -> list[Sample]:
    """A set's own solutions to a problem."""
    found = load_solutions(path, problem.slug)
    return [
        *(Sample("right", one.name, one.source) for one in found.correct),
        *(Sample("wrong", one.name, one.source) for one in found.wrong),
    ]


async def run_problem(
    harness: LocalHarness, path: Path, problem: ProblemFiles, limit_s: float
) -> Tried:
    """What becomes of submissions, each within so many seconds, up to the first that takes longer.

    Where that is one to the whole problem, one call of its first case alone is tried instead.
    """
    given = list(_samples(path, problem))
    sizes = [REDUCED] if REFERENCE_CPU in problem.version_files else []
    tried = await _runs(harness, problem, given, (", ".join(sizes), limit_s))
    if not is_late(tried.runs):
        return tried
    return await _runs(harness, _cut(problem), given, (", ".join([*sizes, CUT]), limit_s))


async def check_problem(
    harness: LocalHarness, path: Path, problem: ProblemFiles, limit_s: float
) -> Check:
    """What `problem check` says; its reference is the correct solution if the set brings none."""
    samples = list(_samples(path, problem))
    own = load_solutions(path, problem.slug)
    derived = [one for one in samples if one.kind == "right" and not one.name.endswith(".py")]
    given = [problem_files.Sample(f"{one.name}.py", one.source) for one in derived]
    solutions = replace(own, correct=own.correct or tuple(given))
    try:
        async with asyncio.timeout(CHECK_FACTOR * limit_s):
            findings = await find_faults(harness, problem, solutions)
    except TimeoutError:
        return Check(f"{NO_VERDICT}: the check took more than {CHECK_FACTOR * limit_s:.0f} s here")
    errors = [finding for finding in findings if finding.level == "error"]
    codes = {finding.code for finding in findings}
    where = {finding.where for finding in findings if finding.code in UNINSPECTED}
    is_unknown = bool(codes & BROKEN) or OWN_CODE in where
    zeros = ACCEPTED if ZEROS_CODE in codes else "" if is_unknown else REJECTED
    if machine := [finding.text for finding in errors if finding.code == "machine"]:
        return Check(one_line(f"{NO_VERDICT}: {machine[0]}", REASON_CHARS))
    refusal = f"{errors[0].code} in {errors[0].where}: {errors[0].text}" if errors else ""
    return Check(one_line(refusal, REASON_CHARS), CPU_TYPE in problem.gpus, zeros)


async def run_exploits(harness: LocalHarness, checkout: Path, limit_s: float) -> list[Outcome]:
    """How each exploit of a checkout of pygpubench ended, the controls first."""
    version = compile_problem("grayscale", GRAYSCALE)
    problem = ProblemFiles(
        slug=version.slug,
        files=GRAYSCALE,
        manifest=version.manifest,
        version_files=version.files,
        ranking_by=version.ranking_by,
        gpus=version.gpus,
        warnings=(),
    )
    sources = {
        path.name: path.read_bytes().replace(b"cuda", b"cpu") + KERNEL
        for path in sorted((checkout / "exploits").glob("submission_*.py"))
    }

    async def run(kind: str, name: str) -> JsonObject | None:
        return await _answer(
            harness, problem, Sample(kind, name, sources[name]), ("benchmark", limit_s)
        )

    found, times_us = [], []
    for number in range(CONTROL_RUNS):
        answer = await run("right", CONTROL)
        times_us.append(_time_us(answer))
        control = Sample("right", f"{CONTROL}, {number + 1}", b"")
        found.append(_outcome(control, answer, limit_s))
    least_us = GAIN_MAX * min(times_us)
    for name in sources:
        if name != CONTROL:
            answer = await run("wrong", name)
            outcome = _outcome(Sample("wrong", name, b""), answer, limit_s)
            is_honest = name != WRONG_CONTROL and _time_us(answer) >= least_us > 0
            found.append(msgspec.structs.replace(outcome, said="") if is_honest else outcome)
    return found


def is_late(found: Sequence[Outcome]) -> bool:
    """Whether a bound of time was met."""
    return any(run.said.startswith(LATE) for run in found)


def _samples(path: Path, problem: ProblemFiles) -> Iterator[Sample]:
    """A set's own solutions, what the problem itself makes a right one, and one doing nothing."""
    own = own_solutions(path, problem)
    yield from (one for one in own if one.kind == "right")
    if path.is_file():
        yield Sample("right", "itself", path.read_bytes() + AS_ANSWER)
    elif b"ref_kernel" in (source := problem.version_files.get("reference.py", b"")):
        # A submission is not told that `cuda` means the processor, so its text is.
        yield Sample("right", "ref_kernel", source.replace(b"cuda", b"cpu") + REFERENCE)
    yield from (one for one in own if one.kind == "wrong")
    if path.is_file():
        yield Sample("wrong", "off by a thousandth", path.read_bytes() + OFF)
    yield Sample("wrong", "nothing", NOTHING)


def _cut(problem: ProblemFiles) -> ProblemFiles:
    manifest: dict[str, Any] = json.loads(problem.manifest)
    manifest |= {"tests": manifest["tests"][:1], "benchmarks": manifest["benchmarks"][:1]}
    return replace(problem, manifest=json.dumps(manifest | {"calls": 1}).encode())


async def _runs(
    harness: LocalHarness, problem: ProblemFiles, given: Sequence[Sample], how: tuple[str, float]
) -> Tried:
    """Each submission in turn; after one that is late the others are left out."""
    amount, limit_s = how
    found: list[Outcome] = []
    for number, sample in enumerate(given, 1):
        found.append(await run_sample(harness, problem, sample, limit_s))
        if is_late(found):
            names = ", ".join(one.name for one in given[number:])
            left_out = f"submissions after one that was late ({names})" if names else ""
            return Tried(amount, found, left_out)
    return Tried(amount, found)


async def run_sample(
    harness: LocalHarness, problem: ProblemFiles, sample: Sample, limit_s: float
) -> Outcome:
    """How a submission ended in mode test; one that is wrong in timed cases alone, in benchmark."""
    outcome = _outcome(sample, await _answer(harness, problem, sample, ("test", limit_s)), limit_s)
    if (sample.kind, outcome.verdict) == ("wrong", "passed"):
        answer = await _answer(harness, problem, sample, ("benchmark", limit_s))
        return _outcome(sample, answer, limit_s)
    return outcome


async def _answer(
    harness: LocalHarness, problem: ProblemFiles, sample: Sample, how: tuple[str, float]
) -> JsonObject | None:
    """How a submission ended; None if it did not end in time."""
    mode, limit_s = how
    name = sample.name if sample.name.endswith(".py") else f"{sample.name}.py"
    wish = SubmissionRequest(name, sample.source, problem.slug, mode)
    try:
        async with asyncio.timeout(limit_s):
            return await harness.run(problem, wish)
    except TimeoutError:
        return None


def _time_us(answer: JsonObject | None) -> float:
    """The time of a benchmark that passed, else 0."""
    if answer is None or answer["verdict"] != "passed":
        return 0.0
    return max((case["time_us"] or 0.0 for case in answer["cases"]), default=0.0)


def _outcome(sample: Sample, answer: JsonObject | None, limit_s: float) -> Outcome:
    if answer is None:
        said = f"{LATE} {limit_s:.0f} s on this machine"
        return Outcome(sample.kind, sample.name, said)
    verdict = answer["verdict"] or ""
    said = said_of(sample.kind, verdict, answer["reason"])
    return Outcome(sample.kind, sample.name, said, verdict)


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
    return "" if is_right else f"{verdict or NO_VERDICT}: {said}"
