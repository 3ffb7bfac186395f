"""Builds the services of ingest over its ports."""

from dataclasses import dataclass

from ingest.access.feed import AccessFeed
from ingest.accounts.service import Accounts, AccountTables
from ingest.accounts.tokens import Tokens
from ingest.agents import Agents
from ingest.attempt_limiter import AttemptLimiter
from ingest.baselines import Baselines
from ingest.consents.routes import Consents
from ingest.decisions import Decisions, HistoryCache
from ingest.duels import Duels
from ingest.invites import Invites
from ingest.leaderboards import Leaderboards
from ingest.moderation.routes import Moderation
from ingest.platform import Operators
from ingest.ports import Ports
from ingest.preferences.routes import PreferenceCommands
from ingest.problems.service import Problems
from ingest.quotas.service import Quotas
from ingest.rejudges import Rejudges
from ingest.submissions.admission import DEFAULT_LIMITS, AdmissionLimits
from ingest.submissions.intake import Intake
from ingest.submissions.service import Submissions

WRONG_CODES = "10/hour"
# Allows for thirty people behind one address who each mistype a code a few times.
WRONG_CODES_PER_ADDRESS = "200/hour"


@dataclass(frozen=True)
class Ingest:
    """The services of ingest, by feature."""

    intake: Intake
    submissions: Submissions
    quotas: Quotas
    problems: Problems
    baselines: Baselines
    agents: Agents
    moderation: Moderation
    rejudges: Rejudges
    duels: Duels
    operators: Operators
    boards: Leaderboards
    invites: Invites
    people: Accounts
    consents: Consents
    preferences: PreferenceCommands
    tokens: Tokens
    account_tables: AccountTables
    feed: AccessFeed


def ingest(ports: Ports, feed: AccessFeed, bounds: AdmissionLimits = DEFAULT_LIMITS) -> Ingest:
    """Build the services over these ports and the access feed."""
    decisions = Decisions(ports.log, ports.clock)
    quotas = Quotas(ports, decisions, HistoryCache(ports.log))
    intake = Intake(ports, quotas, feed, bounds)
    people = Accounts(decisions, feed, ports.people)
    boards = Leaderboards(decisions, feed, ports.lookups, ports.blobs)
    baselines = Baselines(ports)
    account_attempts = AttemptLimiter(WRONG_CODES, "wrong codes")
    address_attempts = AttemptLimiter(WRONG_CODES_PER_ADDRESS, "wrong codes from your address")
    return Ingest(
        intake=intake,
        submissions=Submissions(ports, decisions, feed),
        quotas=quotas,
        problems=Problems(ports, decisions, feed, boards, baselines),
        baselines=baselines,
        agents=Agents(ports, decisions),
        moderation=Moderation(ports, decisions, feed),
        rejudges=Rejudges(ports, decisions),
        duels=Duels(ports, decisions),
        operators=Operators(ports, decisions),
        boards=boards,
        invites=Invites(decisions, feed, ports.people, people, account_attempts, address_attempts),
        people=people,
        consents=Consents(ports, decisions, feed),
        preferences=PreferenceCommands(ports, decisions, feed),
        tokens=Tokens(decisions, feed, ports.people),
        account_tables=AccountTables(decisions, feed, ports.people),
        feed=feed,
    )
