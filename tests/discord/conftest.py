"""One simulator with one bot for all tests; violations of either fail the test."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from discord_sim.documents import Validators
from discord_sim.simulator import Simulator
from tests.discord.announcing import start_announcing
from tests.discord.bot_process import BotProcess, load_validators, missing_documents
from tests.discord.channel_users import WHY, ChannelUser, grant_role
from tests.discord.platform import EdgePlatform, launch_platform
from tests.support.people import add_problem
from tests.support.platform import ROOT
from tests.support.servers import skip_without_nats, skip_without_postgres

# They import discord.py, which takes a second of every worker that only collects.
collect_ignore = ["bot.py", "views.py", "wrong_bot.py"]


@pytest.fixture(scope="session")
def validators() -> Validators:
    """The validators of Discord's documents that the environment names."""
    return load_validators()


@pytest.fixture
def documents(validators: Validators) -> Validators:
    """The validators of both documents; without them the test is skipped."""
    if lost := missing_documents():
        pytest.skip(f"{' and '.join(lost)} must name Discord's documents: nothing is held to them")
    return validators


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def bot_process(
    validators: Validators, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[BotProcess]:
    """A simulator with the bot connected to it."""
    log = tmp_path_factory.mktemp("bot") / "log.txt"
    async with Simulator(validators) as sim:
        sim.gateway.heartbeat_s = 1.0
        bot = BotProcess(sim, log)
        try:
            await bot.ready()
            yield bot
        finally:
            await bot.stop()
        assert not sim.record.lints


def check_record(sim: Simulator) -> Iterator[Simulator]:
    """Yield a simulator, and fail if it recorded violations or own faults."""
    yield sim
    record = sim.record
    faults, record.own_faults[:] = list(record.own_faults), []
    violations = record.take_violations()
    assert not faults, "\n".join(faults)
    assert not violations, "\n".join(violations)


@pytest.fixture
def sim(bot_process: BotProcess) -> Iterator[Simulator]:
    """The simulator with the small bot; recorded violations fail the test."""
    yield from check_record(bot_process.sim)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def edge_platform(
    validators: Validators, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[EdgePlatform]:
    """One platform and one simulated Discord for all tests of the bot."""
    skip_without_nats()
    skip_without_postgres()
    folder = tmp_path_factory.mktemp("edge")
    running = await asyncio.to_thread(launch_platform, folder / "home")
    try:
        await asyncio.to_thread(
            add_problem, running.url, ROOT / "problems" / "identity", running.operator
        )
        async with Simulator(validators) as sim:
            dsn = running.postgres.dsn_of("discord_edge")
            roles = {"creator": await sim.add_role("authors")}
            for name in ("moderator", "admin"):
                roles[name] = await sim.add_role(f"{name}s", "manage_guild")
            found = EdgePlatform(running, sim, folder / "edge.log", dsn, roles)
            try:
                await found.start()
                yield found
            finally:
                await found.stop()
    finally:
        await asyncio.to_thread(running.stop)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def olga(edge_platform: EdgePlatform) -> AsyncIterator[ChannelUser]:
    """An admin, with the role on the server and on the platform."""
    person = edge_platform.sim.person("olga", edge_platform.roles["admin"])
    channel_user = ChannelUser(edge_platform, person, await edge_platform.sim.add_channel("office"))
    # The role on the server alone is not enough.
    asked = {"leaderboard_name": "identity", "value": "none", **WHY}
    assert "scope_missing" in await channel_user.use_command("admin deadline", **asked)
    await grant_role(edge_platform, "olga", "admin")
    yield channel_user


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def announcing(edge_platform: EdgePlatform) -> EdgePlatform:
    """The bot with announcements, for the last tests of it."""
    await start_announcing(edge_platform)
    return edge_platform


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put last the tests of a bot with announcements, so that it is restarted for them once."""
    items.sort(key=lambda item: "announcing" in getattr(item, "fixturenames", ()))


@pytest.fixture
def edge_sim(edge_platform: EdgePlatform) -> Iterator[Simulator]:
    """The simulator with the real bot; recorded violations fail the test."""
    yield from check_record(edge_platform.sim)
