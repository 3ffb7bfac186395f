"""Try the check of a problem at sizes that are ranked, and that its inspection did not hold."""

import hashlib
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from harness.vocabulary import CPU_TYPE
from shared.api.fields import JsonObject
from shared.checks import sizes
from shared.checks.harness_port import CheckHarness, ShowProgress
from shared.checks.problem_files import ProblemFiles, compile_files
from shared.checks.sizes import Measurement
from shared.errors import Refused
from shared.problems import flashinfer, flashinfer_schema, kernelbench
from shared.problems.report import Finding
from shared.problems.sources import REFERENCE

# How long the variants of one case may take together, where that can be foreseen, and one of them.
_CASE_S = 10.0
_VARIANT_S = 5.0
# How long the variants of all cases may take together.
_ALL_S = 60.0
# A variant of four times the sizes may take this many times as long.
_STEP_COST = 16
_MODELS = "kernelbench"
_FORMULA = "by the formula of this form, only zeros are close to zeros"


async def inspect_ranked_sizes(
    harness: CheckHarness, problem: ProblemFiles, answer: JsonObject, show: ShowProgress
) -> list[Finding]:
    """Return what the check would accept at ranked sizes that the inspection `answer` left out.

    Raises Failed.
    """
    manifest = problem.parse_manifest()
    is_ours = manifest.get("form") == _MODELS or flashinfer.CODE in problem.version_files
    formula = _FORMULA if is_ours else ""
    findings: list[Finding] = []
    ends_at = time.monotonic() + _ALL_S
    cases = _untried_cases(problem, manifest, answer, harness.gpu)
    for number, case in enumerate(cases):
        where = f"benchmarks: {case['name']}"
        if time.monotonic() > ends_at:
            return [*findings, sizes.late_finding(where, len(cases) - number, formula)]
        measurements = await _measure(harness, problem, case, show)
        findings += sizes.size_findings(where, measurements, formula)
    return findings


def _untried_cases(
    problem: ProblemFiles, manifest: Any, answer: JsonObject, machine_gpu: str
) -> list[Any]:
    """Return the timed cases whose ranked size was not tried.

    Where only another machine runs a model at its own sizes, the inspection saw smaller ones.
    """
    cases: list[Any] = manifest["benchmarks"]
    if manifest.get("main"):
        return []
    is_elsewhere = machine_gpu == CPU_TYPE and any(gpu != CPU_TYPE for gpu in manifest["gpus"])
    if is_elsewhere and kernelbench.REFERENCE_CPU in problem.version_files:
        return cases
    if answer["failure_code"]:
        return cases if is_elsewhere and CPU_TYPE not in manifest["gpus"] else []
    return [case for case in cases if case["name"] in answer["untried"]]


async def _measure(
    harness: CheckHarness, problem: ProblemFiles, case: Any, show: ShowProgress
) -> list[Measurement]:
    """Return the shares of growing variants of a case, up to the largest that fits in time."""
    measurements: list[Measurement] = []
    ends_at = time.monotonic() + _CASE_S
    for factor, variant in _variants(problem, case):
        answer = await harness.inspect(variant, show, scaled_s=_VARIANT_S)
        if (shares := answer["shares"].get(case["name"])) is not None:
            measurements.append(sizes.read_measurement(factor, shares))
        elif measurements:
            break
        if time.monotonic() + _STEP_COST * answer["took_s"] > ends_at:
            break
    return measurements


def _variants(problem: ProblemFiles, case: Any) -> Iterator[tuple[int, ProblemFiles]]:
    """Yield a case with growing sizes, each with the factor by which they are divided."""
    args, manifest = case["args"], problem.parse_manifest()
    if manifest.get("form") == _MODELS:
        source = problem.version_files[REFERENCE]
        for factor in sizes.variant_factors(kernelbench.size_factor(source)):
            yield factor, _with_model(problem, manifest, kernelbench.divide_sizes(source, factor))
        return
    if workload := _workload(problem, args):
        axes = workload["workload"]["axes"]
        for factor in sizes.variant_factors(sizes.argument_factor(axes)):
            divided = sizes.divide_arguments(axes, factor)
            if (variant := _with_axes(problem, case, workload, divided)) is not None:
                yield factor, variant
        return
    for factor in sizes.variant_factors(sizes.argument_factor(args)):
        divided = sizes.divide_arguments(args, factor)
        yield factor, _with_case(problem, manifest, case | {"args": divided})


def _with_case(problem: ProblemFiles, manifest: Any, case: Any) -> ProblemFiles:
    content = manifest | {"tests": [], "benchmarks": [case]}
    return replace(problem, manifest=json.dumps(content).encode())


def _with_model(problem: ProblemFiles, manifest: Any, source: bytes) -> ProblemFiles:
    names = [name for name in manifest["files"] if name != kernelbench.REFERENCE_CPU]
    files = {name: problem.version_files[name] for name in names} | {REFERENCE: source}
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    content = json.dumps(manifest | {"files": digests, "tests": []}).encode()
    return replace(problem, manifest=content, version_files=files)


def _workload(problem: ProblemFiles, args: Any) -> Any:
    """Return the line of a workload of a definition; None for other cases."""
    lines = problem.files.get(flashinfer_schema.WORKLOADS, b"").splitlines()
    workloads = [json.loads(line) for line in lines if line.strip()]
    uuid = args.get("workload")
    return next((line for line in workloads if line["workload"]["uuid"] == uuid), None)


def _with_axes(problem: ProblemFiles, case: Any, line: Any, axes: Any) -> ProblemFiles | None:
    """Return a definition with one workload of other sizes; None if its tensors do not fit them."""
    text = json.dumps(line | {"workload": line["workload"] | {"axes": axes}}).encode()
    try:
        variant = compile_files(problem.slug, {**problem.files, flashinfer_schema.WORKLOADS: text})
    except Refused:
        return None
    return _with_case(variant, variant.parse_manifest(), case)
