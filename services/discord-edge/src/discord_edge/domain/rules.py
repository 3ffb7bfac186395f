"""By what a leaderboard judges, in words."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from discord_edge.domain.report import GREY, Card
from discord_edge.domain.wording import escaped
from shared.errors import Refused

LINE_MAX = 400
PYTHON = "python"
NATIVE = "int custom_kernel(inputs, inputs_count, outputs, outputs_count, scalars_json, stream)"
CALLS: Mapping[str, str] = {
    PYTHON: "custom_kernel(data) in a .py file, by the harness",
    "cpp": f"{NATIVE} in a .cpp file that includes warpboard.h, by the harness; g++ compiles it",
    "cuda": f"{NATIVE} in a .cu file that includes warpboard.h, by the harness; nvcc compiles it, "
    "or NVRTC a kernel alone, where the file begins with //!WARPBOARD compiler: nvrtc",
}
HARNESS = (
    "The platform's own harness runs it, on data made from seeds that nobody knows before. Each "
    "run names the harness by the SHA-256 of its code: `warpboard problem eval-code` shows yours, "
    "and `warpboard run` does the same at home."
)
CODES_MAX = 3


class Code(NamedTuple):
    """A harness code that agents have now, and on which of the GPU types asked about.

    Its zip is called `name` and lies at `url`.
    """

    digest: str
    version: str
    gpus: tuple[str, ...]
    name: str
    url: str


def codes(told: dict[str, Any], gpus: Sequence[str]) -> list[Code]:
    """The harness codes that agents of some GPU types have now, the newest registration first.

    >>> one = {"digest": "7d", "version": "2", "name": "h.zip", "url": "/v1/harnesses/7d"}
    >>> codes({"items": [one | {"agents": [{"gpu": "CPU"}, {"gpu": "L4"}]}]}, ["CPU", "H200"])
    [Code(digest='7d', version='2', gpus=('CPU',), name='h.zip', url='/v1/harnesses/7d')]
    """
    found = []
    for one in told["items"]:
        theirs = {agent["gpu"] for agent in one["agents"]}
        if used := tuple(gpu for gpu in gpus if gpu in theirs):
            found.append(Code(one["digest"], one["version"], used, one["name"], one["url"]))
    return found[:CODES_MAX]


def spoken(problem: dict[str, Any], language: str | None) -> str:
    """The language that is asked about, by default the one that most write in.

    >>> spoken({"slug": "sort", "languages": ["cuda"]}, None)
    'cuda'

    Errors: Refused `unknown_language` for one that the problem does not take.
    """
    known = problem["languages"] or [PYTHON]
    chosen = language or (PYTHON if PYTHON in known else str(known[0]))
    if chosen not in known:
        what = f"`{problem['slug']}` takes {', '.join(known)}, not {chosen}"
        raise Refused("unknown_language", what, "language")
    return chosen


def called(problem: dict[str, Any], language: str) -> str:
    """What a submission defines, and who calls it.

    >>> called({"main": "", "form": "task"}, "python")
    'custom_kernel(data) in a .py file, by the harness'
    """
    if problem["main"]:
        return f"by the problem's own {problem['main']}, in the submission's process (tier G0)"
    if problem["form"] == "native":
        return "output_t custom_kernel(input_t data), compiled beside the problem's own headers"
    if problem["form"] == "kernelbench":
        return "class ModelNew in a .py file, by the harness"
    return CALLS.get(language, CALLS[PYTHON])


def judged(problem: dict[str, Any], language: str, known: Sequence[Code]) -> Card:
    """How submissions to a problem in a language are called, checked, timed and ranked, by whom."""
    slug, rules = str(problem["slug"]), problem["rules"]
    counts = ", ".join(f"{len(found)} {name}" for name, found in rules["cases"].items())
    budgets = ", ".join(f"{name} {seconds} s" for name, seconds in rules["budgets_s"].items())
    said = {
        f"called, {language}": called(problem, language),
        "cases": counts,
        "checked": rules["tolerances"],
        "score": rules["formula"],
        "ties": rules["ties"],
        "time": budgets,
        "sources": rules["source_policy"],
    }
    lines = [f"**{name}** {escaped(str(text), LINE_MAX)}" for name, text in said.items() if text]
    body = "\n".join([HARNESS, *_named(known), *lines])
    return Card(f"How {slug} judges", body, GREY, hint=_hint(known))


def _named(known: Sequence[Code]) -> Iterator[str]:
    """A line for each harness code."""
    if not known:
        yield "**harness** none yet: no agent of its GPU types has told of its code"
    for one in known:
        where = escaped(", ".join(one.gpus), 80)
        yield f"**harness on {where}** version {escaped(one.version, 20)}, `{one.digest}`"


def _hint(known: Sequence[Code]) -> str:
    return f"`{known[0].url}` of the platform's API has the harness" if known else ""
