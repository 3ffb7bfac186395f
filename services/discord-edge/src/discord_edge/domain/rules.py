"""By what a leaderboard judges, in words."""

from typing import Any

from discord_edge.domain.report import GREY, Card
from discord_edge.domain.wording import escaped

LINE_MAX = 400
HARNESS = (
    "The platform's own harness runs it, on data made from seeds that nobody knows before: "
    "`warpboard problem eval-code` shows which, and `warpboard run` does the same at home."
)


def judged(slug: str, rules: dict[str, Any]) -> Card:
    """How submissions to a problem are checked, timed and ranked."""
    counts = ", ".join(f"{len(found)} {name}" for name, found in rules["cases"].items())
    budgets = ", ".join(f"{name} {seconds} s" for name, seconds in rules["budgets_s"].items())
    said = {
        "cases": counts,
        "checked": rules["tolerances"],
        "score": rules["formula"],
        "ties": rules["ties"],
        "time": budgets,
        "sources": rules["source_policy"],
    }
    lines = [f"**{name}** {escaped(str(text), LINE_MAX)}" for name, text in said.items() if text]
    return Card(f"How {slug} judges", "\n".join([HARNESS, *lines]), GREY)
