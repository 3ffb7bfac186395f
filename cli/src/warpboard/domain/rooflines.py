"""What times amount to beside what a GPU type can do, for people and for runs without a server."""

import json
from dataclasses import asdict
from typing import Any

from shared.problems.roofline import Work, reached, works
from warpboard.domain.answers import Answer, Roofline
from warpboard.domain.units import NOTHING

_RATES = (("G", 1.0), ("T", 1e3), ("P", 1e6))


def with_roofline(answer: Answer, manifest: bytes, gpu: str) -> Answer:
    """A local run with what each of its times amounts to; as it is where the problem says nothing.

    The server says the same of a submission.
    """
    by_case = {work.case: work for work in works(json.loads(manifest))}
    if not by_case:
        return answer
    return answer | {"cases": [_told(case, by_case, gpu) for case in answer["cases"]]}


def _told(case: Answer, by_case: dict[str, Work], gpu: str) -> dict[str, Any]:
    work, time_us = by_case.get(case["name"]), case.get("time_us")
    is_shown = work is not None and bool(time_us) and case["stage"] == "time"
    if not is_shown or work is None or not (work.bytes or work.flops):
        return case
    found = reached(work, gpu, time_us or 0.0)
    return case if found is None else case | {"roofline": asdict(found)}


def roofline_text(found: Roofline | None) -> str:
    """Rates and share of a time.

    >>> roofline_text(Roofline(bandwidth_gb_s=4100, gflops=341.7, share=0.854, bound="memory"))
    '4.1 TB/s, 342 GFLOP/s, 85 % of memory'
    >>> roofline_text(Roofline(gflops=0.25, dtype="int8")), roofline_text(None)
    ('0.25 GOP/s', '-')
    """
    if found is None:
        return NOTHING
    parts = []
    if found.bandwidth_gb_s is not None:
        parts.append(_rate(found.bandwidth_gb_s, "B/s"))
    if found.gflops is not None:
        parts.append(_rate(found.gflops, "OP/s" if found.dtype == "int8" else "FLOP/s"))
    if found.share is not None:
        parts.append(f"{share_text(found.share)} of {found.bound}")
    return ", ".join(parts) or NOTHING


def share_text(share: float | None) -> str:
    """A share of the roofline, in per cent.

    >>> share_text(0.854), share_text(0.0042), share_text(None)
    ('85 %', '0.42 %', '-')
    """
    if share is None:
        return NOTHING
    return f"{share:.0%}".replace("%", " %") if share >= 0.1 else f"{100 * share:.2g} %"


def _rate(giga: float, unit: str) -> str:
    """A rate in the unit that suits it, to three significant digits."""
    prefix, size = next((one for one in reversed(_RATES) if giga >= one[1]), _RATES[0])
    return f"{giga / size:.3g} {prefix}{unit}"
