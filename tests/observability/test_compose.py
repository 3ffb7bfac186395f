"""The deployment is pinned, configured with known settings, and contains no secrets."""

import json
import os
import re
import shutil
import subprocess
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import yaml
from docs import bus
from nats import errors

import discord_edge.settings
import gpu_agent.settings
import ingest.settings
import ranker.settings
import scheduler.settings
import shared.database.settings
from scheduler.launcher import settings as launcher_settings
from shared.bus_keys.authority import Authority
from shared.bus_keys.certificates import CertificateFolder
from shared.bus_keys.login import BusLogin
from shared.errors import Failed
from shared.nats.connection import connect
from shared.nats.event_log import NatsLog
from shared.nats.streams import ensure_streams
from shared.servers import nats
from shared.version import VERSION
from tests.observability.prometheus import DEPLOY
from tests.support.servers import skip_without_nats
from tests.support.waits import find_free_ports

COMPOSE = DEPLOY / "compose.yaml"
SETTINGS = {
    "database": shared.database.settings.Settings,
    "ingest": ingest.settings.Settings,
    "ranker": ranker.settings.Settings,
    "scheduler": scheduler.settings.Settings,
    "gpu-agent": gpu_agent.settings.Settings,
    "discord-edge": discord_edge.settings.Settings,
    "launcher": launcher_settings.Settings,
}
NEEDED = re.findall(r"\$\{([A-Z_]+):\?", COMPOSE.read_text(encoding="utf-8"))
ENVIRON = dict.fromkeys(NEEDED, "stands-in")


def services() -> dict[str, dict[str, Any]]:
    """The services of compose.yaml."""
    services_: dict[str, dict[str, Any]] = yaml.safe_load(COMPOSE.read_text())["services"]
    return services_


def repeated_keys(node: yaml.Node) -> list[str]:
    """The keys that a mapping has twice, which Compose refuses and PyYAML does not."""
    if isinstance(node, yaml.SequenceNode):
        return [key for item in node.value for key in repeated_keys(item)]
    if not isinstance(node, yaml.MappingNode):
        return []
    names = [key.value for key, _ in node.value]
    found = [key for _, value in node.value for key in repeated_keys(value)]
    return found + [name for name in set(names) if names.count(name) > 1]


@pytest.mark.parametrize("path", sorted(DEPLOY.rglob("*.y*ml")), ids=lambda path: path.name)
def test_no_key_stands_twice(path: Path) -> None:
    documents = yaml.compose_all(path.read_text(encoding="utf-8"))
    assert [key for node in documents for key in repeated_keys(node)] == []


def compose() -> list[str]:
    """A Compose, of either kind."""
    if old := shutil.which("docker-compose"):
        return [old]
    docker = shutil.which("docker")
    if docker is None or "compose" not in _said(docker, "compose", "version").stdout.lower():
        pytest.skip("NOT RUN: no docker compose here; apt-get install docker-compose")
    return [docker, "compose"]


def _said(*command: str, **environ: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command,
        env={"PATH": os.environ["PATH"]} | environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def config(**environ: str) -> "subprocess.CompletedProcess[str]":
    """The file as Compose resolves it; needs no daemon."""
    return _said(*compose(), "-f", str(COMPOSE), "config", **environ)


@pytest.mark.parametrize("profiles", ["single", "cluster", "single,agent,discord,launcher"])
def test_compose_understands_the_file(profiles: str) -> None:
    checked = config(**ENVIRON, COMPOSE_PROFILES=profiles)
    assert checked.returncode == 0, checked.stderr


def test_nothing_starts_without_its_secrets() -> None:
    assert config(COMPOSE_PROFILES="single").returncode != 0


def test_no_file_here_holds_a_secret() -> None:
    files = (
        path for path in DEPLOY.rglob("*") if path.is_file() and path.suffix not in (".md", ".pyc")
    )
    texts = {path: path.read_text() for path in files}
    for path, text in texts.items():
        secrets = re.findall(
            r"(?i)(?:password|token|secret)(?!name|ref)\w*[\"']?\s*[:=][ \t]*(\S+)", text
        )
        # The last of these mount no token, and name secrets of Kubernetes and of Modal.
        named = ("$", "?", "false", "{secretName:", "[modal.Secret.from_name")
        # In Python only a literal could be one; the rest is code.
        words = [word for word in secrets if path.suffix != ".py" or word.startswith(("'", '"'))]
        plain = [word for word in words if not word.startswith(named)]
        assert plain == [], f"{path}: {plain}"


def test_every_image_is_pinned() -> None:
    images = {name: service["image"] for name, service in services().items()}
    assert images
    for name, image in images.items():
        version = VERSION if "build" in services()[name] else r"v?\d+\.\d+.*"
        assert re.fullmatch(rf"[\w./-]+:{version}", image), image


@pytest.mark.parametrize("name", SETTINGS)
def test_every_service_is_confined_and_says_whether_it_is_well(name: str) -> None:
    service = services()[name]
    assert service["security_opt"] == ["no-new-privileges:true"]
    if name == "gpu-agent":
        return
    assert service["cap_drop"] == ["ALL"]
    assert service["read_only"] is True
    assert service["user"] == "10001:10001"
    assert "/healthz" in service["healthcheck"]["test"][-1]


def test_no_container_sees_a_folder_of_keys_or_what_signs_others() -> None:
    allowed = re.compile(r"bus\.conf|certificates/(ca\.pem|bus\.(pem|key))|credentials/.*\.creds")
    for service in services().values():
        mounts = re.findall(r"\$\{WARPBOARD_KEYS[^}]*\}/(.*?):/", str(service.get("volumes", "")))
        assert [path for path in mounts if not allowed.fullmatch(path)] == []
        assert len([path for path in mounts if path.startswith("credentials")]) <= 1


@pytest.mark.parametrize("name", SETTINGS)
def test_every_service_is_told_what_it_understands(name: str) -> None:
    prefix = f"WARPBOARD_{name.upper().replace('-', '_')}_"
    variables = services()[name]["environment"]
    known = {f"{prefix}{field.name.upper()}": field for field in fields(SETTINGS[name])}
    others = [item for item in variables if item.startswith("WARPBOARD_") and item not in known]
    assert others == []
    needed = [name_ for name_, field in known.items() if "MISSING" in repr(field.default)]
    assert [item for item in needed if item not in variables] == []


def listen_address(service: str) -> str:
    """The address that a service's command gives it."""
    [argument] = [
        part for part in services()[service]["command"] if part.startswith("--web.listen-address=")
    ]
    return str(argument).partition("=")[2]


def test_prometheus_looks_where_the_services_answer() -> None:
    prometheus = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
    looked = {
        job["job_name"]: job["static_configs"][0]["targets"][0]
        for job in prometheus["scrape_configs"]
    }
    answers = {
        name: services()[name]["environment"][
            f"WARPBOARD_{name.upper().replace('-', '_')}_OPS_LISTEN"
        ]
        for name in SETTINGS
        if name != "database"
    }
    assert looked == answers | {"node": listen_address("node-exporter")}
    [manager] = prometheus["alerting"]["alertmanagers"]
    assert manager["static_configs"] == [{"targets": [listen_address("alertmanager")]}]


def test_the_page_of_permissions_is_that_of_every_server() -> None:
    for path, text in bus.pages().items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name} is stale: run `make docs`"


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """The keys of an operator, with an agent and a certificate of 127.0.0.1."""
    authority = Authority(tmp_path_factory.mktemp("keys"))
    authority.create()
    authority.ensure_user("agent-local")
    CertificateFolder(authority.folder / "certificates").issue("bus", ["127.0.0.1"])
    return authority


