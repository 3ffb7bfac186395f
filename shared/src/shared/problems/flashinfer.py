"""FlashInfer-Trace: a Definition with its Workloads as a problem.

Source: the documents of the public package flashinfer-bench. The reference is parsed and never run
here. Tensors of safetensors files are checked against the definition and stored as text.
"""

import base64
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NoReturn

from pydantic import Field

from shared.problems.document import Document, bad_problem, quote_value, validate_document
from shared.problems.flashinfer_solutions import (
    BASELINE,
    VALUE_STYLE,
    ForeignModel,
    Name,
    parse_json,
)
from shared.problems.goals import BaselineYml
from shared.problems.single_file import ProblemSource
from shared.problems.sources import (
    FILE_BYTES_MAX,
    REFERENCE,
    UP,
    normalize_path,
    read_module,
)
from shared.problems.task_yml import SUBMISSION

DEFINITION, WORKLOADS = "definition.json", "workloads.jsonl"
# Where the files of tensors are, by their paths in the workloads.
TENSORS = "tensors/"
WORKLOADS_MAX = 60
HEADER_BYTES_MAX = 1_000_000
AXIS_MAX = 2**31
_SEED = 42
# The definition's reference, and its workloads as plain values, among the files of a version.
CODE, _DATA = "definition_code.py", "definition_data.py"
_BASELINE_FILE = "baselines/flashinfer_reference.py"
_RUN = "run"
# The names of dtypes in torch and in safetensors, and bytes per element.
_DTYPES: Mapping[str, tuple[str, str, int]] = {
    "float32": ("float32", "F32", 4),
    "float16": ("float16", "F16", 2),
    "bfloat16": ("bfloat16", "BF16", 2),
    "float8_e4m3": ("float8_e4m3fn", "F8_E4M3", 1),
    "float8_e4m3fn": ("float8_e4m3fn", "F8_E4M3", 1),
    "float8_e5m2": ("float8_e5m2", "F8_E5M2", 1),
    "int64": ("int64", "I64", 8),
    "int32": ("int32", "I32", 4),
    "int16": ("int16", "I16", 2),
    "int8": ("int8", "I8", 1),
    "bool": ("bool", "BOOL", 1),
}


class Axis(ForeignModel):
    """A dimension: a constant, or one whose size each workload gives."""

    type: Literal["const", "var"]
    value: Annotated[int | None, Field(ge=1, le=AXIS_MAX)] = None


class TensorSpec(ForeignModel):
    """A tensor by its axes, or a plain number if the shape is null."""

    shape: list[str] | None
    dtype: str


class Definition(ForeignModel):
    """What is computed: tensors by name, and the reference as Python."""

    name: Name
    description: str | None = None
    axes: dict[str, Axis]
    inputs: Annotated[dict[str, TensorSpec], Field(min_length=1)]
    outputs: Annotated[dict[str, TensorSpec], Field(min_length=1)]
    reference: str


class InputSource(ForeignModel):
    """Where the value of an input comes from."""

    type: Literal["random", "scalar", "safetensors"]
    value: bool | int | float | None = None
    path: str = ""
    tensor_key: str = ""


class Workload(ForeignModel):
    """The sizes of the variable axes, and the source of each input."""

    uuid: Name
    axes: dict[str, Annotated[int, Field(ge=0, le=AXIS_MAX)]]
    inputs: dict[str, InputSource]


class WorkloadLine(ForeignModel):
    """A line of a file of workloads."""

    workload: Workload


def read_workloads(data: bytes) -> list[Workload]:
    """Read a file of workloads, a JSON object in each line. Errors: Refused `bad_problem`."""
    workloads = []
    for number, line in enumerate(data.splitlines(), 1):
        if line.strip():
            document = parse_json(f"{WORKLOADS}, line {number}", line)
            workloads.append(validate_document(document, WorkloadLine).workload)
    if not 0 < len(workloads) <= WORKLOADS_MAX:
        reason = f"{WORKLOADS} has {len(workloads)} workloads: 1 to {WORKLOADS_MAX} are possible"
        raise bad_problem(reason, WORKLOADS)
    uuids = [workload.uuid for workload in workloads]
    if len(set(uuids)) < len(uuids):
        raise bad_problem(f"{WORKLOADS}: two workloads have one uuid: change one", WORKLOADS)
    return workloads


def tensor_paths(workloads: list[Workload]) -> list[str]:
    """Return the safetensors files that workloads name, relative to the root of their set.

    Errors: Refused `bad_problem` for a path that leaves the set.
    """
    sources = [source for workload in workloads for source in workload.inputs.values()]
    paths = {source.path for source in sources if source.type == "safetensors"}
    normalized = {path: normalize_path(path) or "" for path in paths}
    for path, normal in normalized.items():
        if not normal or normal.startswith(UP):
            raise bad_problem(f"{WORKLOADS}: {quote_value(path)} is outside the set", WORKLOADS)
    return sorted(set(normalized.values()))


