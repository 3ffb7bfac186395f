"""The programs that show participants how a submission is evaluated, and that they can run.

`eval.py` and `eval.cu` state the procedure of the harness and follow it in one process, without its
defences. For a problem they have its cases, ranking rule and kind of check.
"""

import json
from collections.abc import Mapping, Sequence
from importlib.resources import files as package_files
from typing import Any

from harness.ranking_rules import timed_cases
from shared.errors import Refused
from shared.problems.reference_form import SEED
from shared.problems.single_file import KERNELBENCH
from shared.problems.sources import NATIVE, native_argument_names

PYTHON, CUDA = "eval.py", "eval.cu"
# What each language's file is, and what it and the files of a problem import or include.
FILES: Mapping[str, tuple[str, str]] = {
    "python": (PYTHON, "utils.py"),
    "cuda": (CUDA, "utils.h"),
}
_UTILITIES: Mapping[str, tuple[str, str]] = {
    "utils.py": ("check", "utilities.py"),
    "utils.h": ("build", "native/utils.h"),
}
_DEVICE = "device"
_RANKS = "world_size"


def evaluation_files(manifest: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the evaluation's files for a problem; none if only the harness runs it.

    >>> problem = {"lang": "py", "files": {}, "tests": [], "benchmarks": [{"args": {"size": 3}}]}
    >>> evaluation_files(problem), evaluation_files({**problem, "form": "kernelbench"})
    (('eval.py', 'utils.py'), ())
    """
    cases = [*manifest["tests"], *manifest["benchmarks"]]
    is_native = manifest["lang"] == "cu"
    has_ranks = any(_RANKS in case["args"] for case in cases)
    is_device = manifest.get("native", {}).get("arrays") == _DEVICE
    if manifest.get("main") or manifest.get("form") == KERNELBENCH or has_ranks or is_device:
        return ()
    names = FILES["cuda" if is_native else "python"]
    return tuple(name for name in names if name not in manifest["files"] or name == "utils.h")


def evaluation_sources(manifest: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the problem's files that `render_evaluation` needs."""
    names = [NATIVE[0]] if manifest["lang"] == "cu" else []
    return tuple(name for name in names if name in manifest["files"])


def render_evaluation(
    name: str,
    manifest: Mapping[str, Any] | None = None,
    files: Mapping[str, bytes] | None = None,
) -> bytes:
    """Return a file of the evaluation, with the cases of a problem if one is given.

    `files` holds the problem's files named by `evaluation_sources`.
    Errors: Refused `not_found`.
    """
    known = [name for pair in FILES.values() for name in pair]
    if manifest is not None:
        known = [*evaluation_files(manifest)]
    if name not in known:
        reason = f"no evaluation file {name!r}; available: {', '.join(known) or 'none'}"
        raise Refused("not_found", reason, "name")
    if name in _UTILITIES:
        folder, path = _UTILITIES[name]
        return package_files("harness").joinpath(folder, path).read_bytes()
    text = package_files(__name__).joinpath(f"{name}.txt").read_text()
    if manifest is None:
        return text.encode()
    groups = {
        "TESTS": _distinct(manifest["tests"] or manifest["benchmarks"]),
        "BENCHMARKS": _distinct(timed_cases(manifest["ranking_by"], manifest["benchmarks"])),
    }
    weights = _distinct_weights(manifest)
    if name == CUDA:
        native_weights = ", ".join(map(str, weights))
        text = text.replace("WEIGHTS = {};", f"WEIGHTS = {{{native_weights}}};")
        return _fill_native(text, groups, manifest, files or {}).encode()
    for key, cases in groups.items():
        arguments = [{key: value for key, value in case.items() if key != SEED} for case in cases]
        lines = "".join(f"    {case!r},\n" for case in arguments)
        text = text.replace(f"{key} = [{{}}]\n", f"{key} = [\n{lines}]\n")
    # A directory whose check takes input and output has no name for its form.
    form = manifest.get("form") or "input_output"
    text = text.replace("WEIGHTS = []\n", f"WEIGHTS = {weights}\n")
    text = text.replace('CHECK = ""\n', f'CHECK = "{form}"\n')
    return text.replace('RANKING = "geom"', f'RANKING = "{manifest["ranking_by"]}"').encode()


def _distinct(cases: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the arguments of cases that differ in more than the seed."""
    texts = {json.dumps(case["args"] | {SEED: 0}, sort_keys=True): case["args"] for case in cases}
    return [*texts.values()]


def _distinct_weights(manifest: Mapping[str, Any]) -> list[float]:
    """Return the weights of the distinct timed cases, none if they are equal."""
    weights: dict[str, float] = {}
    for case in timed_cases(manifest["ranking_by"], manifest["benchmarks"]):
        key = json.dumps(case["args"] | {SEED: 0}, sort_keys=True)
        weights[key] = weights.get(key, 0.0) + case.get("weight", 1.0)
    is_weighted = any("weight" in case for case in manifest["benchmarks"])
    return [*weights.values()] if is_weighted else []


def _fill_native(
    text: str,
    groups: Mapping[str, Sequence[Mapping[str, Any]]],
    manifest: Mapping[str, Any],
    files: Mapping[str, bytes],
) -> str:
    header = files.get(NATIVE[0], b"").decode(errors="replace")
    names = native_argument_names(header) or (SEED,)
    call = "    [](unsigned seed) { return generate_input(seed); },\n"
    for key, cases in groups.items():
        arguments = (
            ", ".join(SEED if name == SEED else _native_value(case[name]) for name in names)
            for case in cases
        )
        calls = "".join(call.replace("(seed); }", f"({line}); }}") for line in arguments)
        text = text.replace(f"> {key} = {{\n{call}", f"> {key} = {{\n{calls}")
    return text.replace('*RANKING = "geom"', f'*RANKING = "{manifest["ranking_by"]}"')


def _native_value(value: object) -> str:
    r"""Write a value in C++.

    >>> [_native_value(value) for value in (True, 3, 0.5, 'a"b')]
    ['true', '3', '0.5', '"a\\"b"']
    """
    # JSON writes the same as C++; what is not ASCII becomes \u and four digits, as in C++.
    return json.dumps(value)
