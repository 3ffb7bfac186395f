"""Builds the services of ingest over its ports."""

from dataclasses import dataclass

from ingest.access.feed import AccessFeed
from ingest.accounts.service import Accounts, AccountTables, Tokens
from ingest.baselines import Baselines
from ingest.consents.routes import Consents
from ingest.decisions import Decisions, HistoryCache
from ingest.http.middleware import AttemptLimiter
from ingest.invites import Invites
from ingest.leaderboards import Leaderboards
from ingest.moderation.routes import Moderation
from ingest.platform import Operators
from ingest.ports import Ports
from ingest.preferences.routes import PreferenceCommands
from ingest.problems.routes import Problems
from ingest.quotas.service import Quotas
from ingest.submissions.admission import DEFAULT_LIMITS, AdmissionLimits
from ingest.submissions.intake import Intake
from ingest.submissions.routes import Submissions

WRONG_CODES = "10/hour"
# Allows for thirty people behind one address who each mistype a code a few times.
WRONG_CODES_PER_ADDRESS = "200/hour"


@dataclass(frozen=True)
class Ingest:
    """The ports and services of ingest, by feature."""

    ports: Ports
    decisions: Decisions
    intake: Intake
    submissions: Submissions
    quotas: Quotas
    problems: Problems
    baselines: Baselines
    moderation: Moderation
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
    decisions = Decisions(ports.log, ports.clock, feed)
    quotas = Quotas(ports, decisions, HistoryCache(ports.log))
    intake = Intake(ports, quotas, feed, bounds)
    people = Accounts(decisions, feed, ports.people)
    boards = Leaderboards(decisions, feed, ports.lookups, ports.blobs)
    baselines = Baselines(ports, decisions)
    account_attempts = AttemptLimiter(WRONG_CODES, "wrong codes")
    address_attempts = AttemptLimiter(WRONG_CODES_PER_ADDRESS, "wrong codes from your address")
    return Ingest(
        ports=ports,
        decisions=decisions,
        intake=intake,
        submissions=Submissions(ports, decisions, feed),
        quotas=quotas,
        problems=Problems(ports, decisions, feed, boards, baselines),
        baselines=baselines,
        moderation=Moderation(ports, decisions, feed),
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
