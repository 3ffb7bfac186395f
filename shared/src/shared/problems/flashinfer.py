"""FlashInfer-Trace and SOL-ExecBench: a definition with its workloads as a problem.

The reference is parsed and never run here. Tensors of safetensors files are checked against the
definition and stored as text.
"""

import base64
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from shared.problems.document import Document, bad_problem, quote_value
from shared.problems.flashinfer_schema import (
    AXIS_MAX,
    DEFINITION,
    DTYPES,
    RUN,
    WORKLOAD_FILES,
    WORKLOADS,
    Definition,
    InputSource,
    TensorSpec,
    Workload,
    read_schema,
    read_workloads,
    resolve_axes,
    scalar_values,
    tensor_paths,
)
from shared.problems.flashinfer_solutions import BASELINE, VALUE_STYLE, parse_json
from shared.problems.goals import BaselineYml
from shared.problems.single_file import ProblemSource
from shared.problems.sources import FILE_BYTES_MAX, REFERENCE, normalize_path
from shared.problems.task_yml import SUBMISSION

# Where the files of tensors are, by their paths in the workloads.
TENSORS = "tensors/"
HEADER_BYTES_MAX = 1_000_000
_SEED = 42
# The definition's reference, and its workloads as plain values, among the files of a version.
CODE, _DATA = "definition_code.py", "definition_data.py"
_BASELINE_FILE = "baselines/flashinfer_reference.py"


def read_definition(files: Mapping[str, bytes]) -> ProblemSource | None:
    """Read the problem of a definition and its workloads; None if there is none.

    Errors: Refused `bad_problem`, naming what is wrong or missing.
    """
    if DEFINITION not in files:
        return None
    definition = read_schema(files[DEFINITION])
    workloads_name = next((name for name in WORKLOAD_FILES if name in files), "")
    if not workloads_name:
        raise bad_problem(f"{WORKLOADS} is missing: put it beside {DEFINITION}", WORKLOADS)
    workloads = read_workloads(files[workloads_name])
    # Files with the same tensors are read once.
    tensors = {
        path: _Safetensors(path, files[f"{TENSORS}{path}"]) if f"{TENSORS}{path}" in files else None
        for path in tensor_paths(workloads)
    }
    data = {
        workload.uuid: _WorkloadReader(definition, workload, tensors).read()
        for workload in workloads
    }
    entry = definition.custom_inputs_entrypoint
    text = f"WORKLOADS = {data!r}\nCUSTOM_INPUTS = {entry!r}\n".encode()
    if len(text) > FILE_BYTES_MAX:
        reason = f"the tensors of its workloads take {len(text):,} bytes as text"
        raise bad_problem(f"{WORKLOADS}: {reason}, at most {FILE_BYTES_MAX:,}", WORKLOADS)
    cases = [{"workload": workload.uuid, "seed": _SEED} for workload in workloads]
    written = {
        f"@{REFERENCE}": _REFERENCE.encode(),
        f"@{CODE}": definition.reference.encode(),
        f"@{_DATA}": text,
        _BASELINE_FILE: reference_solution(definition.reference.encode()),
    }
    names = (REFERENCE, CODE, _DATA)
    floats = _BY_WORKLOAD if any(workload.tolerance for workload in workloads) else _STRICT
    description = _DESCRIPTION.format(floats=floats)
    task = {
        "files": [
            {"name": "submission.py", "source": SUBMISSION},
            *({"name": name, "source": f"@{name}"} for name in names),
            *({"name": name, "source": name} for name in (DEFINITION, workloads_name)),
        ],
        "lang": "py",
        "config": {"main": REFERENCE},
        "description": f"{definition.description or definition.name}\n\n{description}",
        "tests": cases,
        "benchmarks": cases,
        "ranking_by": "geom",
    }
    baseline = BaselineYml(name=BASELINE, file=_BASELINE_FILE, note="the definition's reference")
    return ProblemSource(Document(DEFINITION, task, {}), "", written, (baseline,), calls=0)


def reference_solution(code: bytes) -> bytes:
    """Return the reference of a definition as a submission."""
    return code + VALUE_STYLE.format(run=RUN).encode()


@dataclass(frozen=True)
class _Tensor:
    dtype: str
    shape: list[int]
    data: bytes


class _Safetensors:
    """The tensors of a safetensors file, whose header is checked before anything is read."""

    def __init__(self, path: str, data: bytes) -> None:
        self._path = path
        size = int.from_bytes(data[:8], "little")
        if len(data) < 8 or size > min(HEADER_BYTES_MAX, len(data) - 8):
            raise bad_problem(f"{path} is not a safetensors file: its header is cut off", path)
        header = parse_json(path, data[8 : 8 + size]).value
        if not isinstance(header, dict):
            raise bad_problem(f"{path} is not a safetensors file: its header is not a map", path)
        self._header, self._data = header, data[8 + size :]

    def tensor(self, key: str) -> _Tensor:
        """Return a tensor. Errors: Refused if it is missing or contradicts the file."""
        match self._header.get(key):
            case {
                "dtype": str() as dtype,
                "shape": [*shape],
                "data_offsets": [int() as begin, int() as end],
            } if all(isinstance(size, int) and 0 <= size <= AXIS_MAX for size in shape):
                if 0 <= begin <= end <= len(self._data):
                    return _Tensor(dtype, shape, self._data[begin:end])
                reason = f"lies outside the file ({begin} to {end} of {len(self._data)} bytes)"
            case None:
                keys = ", ".join(sorted(name for name in self._header if name != "__metadata__"))
                reason = f"is not there: there are {keys[:200]}"
            case _:
                reason = "is described by something else than dtype, shape and data_offsets"
        raise bad_problem(f"{self._path}: the tensor {quote_value(key)} {reason}", self._path)


