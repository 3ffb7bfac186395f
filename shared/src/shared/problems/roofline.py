"""The least work of a problem's timed cases, and how near a time comes to what a GPU can do."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from shared.gpus import GPUS, Gpu, gpu
from shared.problems.cases import Case
from shared.problems.document import Document
from shared.problems.formula import FORMULA_CHARS_MAX, BadFormula, value
from shared.problems.schema import Strict

KEY = "roofline"
# A floor holds what nobody can do, so it lies under the roofline: a type has forms with a faster
# memory than the data sheet's, such as H100 NVL, and clocks go above those that a sheet counts by.
FLOOR_SHARE = 1 / 1.2
FLOOR_DIGITS = 6


def _as_text(given: object) -> object:
    """A number is a formula, too."""
    is_number = isinstance(given, int | float) and not isinstance(given, bool)
    return repr(given) if is_number else given


Formula = Annotated[
    str, Field(min_length=1, max_length=FORMULA_CHARS_MAX), BeforeValidator(_as_text)
]


class RooflineYml(Strict):
    """What each call has to do at the least, as formulas over the arguments of its case.

    Units: `bytes` read and written, `written` of them; `flops` operations of `dtype`; `floor_us`
    microseconds, in the place of a floor made of the others.
    """

    bytes: Formula | None = None
    written: Formula | None = None
    flops: Formula | None = None
    dtype: Literal["fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "fp4", "int8"] | None = None
    floor_us: Formula | None = None


@dataclass(frozen=True)
class Work:
    """The least that a call of a case moves and computes. Units: bytes, operations, microseconds.

    `written` is the part of `bytes` that may still lie in a cache when the call ends. No
    `floor_us` is one made of the rest.
    """

    case: str
    bytes: float = 0.0
    written: float = 0.0
    flops: float = 0.0
    dtype: str = ""
    floor_us: float | None = None


@dataclass(frozen=True)
class Reached:
    """What a time amounts to; `share` is that of the roofline, None where no sheet is known.

    Units: 10^9 bytes, and 10^9 operations, a second. `bound` is what the roofline is made of:
    `memory` or `compute`.
    """

    bandwidth_gb_s: float | None
    gflops: float | None
    dtype: str
    share: float | None
    bound: str | None


def of_roofline(
    document: Document | None, asked: RooflineYml | None, cases: Sequence[Case]
) -> dict[str, Any]:
    """What a manifest says of it: formulas, and what they come to for each timed case.

    Nothing where nothing is asked, so that the digest of such a problem stays. Errors: Refused.
    """
    if asked is None or document is None:
        return {}
    _check(document, asked)
    formulas = asked.model_dump(exclude_none=True)
    return {KEY: formulas | {"cases": [_worth(document, formulas, case) for case in cases]}}


def works(manifest: Mapping[str, Any]) -> tuple[Work, ...]:
    """The least work of each timed case, in their order; empty where nobody said."""
    said = manifest.get(KEY)
    if said is None:
        return ()
    dtype = said.get("dtype", "")
    pairs = zip(manifest["benchmarks"], said["cases"], strict=True)
    return tuple(Work(case=case["name"], dtype=dtype, **worth) for case, worth in pairs)


def roofline_us(work: Work, kind: str) -> float | None:
    """The time that a call would take at the rates of a GPU type's data sheet; None if unknown.

    >>> round(roofline_us(Work("size=1", bytes=4.8e6, flops=1e6, dtype="fp32"), "H200"), 9)
    1.0
    >>> roofline_us(Work("size=1", bytes=4.8e6), "CPU") is None
    True
    """
    found = gpu(kind)
    return None if found is None else max(_times_us(work, found), default=(None, ""))[0]


def reached(work: Work, kind: str, time_us: float) -> Reached | None:
    """What a time amounts to on a GPU type; None of a time that is none."""
    if not time_us > 0:
        return None
    found = gpu(kind)
    least_us, bound = max(_times_us(work, found), default=(None, None)) if found else (None, None)
    return Reached(
        bandwidth_gb_s=work.bytes / time_us / 1e3 if work.bytes else None,
        gflops=work.flops / time_us / 1e3 if work.flops else None,
        dtype=work.dtype,
        share=None if least_us is None else least_us / time_us,
        bound=bound,
    )


def floors_us(work: Work) -> dict[str, float]:
    """The time that no call can be under, by GPU type; "" is any that is not named.

    What is written may stay in the last cache, as far as it fits: the inputs alone are cold.
    Source: docs/adr/0054.
    """
    if work.floor_us is not None:
        return {"": work.floor_us} if work.floor_us else {}
    found = {one.name: _floor_us(work, one) for one in GPUS}
    return {name: least_us for name, least_us in found.items() if least_us}


def _floor_us(work: Work, on: Gpu) -> float:
    left = work.bytes - min(work.written, on.cache_bytes)
    cold = Work(work.case, bytes=left, flops=work.flops, dtype=work.dtype)
    least_us = max((time_us for time_us, _ in _times_us(cold, on)), default=0.0)
    return float(f"{least_us * FLOOR_SHARE:.{FLOOR_DIGITS}g}")


def _times_us(work: Work, on: Gpu) -> list[tuple[float, str]]:
    """What each of a GPU's two rates asks for, as far as it is known."""
    times = [(work.bytes / on.bandwidth * 1e6, "memory")] if work.bytes else []
    rate = on.flops(work.dtype) if work.flops else None
    return times + ([(work.flops / rate * 1e6, "compute")] if rate else [])


def _check(document: Document, asked: RooflineYml) -> None:
    if asked.bytes is asked.flops is asked.floor_us is None:
        document.refuse((KEY,), "a roofline of nothing: write bytes, flops or floor_us")
    if asked.flops is not None and asked.dtype is None:
        what = "flops of no dtype: write that of the fastest unit that may do them, such as fp32"
        document.refuse((KEY, "flops"), what)
    if asked.dtype is not None and asked.flops is None:
        document.refuse((KEY, "dtype"), "a dtype without flops: write them, or leave it out")
    if asked.written is not None and asked.bytes is None:
        document.refuse((KEY, "written"), "written is a part of bytes: write bytes too")


def _worth(document: Document, formulas: Mapping[str, str], case: Case) -> dict[str, float]:
    """What the formulas come to for a case."""
    found: dict[str, float] = {}
    for key in ("bytes", "written", "flops", "floor_us"):
        if key in formulas:
            found[key] = _value(document, key, formulas[key], case)
    if found.get("written", 0.0) > found.get("bytes", 0.0):
        what = f"written is more than bytes for the case {case.name}: it is a part of them"
        document.refuse((KEY, "written"), what)
    return found


def _value(document: Document, key: str, text: str, case: Case) -> float:
    try:
        return value(text, case.args)
    except BadFormula as bad:
        document.refuse((KEY, key), f"{key} {text!r} {bad}; the case is {case.name}")
