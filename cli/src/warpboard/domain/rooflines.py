"""What times amount to beside what a GPU type can do, for runs without a server."""

import json
from dataclasses import asdict
from typing import Any

from shared.problems.roofline import Work, reached, works
from warpboard.domain.answers import Answer


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
