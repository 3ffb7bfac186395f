"""One nats-server and one Postgres for all tests that ask; a skip says what is missing."""

import asyncio
import gc
import importlib
import io
import os
import signal
from collections.abc import AsyncIterator, Generator, Iterator
from pathlib import Path
from typing import Any

import certifi
import pytest
from hypothesis import settings
from nats.aio.client import Client
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from shared.nats.connection import connect
from shared.nats.event_log import NatsLog
from shared.nats.streams import ensure_streams
from shared.servers.nats import NatsServer
from tests.support.applications import share_type_adapters
from tests.support.budgets import Budget
from tests.support.harness import Warm
from tests.support.platform import (
    PATIENT,
    PROMPT_BASELINES,
    QUICK,
    ROOT,
    Running,
    run_platform,
)
from tests.support.repository import repository_settings
from tests.support.reruns import REPORT, OutputReport, report_features
from tests.support.servers import (
    SharedDatabase,
    SharedNats,
    make_logins_cheap,
    postgres_database,
    postgres_server,
    skip_without_nats,
    skip_without_postgres,
)
from tests.support.tiers import GROUPS, GroupScheduling, Guard, add_markers, file_of, scope_of
from tests.support.town import Town, found_town

# What a group of files shares and must not outlive it: an idle platform needs some of a core.
OF_A_GROUP = ("platform", "platform_to_kill", "edge_platform", "simulated_platform")
# A real bot's settings that lie about must not reach the simulated one.
REAL_BOT = {"WARPBOARD_DISCORD_EDGE_CHANNELS": "1,2", "WARPBOARD_DISCORD_EDGE_TOKEN": "real"}
AUTHORITY = str(ROOT / "tests" / "support" / "authority.pem")

# How many examples a property test tries that does not say: few in every run, many in the long one.
settings.register_profile("quick", max_examples=20, deadline=None)
settings.register_profile("thorough", max_examples=300, deadline=None)
settings.load_profile("quick")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let `make` say which tier a run is, so that the run is held to its budget."""
    parser.addoption("--tier", help="hold the run to this budget of tests/budgets.toml")


def pytest_configure(config: pytest.Config) -> None:
    """Set what the processes of tests inherit.

    They meet Ctrl-C as a shell's do: what a shell runs in the background ignores SIGINT, and hands
    that on to all it starts. They trust one authority, which signed nothing: each HTTP client reads
    all it trusts, 20 ms for the usual hundred and more, and no test speaks TLS to the internet.
    """
    # What is collected stays, so to look for garbage in it meanwhile is in vain.
    gc.disable()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    share_type_adapters()
    config.pluginmanager.register(Guard(), "guard")
    os.environ["SSL_CERT_FILE"] = AUTHORITY
    certifi.where = lambda: AUTHORITY
    tier = config.getoption("tier")
    if hasattr(config, "workerinput"):
        return
    if tier is not None:
        config.pluginmanager.register(Budget(tier), "budget")
    # Not inherited: a test may start another pytest.
    if report := os.environ.pop(REPORT, ""):
        is_rerun = config.getoption("lf")
        config.pluginmanager.register(OutputReport(Path(report), is_rerun=is_rerun), "report")


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """Hand out whole files, and the files of a group to one worker."""
    return GroupScheduling(config, log)


def _limit_s(item: pytest.Item) -> float:
    marker = item.get_closest_marker("timeout")
    return float(marker.args[0]) if marker else 0.0


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests, and put first what takes longest: what begins last is waited for.

    The files of a group follow each other. What is marked `last` follows the others of its group.
    """
    add_markers(items)
    report_features(items)
    limits_s: dict[str, float] = {}
    for item in items:
        for name in (file_of(item.nodeid), scope_of(item.nodeid)):
            limits_s[name] = max(limits_s.get(name, 0.0), _limit_s(item))

    def order(item: pytest.Item) -> tuple[bool, float, str, bool, float]:
        file, scope = file_of(item.nodeid), scope_of(item.nodeid)
        is_last = item.get_closest_marker("last") is not None
        return scope not in GROUPS, -limits_s[scope], scope, is_last, -limits_s[file]

    items.sort(key=order)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, object, object]:
    """End the platforms of a group with its last test."""
    result = yield
    if nextitem is not None and scope_of(nextitem.nodeid) != scope_of(item.nodeid):
        fixtures = item.session._fixturemanager
        for name in OF_A_GROUP:
            for definition in fixtures.getfixturedefs(name, item) or ():
                definition.finish(item._request)  # type: ignore[attr-defined]
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    call: pytest.CallInfo[None],
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Say what each task of asyncio waits for when a test exceeds its time limit."""
    report = yield
    if call.excinfo is not None and "from pytest-timeout" in str(call.excinfo.value):
        text = io.StringIO()
        for task in list(asyncio.tasks._all_tasks):  # type: ignore[attr-defined]
            if not task.done():
                task.print_stack(file=text)
        report.sections.append(("asyncio tasks", text.getvalue()))
    return report


def pytest_collection_finish() -> None:
    """Leave what was collected out of every later search for garbage: it stays to the end."""
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_sessionfinish() -> None:
    """Spare pytest's last ten searches for garbage what the first one found to be none."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def shared_nats(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedNats]:
    """The nats-server of all tests that do not stop it."""
    skip_without_nats()
    server = SharedNats(tmp_path_factory.mktemp("nats"))
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture
def nats_url(shared_nats: SharedNats) -> str:
    """An empty account on the shared nats-server."""
    return shared_nats.fresh_url()


