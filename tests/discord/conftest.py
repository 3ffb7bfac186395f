"""One simulator with one bot for all tests that ask; what either did wrong fails the test."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from discord_sim.judges import Judges
from discord_sim.simulator import Simulator
from shared.errors import Failed
from shared.servers import nats, postgresql
from tests.discord.desks import WHY, Desk, granted
from tests.discord.news_desk import told
from tests.discord.platform import Whole, launched
from tests.discord.running import BotProcess, judges, missing
from tests.support.people import add_problem
from tests.support.platform import ROOT

# They import discord.py, which takes a second of every worker that only collects.
collect_ignore = ["bot.py", "views.py", "wrong_bot.py"]


@pytest.fixture(scope="session")
def discords_judges() -> Judges:
    """Discord's documents, as far as the environment names them."""
    return judges()


@pytest.fixture
def documents(discords_judges: Judges) -> Judges:
    """Discord's documents, both; a test that is nothing without them skips loudly."""
    if lost := missing():
        pytest.skip(f"{' and '.join(lost)} must name Discord's documents: nothing is held to them")
    return discords_judges


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def world(
    discords_judges: Judges, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[BotProcess]:
    """A simulator with the bot connected to it."""
    log = tmp_path_factory.mktemp("bot") / "log.txt"
    async with Simulator(discords_judges) as sim:
        sim.gateway.heartbeat_s = 1.0
        bot = BotProcess(sim, log)
        try:
            await bot.ready()
            yield bot
        finally:
            await bot.stop()
        assert not sim.record.lints


def judged(sim: Simulator) -> Iterator[Simulator]:
    """A simulator, held to what it recorded during a test."""
    yield sim
    record = sim.record
    faults, record.own_faults[:] = list(record.own_faults), []
    violations = record.take_violations()
    assert not faults, "\n".join(faults)
    assert not violations, "\n".join(violations)


@pytest.fixture
def sim(world: BotProcess) -> Iterator[Simulator]:
    """The simulator; nobody broke a rule in a test that did not take the violations itself."""
    yield from judged(world.sim)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def whole(
    discords_judges: Judges, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Whole]:
    """One platform and one simulated Discord for all tests of the edge."""
    try:
        nats.binary()
        postgresql.binaries()
    except Failed as failed:
        pytest.skip(str(failed))
    folder = tmp_path_factory.mktemp("edge")
    running = await asyncio.to_thread(launched, folder / "home")
    try:
        await asyncio.to_thread(
            add_problem, running.url, ROOT / "problems" / "identity", running.operator
        )
        async with Simulator(discords_judges) as sim:
            dsn = running.environ("ranker")["WARPBOARD_RANKER_POSTGRES_DSN"]
            roles = {"creator": await sim.add_role("authors")}
            for name in ("moderator", "admin"):
                roles[name] = await sim.add_role(f"{name}s", "manage_guild")
            found = Whole(running, sim, folder / "edge.log", dsn, roles)
            try:
                await found.start()
                yield found
            finally:
                await found.stop()
    finally:
        await asyncio.to_thread(running.stop)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def olga(whole: Whole) -> AsyncIterator[Desk]:
    """An admin, who has both keys."""
    person = whole.sim.person("olga", whole.roles["admin"])
    desk = Desk(whole, person, await whole.sim.add_channel("office"))
    # The second key is no key.
    assert "scope_missing" in await desk.ask("admin stop", **WHY)
    await granted(whole, "olga", "admin")
    yield desk


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def telling(whole: Whole) -> AsyncIterator[Whole]:
    """The edge, told to tell everybody."""
    async with told(whole) as found:
        yield found


@pytest.fixture
def town(whole: Whole) -> Iterator[Simulator]:
    """The simulator; nobody broke a rule of Discord's in a test."""
    yield from judged(whole.sim)
