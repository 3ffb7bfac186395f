"""What will be done with a submission to a problem, told from its compiled version."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from warpboard.domain.answers import Answer
from warpboard.domain.units import count_text

_ENTRIES = {"kernelbench": "class ModelNew", "": "custom_kernel(data)"}
_CALLS = 2
_STAGES: Mapping[str, tuple[str, ...]] = {
    "test": ("build", "check"),
    "benchmark": ("build", "check", "time"),
    "profile": ("build", "check", "profile"),
    "ranked": ("build", "check", "hidden_check", "time"),
}
OURS = (
    "the supervisor draws the seed of each call from a key of the run, makes the input, starts its"
    " clock, shows the input, waits, copies the answer, stops its clock, and judges the copy"
)
THEIRS = (
    "the problem's own {main} runs in the submission's process and says the verdict and the times:"
    " tier G0, which ranks nowhere but where an operator says so"
)


class Told(NamedTuple):
    """The parts of an account, in the order in which they are shown."""

    rows: Sequence[tuple[str, str]]
    document: Answer


def account(slug: str, manifest: bytes, code: Answer, path: str) -> Told:
    """What a run is: who calls what, how often, and how to do the same here.

    `code` says which harness that is, and `path` where the problem lies.
    """
    said: dict[str, Any] = json.loads(manifest)
    main, form = said.get("main", ""), said.get("form", "")
    is_native = said["lang"] == "cu"
    entry = "output_t custom_kernel(input_t)" if is_native else _ENTRIES.get(form, _ENTRIES[""])
    timed = said["benchmarks"][-1:] if said["ranking_by"] == "last" else said["benchmarks"]
    told = {
        "problem": slug,
        "defines": f"what {main} calls" if main else entry,
        "called by": THEIRS.format(main=main) if main else OURS,
        "checked": f"{_cases(said['tests'] or timed)}, {said.get('calls', _CALLS)} calls each",
        "timed": f"{_cases(timed)}, scored by {said['ranking_by']}",
        "budgets": ", ".join(f"{key} {value} s" for key, value in said["budgets_s"].items()),
        "stages": "; ".join(f"{mode}: {', '.join(one)}" for mode, one in _STAGES.items()),
        "author's code": ", ".join(sorted(said["files"])),
        "harness": f"version {code['version']}, SHA-256 {code['digest']}",
        "its code": code["folder"],
        "the same here": f"warpboard run FILE --problem {path} --mode ranked",
    }
    if main:
        told["checked"] = f"{_cases(said['tests'])}, as {main} calls them"
    keys = {key.replace(" ", "_").replace("'", ""): value for key, value in told.items()}
    return Told(tuple(told.items()), keys)


def _cases(found: Sequence[Any]) -> str:
    return count_text(len(found), "case")
