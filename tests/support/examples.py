"""An example of every event, and a report of a check without findings."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TypeVar

import msgspec
from msgspec import inspect as types

from shared.clock import now
from shared.events import Fact
from shared.problems.compilation import compile_problem
from shared.problems.report import CheckReport, SolutionFound

Kind = TypeVar("Kind", bound=Fact)
type_info = cache(types.type_info)

_SCALARS: dict[type, object] = {
    types.IntType: 7,
    types.FloatType: 1.5,
    types.BoolType: True,
    types.DateTimeType: "2026-01-02T03:04:05.678901Z",
}

# A problem in one file in C++, in the older public form.
CPP = """\
//!POPCORN gpus CPU
// The older public form: "void generate_input(int size)" { is only a comment.
#ifndef REFERENCE
#define REFERENCE
#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>
constexpr int LENGTH = 33;
using input_t = std::vector<float>;
typedef input_t output_t;

input_t generate_input(int seed) {
    std::mt19937 engine(seed);
    std::normal_distribution<float> normal;
    input_t made(LENGTH);
    for (float &one : made) one = normal(engine);
    return made;
}

output_t ref_kernel(input_t data) {
    for (float &one : data) one *= 2;
    return data;
}

bool check_implementation(output_t output, output_t expected, float bound = std::max(1e-6f, 0.f)) {
    if (output.size() != expected.size()) return false;
    for (int i = 0; i < LENGTH; i++)
        if (!(std::abs(output[i] - expected[i]) <= bound)) return false;
    return true;
}
#endif
"""


def _example_value(kind: types.Type, name: str) -> object:
    if isinstance(kind, types.Metadata):
        kind = kind.type
    match kind:
        case types.ListType(item_type=item_type) | types.VarTupleType(item_type=item_type):
            return [_example_value(item_type, name)]
        case types.TupleType():
            return [_example_value(item_type, name) for item_type in kind.item_types]
        case types.DictType():
            return {_example_value(kind.key_type, "key"): _example_value(kind.value_type, name)}
        case types.UnionType():  # An example of `X | None` is an X.
            inner = next(part for part in kind.types if not isinstance(part, types.NoneType))
            return _example_value(inner, name)
        case types.StructType() | types.DataclassType():
            return {
                field.encode_name: _example_value(field.type, field.name) for field in kind.fields
            }
    scalars = _SCALARS | {types.StrType: f"{name}-1"}
    return kind.values[0] if isinstance(kind, types.LiteralType) else scalars[type(kind)]


def example_event(kind: type[Kind]) -> Kind:
    """Return an event of a type with every field filled, the same each time.

    >>> from shared.events import RunReleased
    >>> example_event(RunReleased)
    RunReleased(reason='reason-1')
    """
    return msgspec.convert(_example_value(type_info(kind), ""), kind)


def clean_report(slug: str, files: Mapping[str, bytes], gpus: Sequence[str] = ()) -> str:
    """Return the report of a check without findings, without running it. Errors: Refused.

    It claims that a correct solution passed on every GPU type of the problem.
    """
    version = compile_problem(slug, files, gpus)
    solution = SolutionFound(name="right.py", kind="correct", verdict="passed", as_expected=True)
    report = CheckReport(
        digest=version.digest,
        harness="tests",
        is_clean=True,
        findings=[],
        solutions=[solution],
        device="tests",
        made_at=now(),
        tested_gpus=list(version.gpus),
    )
    return report.model_dump_json()
