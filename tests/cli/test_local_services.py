"""Which services the local platform has."""

from pathlib import Path

from warpboard.processes.services import PORTS, PlatformConfig, local_services, with_discord

PLACE = PlatformConfig(
    Path("/nowhere"),
    "nats://127.0.0.1:1",
    "nats://agent-local:a-password@127.0.0.1:1",
    "postgresql://",
    {name: number for number, name in enumerate(PORTS, 1)},
    "a-token-of-operators",
    "a-key-of-readers",
)


def test_without_a_bot_there_is_no_edge() -> None:
    services = local_services(PLACE)
    assert "discord-edge" not in [service.name for service in services]
    assert not [name for service in services for name in service.environ if "EDGE" in name]


def test_a_bot_has_an_edge_that_ingest_knows() -> None:
    services = {
        local_service.name: local_service.environ
        for local_service in local_services(PLACE._replace(edge_token="t" * 16))
    }
    assert services["ingest"]["WARPBOARD_INGEST_EDGE_TOKEN"] == "t" * 16
    edge = services["discord-edge"]
    assert edge["WARPBOARD_DISCORD_EDGE_EDGE_TOKEN"] == "t" * 16
    assert edge["WARPBOARD_DISCORD_EDGE_INGEST_URL"].startswith("http://127.0.0.1:")
    assert edge["WARPBOARD_DISCORD_EDGE_NATS_URL"] == PLACE.nats_url


def test_a_simulated_discord_is_what_the_edge_takes_for_the_real_one() -> None:
    services = with_discord(PLACE._replace(edge_token="t" * 16))
    first, *_, last = services
    simulated = {
        name.removeprefix("WARPBOARD_DISCORD_SIM_"): value for name, value in first.environ.items()
    }
    assert first.name == "discord-sim"
    assert first.address == f"http://{simulated['LISTEN']}/sim/"
    edge = {
        name.removeprefix("WARPBOARD_DISCORD_EDGE_"): value for name, value in last.environ.items()
    }
    assert edge["API_URL"] == f"http://{simulated['LISTEN']}"
    for name in ("TOKEN", "GUILD", "LOBBY"):
        assert edge[name] == simulated[name]
    # The bot, ingest and the server agree about the roles.
    roles = dict(entry.split("=") for entry in edge["ROLES"].split(","))
    assert set(roles) == {"creator", "moderator", "admin"}
    assert simulated["ROLES"].replace(":manage_guild", "") == edge["ROLES"]
    [ingest] = [service.environ for service in services if service.name == "ingest"]
    assert ingest["WARPBOARD_INGEST_EDGE_ROLES"] == "moderator,admin"
