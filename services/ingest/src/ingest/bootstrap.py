"""Builds the services of ingest over its ports, and the logins that its settings allow."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime

import httpx
from psycopg_pool import AsyncConnectionPool

from ingest.agents.service import AgentCommands
from ingest.baselines.service import Baselines
from ingest.checks.service import Checks
from ingest.consents.service import Consents
from ingest.contests.service import ContestCommands
from ingest.decisions import Decisions
from ingest.evaluations.rules import EvaluationLimits
from ingest.evaluations.service import EvaluationCommands
from ingest.histories import HistoryCache
from ingest.http.attempts import AttemptLimiter
from ingest.identity.access.feed import AccessFeed
from ingest.identity.access.usage import TokenUsage
from ingest.identity.accounts.service import Accounts, AccountTables, Tokens
from ingest.identity.invites.service import Invites
from ingest.identity.login import oauth_http
from ingest.identity.login.attempts import GrowingDelay, KnownDevices, PasswordAttempts, Slowdown
from ingest.identity.login.cli_ids import CliIdLinking, CliIds
from ingest.identity.login.oauth_http import OAuthProvider
from ingest.identity.login.postgres import LoginStore
from ingest.identity.login.service import Devices, Logins, Sessions
from ingest.identity.login.sign_in import Argon2Hasher, OAuthLogins, PasswordResets, SignIn
from ingest.identity.preferences.service import PreferenceCommands
from ingest.leaderboards.service import Leaderboards
from ingest.merges.service import Merges
from ingest.moderation.service import Moderation
from ingest.platform.service import Operators
from ingest.ports import Ports
from ingest.problems.service import Problems
from ingest.quotas.service import Quotas
from ingest.reruns.service import Reruns
from ingest.settings import Settings
from ingest.submissions.admission import DEFAULT_LIMITS, AdmissionLimits
from ingest.submissions.intake import Intake
from ingest.submissions.service import Submissions
from shared.clock import now
from shared.errors import Failed

WRONG_CODES = "10/hour"
WRONG_CODES_PER_ADDRESS = Settings.wrong_codes_per_address
PURGE_EVERY_S = 60.0
# Of a browser that logged in before, for one name.
PASSWORDS_PER_DEVICE = "10/hour"
# Right or wrong ones.
USER_CODES_PER_PARTICIPANT = "30/hour"
DEFAULT_EVALUATION_LIMITS = EvaluationLimits()
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Ingest:
    """The ports and services of ingest, by feature."""

    ports: Ports
    decisions: Decisions
    intake: Intake
    submissions: Submissions
    evaluations: EvaluationCommands
    quotas: Quotas
    problems: Problems
    checks: Checks
    agents: AgentCommands
    reruns: Reruns
    baselines: Baselines
    moderation: Moderation
    operators: Operators
    boards: Leaderboards
    invites: Invites
    people: Accounts
    consents: Consents
    contests: ContestCommands
    preferences: PreferenceCommands
    tokens: Tokens
    account_tables: AccountTables
    merges: Merges
    feed: AccessFeed


def ingest(
    ports: Ports,
    feed: AccessFeed,
    bounds: AdmissionLimits = DEFAULT_LIMITS,
    evaluation_limits: EvaluationLimits = DEFAULT_EVALUATION_LIMITS,
    wrong_codes_per_address: str = WRONG_CODES_PER_ADDRESS,
) -> Ingest:
    """Build the services over these ports and the access feed."""
    decisions = Decisions(ports.log, ports.clock, feed)
    histories = HistoryCache(ports.log)
    quotas = Quotas(ports, decisions, histories, feed, bounds.open_max)
    intake = Intake(ports, histories, quotas, feed, bounds)
    people = Accounts(decisions, feed, ports.account_store)
    contests = ContestCommands(
        decisions, histories, feed, ports.account_store, ports.lookups, quotas
    )
    baselines = Baselines(ports, decisions)
    guard = contests.check_author_may_change
    problems = Problems(ports, decisions, feed, baselines, guard)
    boards = Leaderboards(decisions, feed, ports.lookups, ports.blobs, baselines, guard)
    account_attempts = AttemptLimiter(WRONG_CODES, "wrong codes")
    address_attempts = AttemptLimiter(wrong_codes_per_address, "wrong codes from your address")
    return Ingest(
        ports=ports,
        decisions=decisions,
        intake=intake,
        submissions=Submissions(ports, decisions, histories, feed),
        evaluations=EvaluationCommands(
            ports, decisions, histories, intake, feed, quotas, evaluation_limits
        ),
        quotas=quotas,
        problems=problems,
        checks=Checks(ports, decisions, problems),
        agents=AgentCommands(ports, decisions),
        reruns=Reruns(ports, decisions),
        baselines=baselines,
        moderation=Moderation(ports, decisions, feed),
        operators=Operators(ports, decisions),
        boards=boards,
        invites=Invites(decisions, feed, ports.account_store, account_attempts, address_attempts),
        people=people,
        consents=Consents(ports, decisions, feed),
        contests=contests,
        preferences=PreferenceCommands(ports, decisions, feed),
        tokens=Tokens(decisions, feed, ports.account_store, TokenUsage(ports.account_store)),
        merges=Merges(decisions, feed, people, quotas, contests),
        account_tables=AccountTables(decisions, feed, ports.account_store),
        feed=feed,
    )


def build_logins(
    settings: Settings,
    pool: AsyncConnectionPool,
    client: httpx.AsyncClient,
    linking: CliIdLinking,
    hashes: Argon2Hasher,
) -> Logins:
    """Build all logins that the settings allow."""
    people, tokens, store = linking.people, linking.tokens, LoginStore(pool)
    sign_in = build_sign_in(settings, pool, people, hashes)
    endpoints = {
        "github": oauth_http.github(settings.github_url, settings.github_api_url),
        "discord": oauth_http.discord(settings.discord_url),
    }
    applications = {
        "github": ("GitHub", settings.github_client_id, settings.github_client_secret),
        "discord": ("Discord", settings.discord_client_id, settings.discord_client_secret),
    }
    providers = {
        name: OAuthProvider(title, endpoints[name], client_id, client, secret)
        for name, (title, client_id, secret) in applications.items()
        if client_id
    }
    return Logins(
        public_url=settings.public_base,
        cli_ids=CliIds(store, linking),
        devices=Devices(store, tokens, AttemptLimiter(USER_CODES_PER_PARTICIPANT, "codes entered")),
        sessions=Sessions(tokens, people),
        sign_in=sign_in,
        oauth=OAuthLogins(providers, store, sign_in, settings.public_base),
        resets=PasswordResets(store, sign_in, tokens, settings.public_base),
        tokens=tokens,
        people=people,
        cli_id_attempts=AttemptLimiter(
            settings.cli_ids_per_address, "CLI ids for your network address"
        ),
        login_attempts=AttemptLimiter(
            settings.logins_per_address, "logins started from your network address"
        ),
    )


def build_sign_in(
    settings: Settings, pool: AsyncConnectionPool, people: Accounts, hashes: Argon2Hasher
) -> SignIn:
    """Build the sign-in with the limits of the settings."""
    clock = people.decisions.clock
    attempts = PasswordAttempts(
        per_device=AttemptLimiter(PASSWORDS_PER_DEVICE, "passwords tried in this browser"),
        per_address=AttemptLimiter(
            settings.passwords_per_address, "passwords tried from your network address"
        ),
        per_name_and_address=GrowingDelay(clock),
        per_name=Slowdown(settings.passwords_per_name, clock),
    )
    return SignIn(
        people,
        LoginStore(pool),
        hashes,
        attempts,
        KnownDevices(settings.reader_key, clock),
        signups=AttemptLimiter(
            settings.signups_per_address, "new accounts from your network address"
        ),
        is_signup_on=settings.web_signup,
    )


async def purge_expired(
    pool: AsyncConnectionPool, *other_purges: Callable[[datetime], Awaitable[object]]
) -> None:
    """Delete expired logins once a minute, and run the other purges; never returns."""
    while True:
        try:
            for purge in (LoginStore(pool).purge, *other_purges):
                await purge(now())
        except Failed as failed:
            _log.warning("cannot delete expired logins, trying again later: %s", failed)
        await asyncio.sleep(PURGE_EVERY_S)
