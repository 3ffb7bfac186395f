"""The bot itself: its services, its login, and its commands, synced on change."""

import asyncio
import hashlib
import json
import logging
from collections.abc import Collection

import aiohttp
import discord
from discord import app_commands
from discord.ext.commands import when_mentioned
from psycopg_pool import AsyncConnectionPool

from discord_edge import accounts, operators
from discord_edge.background import retry_until_done
from discord_edge.bot.discord_py import (
    ApplicationEmojis,
    CircuitBreaker,
    trace_with_breaker,
    translate_discord_errors,
)
from discord_edge.bot.interactions import BotInteraction, Commands, reply_with_error
from discord_edge.contests import commands as contests
from discord_edge.leaderboards import commands as leaderboards
from discord_edge.leaderboards.commands import PageButton, ping
from discord_edge.notifications.channels import AppealButton, DiscordPublicChannels
from discord_edge.notifications.messenger import DirectMessenger, MessageSender
from discord_edge.notifications.postgres import PostgresLedger
from discord_edge.platform_api import LeaderboardCache, PlatformApi, RankTrends, ReadCache
from discord_edge.problems import commands as problems
from discord_edge.problems import publishing
from discord_edge.settings import PER_PROBLEM, PREFIX, Settings
from discord_edge.submissions import commands as submissions
from discord_edge.submissions.postgres import PostgresTrackedSubmissions
from discord_edge.submissions.reply import (
    CancelButton,
    CompareButton,
    ResubmitButton,
    SubmissionBot,
)
from discord_edge.submissions.threads import SubmissionThreads
from discord_edge.submissions.tracker import SubmissionSender, SubmissionTracker
from shared.errors import Failed, Refused
from shared.lifecycle import Lifecycle, run_until_first

BUTTONS = (PageButton, CancelButton, ResubmitButton, CompareButton, AppealButton)
# Failed logins count towards Discord's bans, so the attempts are slow.
LOGIN_PAUSE_S_MAX = 60.0
# Discord revokes the token of a bot that begins more than 1000 sessions a day; immediate restarts
# of the process must not lead to that.
REFUSED_S = 120.0
FINAL = (Refused, discord.LoginFailure, discord.PrivilegedIntentsRequired, discord.ConnectionClosed)
WRONG_TOKEN = 4004

_log = logging.getLogger(__name__)


def build_command_groups(roles: Collection[str]) -> list[app_commands.Group]:
    """Return the groups for participants, and those for the given platform roles.

    A module with commands lists them in `COMMANDS`, and this function alone puts them into groups.
    Discord hides the groups of operators from users who do not manage the server.
    """
    general = (*leaderboards.COMMANDS, *submissions.COMMANDS, *problems.COMMANDS)
    if "admin" in roles or "creator" in roles:
        general += (*publishing.COMMANDS, *operators.AUTHOR_COMMANDS)
    leaderboard = _build_group("leaderboard", "Submit and see results", general)
    submit = app_commands.Group(name="submit", description="Submit a file to a leaderboard")
    for command in submissions.submit_commands():
        submit.add_command(command)
    leaderboard.add_command(submit)
    contest = _build_group("contest", "See contests and take part", contests.COMMANDS)
    team = app_commands.Group(name="team", description="Your team in a contest")
    for command in contests.TEAM_COMMANDS:
        team.add_command(command)
    contest.add_command(team)
    account = _build_group("account", "Your own account", accounts.COMMANDS)
    groups = [leaderboard, contest, account]
    if "admin" in roles or "moderator" in roles:
        managers = discord.Permissions(manage_guild=True)
        moderate, admin = operators.MODERATION_COMMANDS, operators.ADMIN_COMMANDS
        groups += [
            _build_group("moderate", "Decide about submissions", moderate, managers),
            _build_group("admin", "Run the platform", admin, managers),
        ]
    return groups


def _build_group(
    name: str,
    description: str,
    group_commands: Commands,
    permissions: discord.Permissions | None = None,
) -> app_commands.Group:
    group = app_commands.Group(
        name=name, description=description, guild_only=True, default_permissions=permissions
    )
    for command in group_commands:
        group.add_command(command)
    return group


class EdgeCommandTree(app_commands.CommandTree["EdgeBot"]):
    """The commands; errors are explained in a sentence without internal details."""

    async def on_error(
        self, interaction: BotInteraction, error: app_commands.AppCommandError
    ) -> None:
        """Explain the error."""
        await reply_with_error(interaction, getattr(error, "original", error))


