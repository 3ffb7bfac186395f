"""How one submission differs from another."""

from typing import Any

from discord_edge.domain.report import CARD_MAX, Attached, Card
from discord_edge.domain.wording import fenced
from shared.telling.parts import verdict_text
from shared.telling.units import one_line, time_text

CASES_MAX = 30


def compared(found: dict[str, Any]) -> Card:
    """The score, each case, and what the sources differ by as a file.

    >>> side = {"number": 1, "gpu": "CPU"}
    >>> score = {"name": "score", "a_us": 2.0, "b_us": 1.0, "ratio": 0.5, "outcome": "faster"}
    >>> compared({"a": side, "b": side, "score": score, "cases": []}).body
    '```text\\nscore: 2 µs to 1 µs, ratio 0.5, faster\\n```'
    """
    a, b = found["a"], found["b"]
    lines = [_line(one) for one in (found["score"], *found["cases"][:CASES_MAX])]
    diff = found.get("diff")
    body = "\n".join(lines)
    return Card(
        title=f"#{b['number']} compared with #{a['number']}",
        body=fenced(body if len(body) <= CARD_MAX else body[: CARD_MAX - 1] + "…"),
        footer="a ratio under 1: the second is the faster",
        files=(Attached("difference.diff", diff.encode()),) if diff else (),
    )


def _line(one: dict[str, Any]) -> str:
    """A case under both: its times where either has one, and what is to be said of it.

    >>> _line({"name": "n=1", "a_verdict": "passed", "b_verdict": "wrong_answer", "outcome": ""})
    'n=1: passed, then wrong answer'
    """
    name, a_us, b_us = one_line(str(one["name"]), 40), one.get("a_us"), one.get("b_us")
    a, b = (one.get(f"{side}_verdict") for side in "ab")
    said = str(one["outcome"]) if a == b else f"{_verdict(a)}, then {_verdict(b)}"
    times = f"{time_text(a_us)} to {time_text(b_us)}, " if a_us or b_us else ""
    ratio = f"ratio {one['ratio']:.3g}, " if one.get("ratio") is not None else ""
    return f"{name}: {times}{ratio}{said}"


def _verdict(verdict: str | None) -> str:
    return "not run" if verdict is None else verdict_text(verdict)
