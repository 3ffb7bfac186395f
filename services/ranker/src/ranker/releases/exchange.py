"""The data set in the forms of others: KernelBench's tables, FlashInfer-Trace's solutions, traces.

They are derived from the tables alone, and written whole with each release.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from ranker.releases.files import GROUP_ROWS, arrow, describe, parquet
from shared.api.releases import Release, ReleaseFile
from shared.problems.flashinfer_schema import Definition, TensorSpec, read_schema
from shared.problems.kernelbench import COMPILE, EAGER
from shared.redaction import Redactor
from shared.subjects import derive_id

FOLDER = "exchange"
LEVEL = re.compile(r"kernelbench-[0-9]+(?=-)")
CATALOGUE = "catalogue"
FAST_P = (0.0, 0.5, 1.0, 1.5, 2.0)
BASELINES = (EAGER, COMPILE)
AXIS = re.compile(r"([A-Za-z_]\w*)\s*[:=]\s*(\d+)")
# Our verdicts in the words of FlashInfer-Trace; what is not here has no trace.
STATUS = {
    "passed": "PASSED",
    "wrong_answer": "INCORRECT_NUMERICAL",
    "compile_error": "COMPILE_ERROR",
    "build_failed": "COMPILE_ERROR",
    "crashed": "RUNTIME_ERROR",
    "runtime_error": "RUNTIME_ERROR",
    "timed_out": "TIMEOUT",
}
LANGUAGES = {"python": "python", "cuda": "cuda", "cpp": "cpp", "hip": "hip"}
SUFFIXES = {"python": "py", "cuda": "cu", "cpp": "cpp", "hip": "hip"}
# Not measured; a reader must not take it for 0.
UNKNOWN = "NaN"
# Definitions are in a folder of their kind, which ours need not name.
DEFINITION_KIND = "problems"
Row = Mapping[str, Any]


class ReleaseReader(NamedTuple):
    """Reads the tables of a release; new files are in the first folder."""

    release: Release
    folders: Sequence[Path]

    def rows(self, table: str, columns: Sequence[str] | None = None) -> Iterator[Row]:
        """Yield the rows of a table."""
        for file in self.release.files:
            if file.table != table:
                continue
            path = next(
                folder / file.path for folder in self.folders if (folder / file.path).exists()
            )
            for batch in parquet().ParquetFile(path).iter_batches(GROUP_ROWS, columns=columns):
                yield from batch.to_pylist()


def write(
    reader: ReleaseReader, target: Path, definitions: Mapping[str, Definition]
) -> list[ReleaseFile]:
    """Write all of them below a folder, and return their files."""
    files = [*_write_kernelbench(reader, target), *_write_flashinfer(reader, target)]
    return [*files, *_write_definitions(definitions, target)]


def definition_name(slug: str, version: int) -> str:
    """The name of a problem's version as a definition of FlashInfer-Trace."""
    return f"{slug}-v{version}"


def redact_definition(data: bytes, name: str, redactor: Redactor) -> Definition:
    """Return a definition under the name that its solutions use, without personal data."""
    definition = read_schema(data)

    def line(text: str | None) -> str | None:
        return None if text is None else redactor.line(text)

    def tensors(specs: Mapping[str, TensorSpec]) -> dict[str, TensorSpec]:
        return {
            key: spec.model_copy(update={"description": line(spec.description)})
            for key, spec in specs.items()
        }

    return definition.model_copy(
        update={
            "name": name,
            "description": line(definition.description),
            "op_type": line(definition.op_type),
            "tags": [redactor.line(tag) for tag in definition.tags or ()] or None,
            "constraints": [redactor.line(it) for it in definition.constraints or ()] or None,
            "hf_id": None,
            "axes": {
                key: axis.model_copy(update={"description": line(axis.description)})
                for key, axis in definition.axes.items()
            },
            "inputs": tensors(definition.inputs),
            "outputs": tensors(definition.outputs),
            "reference": redactor.source(definition.reference, "python").text,
        }
    )


def _write_definitions(definitions: Mapping[str, Definition], target: Path) -> list[ReleaseFile]:
    files = []
    for name, definition in definitions.items():
        path = target / FOLDER / "flashinfer" / "definitions" / DEFINITION_KIND / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        document = definition.model_dump(exclude_none=True)
        for kind in ("inputs", "outputs"):
            for key, spec in getattr(definition, kind).items():
                # A plain number has the shape null.
                document[kind][key]["shape"] = spec.shape
        path.write_bytes(msgspec.json.encode(document))
        files.append(describe(target, path))
    return files


