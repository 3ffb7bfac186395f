"""What ingest does for participants, authors and operators: load, decide, append, answer."""

from dataclasses import dataclass

from ingest.service.authors import Authors
from ingest.service.decisions import Decisions
from ingest.service.histories import Histories
from ingest.service.intake import Intake
from ingest.service.machines import Machines
from ingest.service.moderators import Moderators
from ingest.service.operators import Operators
from ingest.service.participants import Participants
from ingest.service.ports import Ports
from ingest.service.rejudges import Rejudges


@dataclass(frozen=True)
class Ingest:
    """All that can be asked of ingest, by who asks."""

    intake: Intake
    participants: Participants
    authors: Authors
    machines: Machines
    moderators: Moderators
    rejudges: Rejudges
    operators: Operators


def ingest(ports: Ports) -> Ingest:
    """The commands over these ports."""
    decisions = Decisions(ports.log, ports.clock)
    intake = Intake(ports, Histories(ports.log))
    return Ingest(
        intake=intake,
        participants=Participants(ports, decisions, intake),
        authors=Authors(ports, decisions),
        machines=Machines(ports, decisions),
        moderators=Moderators(ports, decisions),
        rejudges=Rejudges(ports, decisions),
        operators=Operators(ports, decisions),
    )
