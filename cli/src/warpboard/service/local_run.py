"""The end of a run on this machine, for commands and MCP tools."""

import json
from dataclasses import asdict

from shared.presentation.outcome import failure_lines
from shared.presentation.responses import JsonObject, Run
from shared.presentation.units import seconds_text, time_text
from shared.problems.roofline import Work, compare_to_roofline, read_works

# Local runs use the processor, whichever GPU types a problem is for.
HERE = "CPU"


def run_heading(subject: str, mode: str, run: Run) -> str:
    """Describe in one line how a run ended, and under which isolation."""
    took = f" in {seconds_text(run.took_s)}" if run.took_s is not None else ""
    tier = f", tier {run.tier}" if run.tier else ""
    return f"{subject}: {run.verdict or 'no verdict'} ({mode}, isolation {run.level}{tier}){took}"


def local_lines(name: str, mode: str, run: Run, score_us: float | None) -> list[str]:
    """Describe the end of a run without a server."""
    head = run_heading(name, mode, run)
    lines = [head] if run.verdict == "passed" else [head, *failure_lines(run)]
    return [*lines, f"score {time_text(score_us)}"] if score_us is not None else lines


def with_roofline(answer: JsonObject, manifest: bytes, gpu: str = HERE) -> JsonObject:
    """Add to a local run what share of the GPU type's limit each time reaches.

    It stays as it is if the problem declares no work. The server does the same for submissions.
    """
    by_case = {work.case: work for work in read_works(json.loads(manifest))}
    if not by_case:
        return answer
    cases = [_add_roofline(case, by_case.get(case["name"]), gpu) for case in answer["cases"]]
    return answer | {"cases": cases}


def _add_roofline(case: JsonObject, work: Work | None, gpu: str) -> JsonObject:
    time_us = case.get("time_us")
    if work is None or not time_us or case["stage"] != "time" or not (work.bytes or work.flops):
        return case
    roofline = compare_to_roofline(work, gpu, time_us)
    return case if roofline is None else case | {"roofline": asdict(roofline)}