def _write_kernelbench(reader: ReleaseReader, target: Path) -> list[ReleaseFile]:
    """One row for each decision on a submission to a problem with baselines, and fast_p."""
    baselines: dict[tuple[str, int, str], dict[str, float]] = {}
    for row in reader.rows("baselines"):
        if row["score_us"] and row["name"] in BASELINES and row["verdict"] == "passed":
            key = row["problem"], row["version"], row["gpu"]
            baselines.setdefault(key, {})[row["name"]] = row["score_us"]
    pa = arrow()
    schema = pa.schema(
        [
            *(("level", pa.string()), ("problem", pa.string()), ("version", pa.int64())),
            *(("gpu", pa.string()), ("participant", pa.string()), ("submission", pa.int64())),
            *(("seq", pa.int64()), ("compiled", pa.bool_()), ("correct", pa.bool_())),
            *(("runtime_us", pa.float64()), ("speedup_eager", pa.float64())),
            ("speedup_compile", pa.float64()),
        ]
    )
    folder = target / FOLDER / "kernelbench"
    folder.mkdir(parents=True, exist_ok=True)
    path, count = folder / "results.parquet", 0
    best: dict[tuple[str, str, str, str], dict[str, float]] = {}
    with parquet().ParquetWriter(path, schema, compression="zstd") as writer:
        rows: list[Row] = []
        for verdict in reader.rows("verdicts"):
            key = verdict["problem"], verdict["version"], verdict["gpu"]
            if key not in baselines or verdict["kind"] == "restated":
                continue
            rows.append(row := _result(verdict, baselines[key]))
            _take_best(best, row)
            if len(rows) == GROUP_ROWS:
                writer.write_table(pa.Table.from_pylist(rows, schema=schema))
                count, rows = count + len(rows), []
        writer.write_table(pa.Table.from_pylist(rows, schema=schema))
        count += len(rows)
    shares = _fast_p(best, baselines)
    names = ("level", "gpu", "participant", "baseline", "p", "problems", "fast_p")
    types = (*(pa.string(),) * 4, pa.float64(), pa.int64(), pa.float64())
    share_schema = pa.schema(list(zip(names, types, strict=True)))
    shares_path = folder / "fast_p.parquet"
    parquet().write_table(pa.Table.from_pylist(shares, schema=share_schema), shares_path)
    return [
        describe(target, path, rows=count),
        describe(target, shares_path, rows=len(shares)),
    ]


def _level(slug: str) -> str:
    match = LEVEL.match(slug)
    return match[0] if match else CATALOGUE


def _result(verdict: Row, scores_us: Mapping[str, float]) -> Row:
    score_us = verdict["score_us"] if verdict["is_eligible"] else None
    speedups = {
        f"speedup_{name}": scores_us[name] / score_us if score_us and name in scores_us else None
        for name in BASELINES
    }
    columns = ("problem", "version", "gpu", "participant", "submission", "seq")
    return {
        "level": _level(verdict["problem"]),
        **{name: verdict[name] for name in columns},
        "compiled": verdict["verdict"] not in (None, "compile_error", "build_failed"),
        "correct": verdict["verdict"] == "passed",
        "runtime_us": score_us,
        **speedups,
    }


def _take_best(best: dict[tuple[str, str, str, str], dict[str, float]], row: Row) -> None:
    key = row["level"], row["gpu"], row["participant"], row["problem"]
    for name in BASELINES:
        speedup = row[f"speedup_{name}"]
        if speedup is not None:
            speedups = best.setdefault(key, {})
            speedups[name] = max(speedup, speedups.get(name, 0.0))


def _fast_p(
    best: Mapping[tuple[str, str, str, str], Mapping[str, float]],
    baselines: Mapping[tuple[str, int, str], object],
) -> list[Row]:
    """The share of a level's problems that each participant solved more than p times as fast."""
    problems: dict[tuple[str, str], set[str]] = {}
    for slug, _, gpu in baselines:
        problems.setdefault((_level(slug), gpu), set()).add(slug)
    speedups: dict[tuple[str, str, str, str], list[float]] = {}
    for (level, gpu, participant, _), by_name in best.items():
        for name, speedup in by_name.items():
            speedups.setdefault((level, gpu, participant, name), []).append(speedup)
    return [
        {
            "level": level,
            "gpu": gpu,
            "participant": participant,
            "baseline": name,
            "p": p,
            "problems": len(problems[level, gpu]),
            "fast_p": sum(value > p for value in values) / len(problems[level, gpu]),
        }
        for (level, gpu, participant, name), values in sorted(speedups.items())
        for p in FAST_P
    ]


