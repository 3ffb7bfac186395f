"""All that a measurement saw, as plain values: whoever doubts a number can make it again."""

import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from harness.timing.combination import CaseTime
from harness.timing.process import Block, Process
from harness.timing.source import Sample

_VERSION = 1


def record(
    processes: Sequence[Process], time: CaseTime, dropped: Sequence[Process] = ()
) -> dict[str, Any]:
    """One case: what was concluded, and what from; about 10 to 40 kB compressed.

    `dropped` are processes that were measured and do not count.
    """
    return {
        "time": asdict(time),
        "processes": [_of_process(one) for one in processes],
        "dropped_processes": [_of_process(one) for one in dropped],
    }


def compressed(cases: Mapping[str, Any]) -> bytes:
    """The file samples.json.gz: records by the name of their case, the same bytes for the same."""
    body = {"version": _VERSION, "unit": "us", "cases": cases}
    text = json.dumps(body, allow_nan=False, separators=(",", ":"), sort_keys=True)
    return gzip.compress(text.encode(), mtime=0)


def _of_process(process: Process) -> dict[str, Any]:
    return {
        "grade": process.grade,
        "value_us": process.value_us,
        "calibration": dict(process.calibration),
        "probes": list(process.probes),
        "first_probes": list(process.first_probes),
        "last_probes": list(process.last_probes),
        "deviation": dict(process.deviation),
        "references": process.references,
        "nulls": _of_samples(process.nulls),
        "warm_ups": _of_samples(process.warm_ups),
        "looks": [asdict(look) for look in process.looks],
        "blocks": [_of_block(block) for block in process.blocks],
    }


def _of_block(block: Block) -> dict[str, Any]:
    return {
        "value_us": block.value_us,
        "wall_s": block.wall_s,
        "is_counted": block.is_counted,
        "references": [[one.name, one.slot, one.time_us] for one in block.references],
        **_of_samples(block.samples),
    }


def _of_samples(samples: Sequence[Sample]) -> dict[str, Any]:
    """Times by slot; flags by the slot that has any, for nearly none has."""
    flags = {str(slot): list(one.flags) for slot, one in enumerate(samples) if one.flags}
    lost = {str(slot): one.lost_us for slot, one in enumerate(samples) if one.lost_us}
    return {"time_us": [one.time_us for one in samples], "flags": flags, "lost_us": lost}
