"""Where the writer of a fact says it, and in whose name."""

from shared import subjects
from shared.events import Fact


def written(agg: str, fact: Fact) -> tuple[str, str]:
    """The aggregate and the actor of a fact; what an agent says of a run lies on its reports."""
    kind, *ids = agg.split(".")
    if fact.publisher == "gpu-agent" and kind in ("run", "report"):
        agent, run = ids
        return subjects.report(agent, run), f"agent:{agent}"
    return agg, "service:test"