def read_definition(files: Mapping[str, bytes]) -> ProblemSource | None:
    """Read the problem of a definition and its workloads; None if there is none.

    Errors: Refused `bad_problem`, naming what is wrong or missing.
    """
    if DEFINITION not in files:
        return None
    definition = validate_document(parse_json(DEFINITION, files[DEFINITION]), Definition)
    _check_definition(definition)
    if WORKLOADS not in files:
        raise bad_problem(f"{WORKLOADS} is missing: put it beside {DEFINITION}", WORKLOADS)
    workloads = read_workloads(files[WORKLOADS])
    # Files with the same tensors are read once.
    tensors = {
        path: _Safetensors(path, files[f"{TENSORS}{path}"]) if f"{TENSORS}{path}" in files else None
        for path in tensor_paths(workloads)
    }
    data = {
        workload.uuid: _WorkloadReader(definition, workload, tensors).read()
        for workload in workloads
    }
    text = f"WORKLOADS = {data!r}\n".encode()
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
    task = {
        "files": [
            {"name": "submission.py", "source": SUBMISSION},
            *({"name": name, "source": f"@{name}"} for name in names),
            *({"name": name, "source": name} for name in (DEFINITION, WORKLOADS)),
        ],
        "lang": "py",
        "config": {"main": REFERENCE},
        "description": f"{definition.description or definition.name}\n\n{_DESCRIPTION}",
        "tests": cases,
        "benchmarks": cases,
        "ranking_by": "geom",
    }
    baseline = BaselineYml(name=BASELINE, file=_BASELINE_FILE, note="the definition's reference")
    return ProblemSource(Document(DEFINITION, task, {}), "", written, (baseline,), calls=0)


def reference_solution(code: bytes) -> bytes:
    """Return the reference of a definition as a submission."""
    return code + VALUE_STYLE.format(run=_RUN).encode()


def _check_definition(definition: Definition) -> None:
    if not read_module(f"the reference of {DEFINITION}", definition.reference.encode()).has(_RUN):
        raise bad_problem(f"{DEFINITION}: its reference does not define {_RUN}", DEFINITION)
    specs = {**definition.inputs, **definition.outputs}
    reasons = [
        f"the constant axis {quote_value(name)} has no value"
        for name, axis in definition.axes.items()
        if axis.type == "const" and axis.value is None
    ]
    reasons += [
        f"{quote_value(name)} has dtype {quote_value(spec.dtype)}: there are {', '.join(_DTYPES)}"
        for name, spec in specs.items()
        if spec.dtype not in _DTYPES
    ]
    reasons += [
        f"{quote_value(name)} has the unknown axis {quote_value(axis)}"
        for name, spec in specs.items()
        for axis in spec.shape or ()
        if axis not in definition.axes
    ]
    reasons += [
        f"the output {quote_value(name)} is a plain number: only tensors are possible"
        for name, spec in definition.outputs.items()
        if spec.shape is None
    ]
    if reasons:
        raise bad_problem(f"{DEFINITION}: {reasons[0]}", DEFINITION)


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

    def read(self) -> dict[str, Any]:
        """Return the sources of the inputs and the shapes of the outputs."""
        unknown = self._workload.inputs.keys() - self._definition.inputs.keys()
        if unknown:
            self._refuse(f"has the unknown input {quote_value(min(unknown))}")
        inputs = {name: self._input(name, spec) for name, spec in self._definition.inputs.items()}
        outputs = {
            name: [_DTYPES[spec.dtype][0], self._shape(spec)]
            for name, spec in self._definition.outputs.items()
        }
        return {"inputs": inputs, "outputs": outputs}

    def _shape(self, spec: TensorSpec) -> list[int]:
        shape = []
        for name in spec.shape or ():
            axis = self._definition.axes[name]
            size = axis.value if axis.type == "const" else self._workload.axes.get(name)
            if size is None:
                self._refuse(f"gives no size for axis {quote_value(name)}")
            shape.append(size)
        return shape

    def _input(self, name: str, spec: TensorSpec) -> list[Any]:
        source = self._workload.inputs.get(name)
        if source is None:
            self._refuse(f"has no input {quote_value(name)}")
        if (source.type == "scalar") != (spec.shape is None):
            expected = "a scalar" if spec.shape is None else "random or a tensor of safetensors"
            self._refuse(f"gives {quote_value(name)} as {source.type}: it is {expected}")
        if source.type == "scalar":
            if source.value is None or not math.isfinite(source.value):
                self._refuse(f"gives {quote_value(name)} no finite value")
            return ["scalar", source.value]
        dtype, stored_dtype, item_bytes = _DTYPES[spec.dtype]
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
the tensors of `outputs` and return that map. Floats are correct within 10⁻², relative and absolute
alike, and in small answers within 2 % of their mean magnitude; all others must be equal."""
_REFERENCE = '''\
"""Written by Warpboard from a FlashInfer-Trace definition and its workloads."""

import base64

import torch
from definition_code import run
from definition_data import WORKLOADS
from utils import is_close_by_scale

TOLERANCE = 1e-2
INTEGERS_MAX = 1000
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def generate_input(workload, seed):
    """Return the inputs of a workload, and buffers for its outputs."""
    generator = torch.Generator(DEVICE).manual_seed(seed)
    given = WORKLOADS[workload]
    return {
        "inputs": {name: _value(source, generator) for name, source in given["inputs"].items()},
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
    for name, want in expected.items():
        got = output[name]
        if got.shape != want.shape or got.dtype != want.dtype:
            return False, f"{name} is {got.dtype} {list(got.shape)}"
        if want.is_floating_point():
            wrong = ~is_close_by_scale(got, want, TOLERANCE, TOLERANCE)[0]
        else:
            wrong = got != want
        if bool(wrong.any()):
            return False, f"{name}: {int(wrong.sum())} of {wrong.numel()} values are wrong"
    return True, ""


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