class EdgeBot(SubmissionBot):
    """The bot with its services; it needs no privileged intent, and mentions nobody by default."""

    sender: SubmissionSender
    tracker: SubmissionTracker

    def __init__(
        self, settings: Settings, api: PlatformApi, connections: AsyncConnectionPool
    ) -> None:
        super().__init__(
            command_prefix=when_mentioned,
            help_command=None,
            intents=discord.Intents(guilds=True),
            tree_cls=EdgeCommandTree,
            allowed_mentions=discord.AllowedMentions.none(),
        )
        self.settings, self.api = settings, api
        self.app_emojis = ApplicationEmojis()
        self.leaderboards = LeaderboardCache(api)
        self.trends = RankTrends()
        self.cache = ReadCache(api)
        self._submissions = PostgresTrackedSubmissions(connections)
        ledger = PostgresLedger(connections)
        per_problem = settings.threads == PER_PROBLEM
        threads = SubmissionThreads(
            self, self.app_emojis, api, self._submissions, per_problem=per_problem
        )
        self.tracker = SubmissionTracker(threads)
        self.channels = DiscordPublicChannels(self, settings.guild, ledger)
        self.messenger = DirectMessenger(api, self.leaderboards, MessageSender(self, ledger))
        self.sender = SubmissionSender(
            api, self._submissions, self.tracker.track, self.messenger.notify_refused
        )

    async def setup_hook(self) -> None:
        """Register buttons and commands, and resume open work, before the gateway connects."""
        self.add_dynamic_items(*BUTTONS)
        guild = discord.Object(self.settings.guild)
        # An earlier attempt to log in may have added the commands already.
        self.tree.clear_commands(guild=guild)
        roles = set(self.settings.role_names.values())
        for group in build_command_groups(roles):
            self.tree.add_command(group, guild=guild)
        self.tree.add_command(ping, guild=guild)
        await self._sync_commands(guild)
        await self.app_emojis.load(self)
        for service in (self.tracker, self.sender):
            await service.resume()

    async def _sync_commands(self, guild: discord.Object) -> None:
        payload = [item.to_dict(self.tree) for item in self.tree.get_commands(guild=guild)]
        text = json.dumps([self.application_id, payload], sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()
        name = str(guild.id)
        if await self._submissions.synced_digest(name) != digest:
            await self.tree.sync(guild=guild)
            await self._submissions.save_synced_digest(name, digest)

    async def _serve(self, token: str, life: Lifecycle) -> None:
        """Log in as soon as Discord permits, and stay. Raises errors that a retry cannot fix."""
        self.http.http_trace = trace_with_breaker(CircuitBreaker(), self.http.http_trace)
        try:
            await retry_until_done(lambda: self._log_in(token), LOGIN_PAUSE_S_MAX)
            await retry_until_done(self._stay_connected, LOGIN_PAUSE_S_MAX)
        except FINAL as error:
            reason = startup_error_text(error)
            life.report_unhealthy("discord", reason)
            _log.error("%s; the process ends in %.0f s", reason, REFUSED_S, exc_info=error)
            await asyncio.sleep(REFUSED_S)
            raise

    async def _log_in(self, token: str) -> None:
        try:
            with translate_discord_errors():
                await self.login(token)
        except (Failed, Refused):
            # The next attempt needs a new connector.
            await self.http.close()
            self.http.connector = aiohttp.TCPConnector(limit=0)
            raise

    async def _stay_connected(self) -> None:
        """Connect and stay. Raises `Failed` if the gateway never answered."""
        try:
            await self.connect()
        except AttributeError as error:
            # discord.py tries to resume even if it was never connected.
            if self.ws is not None:
                raise
            raise Failed("Discord's gateway does not answer") from error

    async def run_until(self, token: str, life: Lifecycle) -> None:
        """Serve until the process is to stop; the next process resumes the open work."""
        try:
            await run_until_first(self._serve(token, life), life.stopping.wait())
        finally:
            for service in (self.sender, self.tracker):
                await service.tasks.stop()
            await self.close()


def startup_error_text(error: BaseException) -> str:
    """Explain an error of Discord at start, and how an operator fixes it."""
    if isinstance(error, discord.LoginFailure) or getattr(error, "code", None) == WRONG_TOKEN:
        return f"Discord does not know the token: set {PREFIX}_TOKEN to the bot's (docs/discord.md)"
    if isinstance(error, discord.PrivilegedIntentsRequired):
        return "Discord requires an intent that this bot does not need: see docs/discord.md"
    if isinstance(error, Refused):
        return f"{error.reason}: is the bot in the server of {PREFIX}_GUILD? See docs/discord.md"
    return f"Discord ended the connection: {error}"