class _WorkloadReader:
    """Turns a workload into plain values that the generated reference reads."""

    def __init__(
        self,
        definition: Definition,
        workload: Workload,
        tensors: Mapping[str, "_Safetensors | None"],
    ) -> None:
        self._definition, self._workload, self._tensors = definition, workload, tensors
        self._where = f"{WORKLOADS}: workload {workload.uuid}"
        self._sizes: dict[str, int] = {}

    def read(self) -> dict[str, Any]:
        """Return the sources of the inputs and the shapes of the outputs."""
        unknown = self._workload.inputs.keys() - self._definition.inputs.keys()
        if unknown:
            self._refuse(f"has the unknown input {quote_value(min(unknown))}")
        try:
            self._sizes = resolve_axes(self._definition, self._workload)
        except ValueError as error:
            self._refuse(str(error))
        inputs = {name: self._input(name, spec) for name, spec in self._definition.inputs.items()}
        outputs = {
            name: [DTYPES[spec.dtype][0], self._shape(spec)]
            for name, spec in self._definition.outputs.items()
        }
        values: dict[str, Any] = {"inputs": inputs, "outputs": outputs}
        if self._workload.tolerance is not None:
            values["tolerance"] = self._workload.tolerance.model_dump()
        if any(source.type == "custom" for source in self._workload.inputs.values()):
            values["axes"] = {**self._sizes, **scalar_values(self._workload)}
        return values

    def _shape(self, spec: TensorSpec) -> list[int]:
        shape = [self._sizes[name] for name in spec.shape or ()]
        if negative := [size for size in shape if size < 0]:
            self._refuse(f"has an axis of size {negative[0]}")
        return shape

    def _input(self, name: str, spec: TensorSpec) -> list[Any]:
        source = self._workload.inputs.get(name)
        if source is None:
            self._refuse(f"has no input {quote_value(name)}")
        if source.type == "custom":
            if not self._definition.custom_inputs_entrypoint:
                self._refuse(
                    f"gives {quote_value(name)} as custom, but {DEFINITION} has no "
                    "custom_inputs_entrypoint"
                )
            dtype = DTYPES[spec.dtype][0]
            return ["custom", dtype, None if spec.shape is None else self._shape(spec)]
        if (source.type == "scalar") != (spec.shape is None):
            expected = "a scalar" if spec.shape is None else "random or a tensor of safetensors"
            self._refuse(f"gives {quote_value(name)} as {source.type}: it is {expected}")
        if source.type == "scalar":
            if source.value is None or not math.isfinite(source.value):
                self._refuse(f"gives {quote_value(name)} no finite value")
            return ["scalar", source.value]
        dtype, stored_dtype, item_bytes = DTYPES[spec.dtype]
        shape = self._shape(spec)
        if source.type == "random":
            return ["random", dtype, shape]
        data = self._stored(name, source, (stored_dtype, shape, item_bytes * math.prod(shape)))
        return ["tensor", dtype, shape, base64.b64encode(data).decode()]

    def _stored(
        self, name: str, source: InputSource, expected: tuple[str, list[int], int]
    ) -> bytes:
        """Return the bytes of a tensor, which must have this dtype, shape and size."""
        dtype, shape, size = expected
        file = self._tensors[normalize_path(source.path) or ""]
        if file is None:
            self._refuse(f"names {quote_value(source.path)}, which is missing")
        tensor = file.tensor(source.tensor_key)
        if (tensor.dtype, tensor.shape) != (dtype, shape):
            self._refuse(
                f"needs {quote_value(name)} as {dtype} {shape}, but {source.path} has "
                f"{tensor.dtype} {tensor.shape}"
            )
        if len(tensor.data) != size:
            self._refuse(
                f"{source.path} has {len(tensor.data)} bytes for {quote_value(name)}, not {size}"
            )
        return tensor.data

    def _refuse(self, reason: str) -> NoReturn:
        raise bad_problem(f"{self._where} {reason}", WORKLOADS)