def lay_out(config: str, folder: Path, keys: Authority) -> tuple[Path, dict[str, str]]:
    """Lay a configuration out as deployed, except for the ports; return it with its environment."""
    client, route, monitor = find_free_ports(3)
    text = (DEPLOY / "nats" / config).read_text()
    text = text.replace("127.0.0.1:8222", f"127.0.0.1:{monitor}").replace("4222", str(client))
    # One member is a cluster of its own where it has no routes.
    text = text.replace("routes: [$NATS_ROUTE_1, $NATS_ROUTE_2, $NATS_ROUTE_3]", "routes: []")
    (folder / config).write_text(text)
    shutil.copy(keys.server_config, folder)
    tls = keys.folder / "certificates"
    environ = {
        "NATS_NAME": "one",
        "NATS_HOST": "127.0.0.1",
        "NATS_PORT": str(client),
        "NATS_ROUTE": str(route),
        "NATS_MONITOR": f"127.0.0.1:{monitor}",
        "NATS_DATA": str(folder / "data"),
        "NATS_ACCOUNTS": str(folder / "accounts"),
        "NATS_CERT": str(tls / "bus.pem"),
        "NATS_KEY": str(tls / "bus.key"),
        "NATS_CA": str(tls / "ca.pem"),
    }
    return folder / config, environ


@pytest.mark.server
@pytest.mark.parametrize("name", ["single.conf", "cluster.conf"])
async def test_the_servers_that_are_deployed_let_an_agent_do_its_own_alone(
    name: str, tmp_path: Path, keys: Authority
) -> None:
    """Start NATS as deployed, except for folder and ports."""
    skip_without_nats()
    config, environ = lay_out(name, tmp_path, keys)
    checked = _said(nats.find_binary(), "-t", "-c", str(config), **environ)
    assert checked.returncode == 0, checked.stderr
    assert "sync_interval: always" in config.read_text()
    if name == "cluster.conf":
        # One of three has no quorum: this one is tried without its cluster, but with its TLS.
        before, _, after = config.read_text().partition("cluster {")
        config.write_text(
            before + after.partition("jetstream {")[1] + after.partition("jetstream {")[2]
        )
    scheme = "tls" if name == "cluster.conf" else "nats"
    url = f"{scheme}://127.0.0.1:{environ['NATS_PORT']}"
    process = _started(config, environ)

    def login(user: str) -> BusLogin:
        return BusLogin(url, str(keys.credentials_path(user)), environ["NATS_CA"])

    try:
        services = await connect(login("scheduler"), "services")
        await ensure_streams(services)
        agent = await connect(login("agent-local"), "agent")
        answer = await agent.request("$KV.LEASES.agent.local", b"{}", 2)
        assert json.loads(answer.data)["seq"] == 1
        for forbidden in ("events.account.eve", "events.report.local.r1", "$JS.API.INFO"):
            with pytest.raises((TimeoutError, errors.Error)):
                await agent.request(forbidden, b"{}", 0.3)
        assert await NatsLog(services).last() == 0
        await agent.close()
        await services.close()
        if scheme == "tls":
            with pytest.raises(Failed, match="not from the system's CAs: set NATS_CA"):
                await connect(login("scheduler")._replace(ca=""), "services", within_s=1)
    finally:
        process.terminate()
        process.wait(15)


def _started(config: Path, environ: dict[str, str]) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([nats.find_binary(), "-c", str(config)], env=environ)