def _write_flashinfer(reader: ReleaseReader, target: Path) -> list[ReleaseFile]:
    """A solution for each published source, and a trace for each timed case of its runs."""
    folder, files = target / FOLDER / "flashinfer", list[ReleaseFile]()
    authors = (
        {
            row["number"]: (row["participant"], row["version"])
            for row in reader.rows("submissions", ("number", "participant", "version"))
        }
        if any(file.table == "sources" for file in reader.release.files)
        else {}
    )
    solutions: dict[int, tuple[str, str, str]] = {}
    for row in reader.rows("sources"):
        author, version = authors[row["submission"]]
        solution = _solution(row, author, version)
        place = f"solutions/{author}/{row['problem']}/{solution['definition']}"
        path = folder / place / f"{solution['name']}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(msgspec.json.encode(solution))
        files.append(describe(target, path))
        solutions[row["submission"]] = author, row["problem"], solution["definition"]
    runs = {
        row["number"]: row
        for row in reader.rows("runs", ("number", "submission", "at", "environment", "kind"))
        if row["submission"] in solutions and row["kind"] == "submission" and row["environment"]
    }
    environments = {row["environment"]: row for row in reader.rows("environments")}
    traces: dict[Path, list[bytes]] = {}
    for case in reader.rows("cases") if runs else ():
        run, status = runs.get(case["run"]), STATUS.get(case["verdict"] or "")
        if run is None or case["is_hidden"] or case["stage"] != "time" or status is None:
            continue
        author, problem, definition = solutions[case["submission"]]
        trace = _trace(case, definition, status, run, environments[run["environment"]])
        path = folder / "traces" / author / problem / f"{definition}.jsonl"
        traces.setdefault(path, []).append(msgspec.json.encode(trace) + b"\n")
    for path, lines in sorted(traces.items()):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"".join(lines))
        files.append(describe(target, path, rows=len(lines)))
    return files


def _solution(row: Row, author: str, version: int) -> dict[str, Any]:
    path = f"submission.{SUFFIXES.get(row['language'], 'txt')}"
    names, codes = row["other_names"] or (), row["other_codes"] or ()
    others = [{"path": name, "content": code} for name, code in zip(names, codes, strict=True)]
    return {
        "name": f"submission-{row['submission']}",
        "definition": definition_name(row["problem"], version),
        "author": author,
        "spec": {
            "language": LANGUAGES.get(row["language"], row["language"]),
            "target_hardware": [row["gpu"]],
            "entry_point": f"{path}::custom_kernel",
            "dependencies": [],
        },
        "sources": [{"path": path, "content": row["code"]}, *others],
        "description": f"licence {row['licence']}",
    }


def _trace(case: Row, definition: str, status: str, run: Row, environment: Row) -> dict[str, Any]:
    evaluation: dict[str, Any] = {
        "status": status,
        "environment": {
            "hardware": environment["gpu"] or environment["cpu"] or "unknown",
            "libs": {
                name: environment[name] for name in ("torch", "cuda_driver") if environment[name]
            },
        },
        "timestamp": run["at"].isoformat(),
        "log": "",
    }
    if status in ("PASSED", "INCORRECT_NUMERICAL"):
        evaluation["correctness"] = {"max_relative_error": UNKNOWN, "max_absolute_error": UNKNOWN}
    if status == "PASSED":
        time_us, yardstick_us = case["time_us"] or 0.0, case["yardstick_us"] or 0.0
        evaluation["performance"] = {
            "latency_ms": time_us / 1000,
            "reference_latency_ms": yardstick_us / 1000,
            "speedup_factor": yardstick_us / time_us if time_us else 0.0,
        }
    axes = {name: int(value) for name, value in AXIS.findall(case["name"]) if name != "seed"}
    workload = {"axes": axes, "inputs": {}, "uuid": derive_id(definition, case["name"])}
    return {
        "definition": definition,
        "solution": f"submission-{case['submission']}",
        "workload": workload,
        "evaluation": evaluation,
    }
