"""Which services the local platform has."""

from pathlib import Path

from shared.servers.postgresql import ROLES
from warpboard.domain.demand import Device
from warpboard.processes.services import (
    PORTS,
    PlatformConfig,
    agent_ids,
    local_services,
    platform_ports,
    with_discord,
)

PLACE = PlatformConfig(
    Path("/nowhere"),
    "nats://127.0.0.1:1",
    Path("/keys"),
    ["local"],
    dict.fromkeys(ROLES, "postgresql://"),
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
    server_roles = {entry.partition("=")[0] for entry in simulated["ROLES"].split(",")}
    assert server_roles == set(roles.values())
    assert {"Leaderboard Creator", "Leaderboard Admin"} < server_roles
    [ingest] = [service.environ for service in services if service.name == "ingest"]
    assert ingest["WARPBOARD_INGEST_EDGE_ROLES"] == "creator,moderator,admin"


def test_each_device_of_a_mixed_host_has_an_agent_with_an_account_and_a_port() -> None:
    devices = (Device("cuda", 0), Device("cuda", 1), Device("hip", 0))
    ports = {name: number for number, name in enumerate(platform_ports(3), 1)}
    place = PLACE._replace(ports=ports, agents=agent_ids(3), devices=devices)
    agents = [service for service in local_services(place) if service.name.startswith("gpu-agent")]
    settings = [
        {name.removeprefix("WARPBOARD_GPU_AGENT_"): text for name, text in agent.environ.items()}
        for agent in agents
    ]
    assert [agent["ID"] for agent in settings] == ["local", "local-1", "local-2"]
    assert [agent["NATS_CREDENTIALS"] for agent in settings] == [
        "/keys/agent-local.creds",
        "/keys/agent-local-1.creds",
        "/keys/agent-local-2.creds",
    ]
    assert [(agent["DEVICE"], agent["GPU_INDEX"]) for agent in settings] == [
        ("cuda", "0"),
        ("cuda", "1"),
        ("hip", "0"),
    ]
    assert len({agent["DATA"] for agent in settings}) == len({agent.ops_port for agent in agents})