_DESCRIPTION = """\
`data` has `inputs` and `outputs`, maps of the definition's tensors by name. Write the results into
the tensors of `outputs` and return that map. {floats}; all others must be equal."""
_STRICT = (
    "Floats are correct within 10⁻², relative and absolute alike, and in small answers within 2 % "
    "of their mean magnitude"
)
_BY_WORKLOAD = (
    "Each workload says how close its floats must be, and what share of them; in small answers the "
    "absolute tolerance is at most 2 % of their mean magnitude"
)
_REFERENCE = '''\
"""Written by Warpboard from a definition and its workloads."""

import base64
import random

import definition_code
import torch
from definition_code import run
from definition_data import CUSTOM_INPUTS, WORKLOADS
from utils import is_close_by_scale

TOLERANCE = {"max_atol": 1e-2, "max_rtol": 1e-2, "required_matched_ratio": 1.0}
INTEGERS_MAX = 1000
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def generate_input(workload, seed):
    """Return the inputs of a workload, and buffers for its outputs."""
    generator = torch.Generator(DEVICE).manual_seed(seed)
    given = WORKLOADS[workload]
    custom = _custom_inputs(given["axes"], seed) if "axes" in given else {}
    return {
        "workload": workload,
        "inputs": {
            name: _checked(name, source, custom) if source[0] == "custom"
            else _value(source, generator)
            for name, source in given["inputs"].items()
        },
        "outputs": {
            name: torch.zeros(shape, dtype=getattr(torch, dtype), device=DEVICE)
            for name, (dtype, shape) in given["outputs"].items()
        },
    }


def ref_kernel(data):
    """Write the results of the definition's reference into the buffers."""
    results = run(*data["inputs"].values())
    if isinstance(results, dict):
        results = tuple(results.values())
    if not isinstance(results, (tuple, list)):
        results = (results,)
    for buffer, result in zip(data["outputs"].values(), results, strict=True):
        buffer.copy_(result)
    return data["outputs"]


def check_implementation(data, output):
    """Return whether every tensor is close to the reference's."""
    inputs = {
        name: value.clone() if isinstance(value, torch.Tensor) else value
        for name, value in data["inputs"].items()
    }
    outputs = {name: torch.zeros_like(value) for name, value in data["outputs"].items()}
    expected = ref_kernel({"inputs": inputs, "outputs": outputs})
    tolerance = WORKLOADS[data["workload"]].get("tolerance", TOLERANCE)
    for name, want in expected.items():
        got = output[name]
        if got.shape != want.shape or got.dtype != want.dtype:
            return False, f"{name} is {got.dtype} {list(got.shape)}"
        if want.is_floating_point():
            complaint = _compare_floats(got, want, tolerance)
        else:
            wrong = int((got != want).sum())
            complaint = f"{wrong} of {want.numel()} values are wrong" if wrong else ""
        if complaint:
            return False, f"{name}: {complaint}"
    return True, ""


def _compare_floats(got, want, tolerance):
    if tolerance.get("allow_negative_inf"):
        both = (got == float("-inf")) & (want == float("-inf"))
        got, want = got[~both], want[~both]
    if not want.numel():
        return ""
    rtol, atol = tolerance["max_rtol"], tolerance["max_atol"]
    wrong = int((~is_close_by_scale(got, want, rtol, atol)[0]).sum())
    if wrong > (1 - tolerance["required_matched_ratio"]) * want.numel():
        return f"{wrong} of {want.numel()} values are wrong"
    # A share of the elements may be wrong, but not a NaN or an infinity.
    lost = torch.isfinite(want.double()) & ~torch.isfinite(got.double())
    if bool(lost.any()):
        return f"{int(lost.sum())} of {want.numel()} values are not finite"
    cap, error = tolerance.get("max_error_cap"), (got.double() - want.double()).abs()
    if cap is not None and bool((error > cap).any()):
        return f"the largest error is {float(error.nan_to_num().max())}, at most {cap} is possible"
    return ""


def _custom_inputs(sizes, seed):
    """Return what the definition's own function makes, from the seed of this call."""
    devices = [torch.device(DEVICE)] if DEVICE == "cuda" else []
    with torch.random.fork_rng(devices):
        torch.manual_seed(seed)
        random.seed(seed)
        return getattr(definition_code, CUSTOM_INPUTS)(dict(sizes), torch.device(DEVICE))


def _checked(name, source, custom):
    _, dtype, shape = source
    value = custom[name]
    if shape is not None and (list(value.shape), value.dtype) != (shape, getattr(torch, dtype)):
        expected = f"{dtype} {shape}"
        made = f"{value.dtype} {list(value.shape)}"
        raise ValueError(f"{CUSTOM_INPUTS} makes {name} as {made}, not {expected}")
    return value


def _value(source, generator):
    kind, *rest = source
    if kind == "scalar":
        return rest[0]
    dtype, shape = getattr(torch, rest[0]), rest[1]
    if kind == "tensor":
        data = bytearray(base64.b64decode(rest[2]))
        value = torch.frombuffer(data, dtype=dtype) if data else torch.empty(0, dtype=dtype)
        return value.reshape(shape).to(DEVICE)
    options = {"generator": generator, "device": DEVICE}
    if dtype.is_floating_point:
        return torch.randn(shape, **options).to(dtype)
    if dtype == torch.bool:
        return torch.randint(0, 2, shape, **options).bool()
    most = min(INTEGERS_MAX, torch.iinfo(dtype).max)
    return torch.randint(-most, most, shape, dtype=dtype, **options)
'''