@pytest.fixture
async def nats_client(nats_url: str) -> AsyncIterator[Client]:
    """A connection to an empty account, which has our streams."""
    nc = await connect(nats_url, "test")
    await ensure_streams(nc)
    yield nc
    await nc.close()


@pytest.fixture
def nats_log(nats_client: Client) -> NatsLog:
    """An empty log on the shared nats-server."""
    return NatsLog(nats_client)


@pytest.fixture
def own_nats(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    """An empty nats-server for a test that stops it or kills it."""
    skip_without_nats()
    server = NatsServer(tmp_path_factory.mktemp("own-nats"))
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="session")
def postgres_server_dsn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The Postgres of all tests."""
    skip_without_postgres()
    with postgres_server(tmp_path_factory.mktemp("postgres")) as dsn:
        make_logins_cheap(dsn)
        yield dsn


@pytest.fixture(scope="session")
def shared_database(postgres_server_dsn: str) -> Iterator[SharedDatabase]:
    """The database that one test after the other has for itself."""
    with postgres_database(postgres_server_dsn) as dsn:
        database = SharedDatabase(dsn)
        yield database
        database.close()


@pytest.fixture
def postgres_dsn(shared_database: SharedDatabase) -> Iterator[str]:
    """A migrated database without rows, for one test."""
    yield shared_database.dsn
    shared_database.reset()


@pytest.fixture(scope="session")
def servers() -> None:
    """Skips where there is no nats-server or no Postgres."""
    skip_without_nats()
    skip_without_postgres()


@pytest.fixture(scope="session")
def platform(servers: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:  # noqa: ARG001
    """The platform of all end-to-end tests that leave it running, with the problem identity.

    It believes names. Tests keep apart by participants and problems of their own.
    """
    folder = tmp_path_factory.mktemp("platform")
    settings = PATIENT | PROMPT_BASELINES | repository_settings(folder)
    settings |= {"WARPBOARD_RANKER_RELEASES": str(folder / "kernels")}
    yield from run_platform(Running(folder / "home", settings))


@pytest.fixture(scope="session")
def platform_to_kill(servers: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:  # noqa: ARG001
    """A platform whose processes tests kill, with the problem identity.

    Killed processes come back by themselves. A test that stops the whole platform starts it again.
    """
    running = Running(tmp_path_factory.mktemp("killed") / "home", PATIENT)
    yield from run_platform(running)
    assert running.process is not None
    assert running.process.returncode == 0, "it did not end in order"


@pytest.fixture(scope="session")
def simulated_platform(
    servers: None,  # noqa: ARG001
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Running]:
    """A platform with a simulated Discord, a launcher and local webhooks, which Ctrl-C ends."""
    folder = tmp_path_factory.mktemp("simulated") / "home"
    options = ("--discord-sim", "--launch", "1", "--local-webhooks")
    running = Running(folder, QUICK | REAL_BOT, *options)
    try:
        yield running.up()
        assert running.stop(signal.SIGINT) == 130
        assert not running.left()
    finally:
        running.end()


@pytest.fixture(scope="session")
def town(platform: Running) -> Town:
    """The shared platform with each kind of caller, an open leaderboard and a closed one."""
    return found_town(platform)


@pytest.fixture(scope="session")
def warm() -> Iterator[Warm]:
    """The harness of all tests that ask nothing special of theirs; it stays warm between them."""
    warm = Warm()
    yield warm
    warm.close()


@pytest.fixture
def torch() -> Any:
    """The library, looked up: it has no types."""
    return importlib.import_module("torch")
