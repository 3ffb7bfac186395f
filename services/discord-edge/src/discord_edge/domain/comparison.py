"""How one submission differs from another."""

from typing import Any

from discord_edge.domain.report import CARD_MAX, Card
from discord_edge.domain.wording import fenced
from shared.telling.units import NOTHING, one_line, time_text

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
        file=("difference.diff", diff.encode()) if diff else None,
    )


def _line(one: dict[str, Any]) -> str:
    ratio = f"{one['ratio']:.3g}" if one.get("ratio") is not None else NOTHING
    times = f"{time_text(one.get('a_us'))} to {time_text(one.get('b_us'))}"
    return f"{one_line(str(one['name']), 40)}: {times}, ratio {ratio}, {one['outcome']}"
