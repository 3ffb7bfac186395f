"""What ingest does for participants, authors and operators: load, decide, append, answer."""

from dataclasses import dataclass

from ingest.service.account_tables import AccountTables
from ingest.service.authors import Authors
from ingest.service.bans import Bans
from ingest.service.baselines import Baselines
from ingest.service.boards import Boards
from ingest.service.consents import Consents
from ingest.service.decisions import Decisions
from ingest.service.duels import Duels
from ingest.service.gate import AccessFeed
from ingest.service.histories import Histories
from ingest.service.intake import Intake
from ingest.service.invites import Invites
from ingest.service.machines import Machines
from ingest.service.moderators import Moderators
from ingest.service.operators import Operators
from ingest.service.participants import Participants
from ingest.service.people import People
from ingest.service.ports import Ports
from ingest.service.preferences import Preferences
from ingest.service.rejudges import Rejudges
from ingest.service.room import USUAL, Bounds
from ingest.service.tokens import Tokens
from ingest.service.tries import Tries

WRONG_CODES = "10/hour"
# A class of thirty behind one address, each of whom mistypes a code a few times.
WRONG_CODES_THERE = "200/hour"


@dataclass(frozen=True)
class Ingest:
    """All that can be asked of ingest, by who asks."""

    intake: Intake
    participants: Participants
    authors: Authors
    baselines: Baselines
    machines: Machines
    moderators: Moderators
    rejudges: Rejudges
    duels: Duels
    operators: Operators
    boards: Boards
    invites: Invites
    people: People
    consents: Consents
    preferences: Preferences
    bans: Bans
    tokens: Tokens
    account_tables: AccountTables
    feed: AccessFeed


def ingest(ports: Ports, feed: AccessFeed, bounds: Bounds = USUAL) -> Ingest:
    """The commands over these ports, and over who may do what."""
    decisions = Decisions(ports.log, ports.clock)
    intake = Intake(ports, Histories(ports.log), feed, bounds)
    people = People(decisions, feed, ports.people)
    boards = Boards(decisions, feed, ports.lookups, ports.blobs)
    baselines = Baselines(ports)
    wrong = Tries(WRONG_CODES, "wrong codes")
    wrong_there = Tries(WRONG_CODES_THERE, "wrong codes from your address")
    return Ingest(
        intake=intake,
        participants=Participants(ports, decisions, intake, feed),
        authors=Authors(ports, decisions, feed, boards, baselines),
        baselines=baselines,
        machines=Machines(ports, decisions),
        moderators=Moderators(ports, decisions, feed),
        rejudges=Rejudges(ports, decisions),
        duels=Duels(ports, decisions),
        operators=Operators(ports, decisions),
        boards=boards,
        invites=Invites(decisions, feed, ports.people, people, wrong, wrong_there),
        people=people,
        consents=Consents(ports, decisions, feed),
        preferences=Preferences(ports, decisions, feed),
        bans=Bans(ports, decisions, feed),
        tokens=Tokens(decisions, feed, ports.people),
        account_tables=AccountTables(decisions, feed, ports.people),
        feed=feed,
    )
