"""Where the writer of a fact says it, and in whose name."""

from shared import subjects
from shared.events import Fact


def written(aggregate: str, fact: Fact) -> tuple[str, str]:
    """The aggregate and the actor of a fact; what an agent says of a run lies on its reports."""
    kind, *ids = aggregate.split(".")
    if fact.publisher == "gpu-agent" and kind in ("run", "report"):
        agent, run = ids
        return subjects.report(agent, run), f"agent:{agent}"
    return aggregate, "service:test"
