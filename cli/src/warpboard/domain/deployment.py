"""Contradictions between the settings of several services, before any server is asked."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple
from urllib.parse import urlsplit


class DeployedService(NamedTuple):
    """A service: its module, and the prefix of its settings."""

    module: str
    prefix: str


SERVICES = {
    "ingest": DeployedService("ingest", "WARPBOARD_INGEST"),
    "ranker": DeployedService("ranker", "WARPBOARD_RANKER"),
    "scheduler": DeployedService("scheduler", "WARPBOARD_SCHEDULER"),
    "discord-edge": DeployedService("discord_edge", "WARPBOARD_DISCORD_EDGE"),
    "launcher": DeployedService("scheduler.launcher", "WARPBOARD_LAUNCHER"),
    "gpu-agent": DeployedService("gpu_agent", "WARPBOARD_GPU_AGENT"),
}
# Settings that must be equal, because both sides of a connection compare them.
SHARED_SECRETS = (
    ("WARPBOARD_INGEST_READER_KEY", "WARPBOARD_RANKER_READER_KEY"),
    ("WARPBOARD_INGEST_EDGE_TOKEN", "WARPBOARD_DISCORD_EDGE_EDGE_TOKEN"),
)
# Where a service finds another one, and that one's address.
LINKS = (
    ("WARPBOARD_INGEST_RANKER_URL", "WARPBOARD_RANKER_LISTEN"),
    ("WARPBOARD_DISCORD_EDGE_INGEST_URL", "WARPBOARD_INGEST_LISTEN"),
)
LOOPBACK = ("127.0.0.1", "localhost", "::1", "[::1]")
EVERYWHERE = ("0.0.0.0", "[::]")  # noqa: S104  (compared with, not bound)


class Finding(NamedTuple):
    """What is wrong with a service, or between services."""

    service: str
    problem: str


def find_services(environ: Mapping[str, str]) -> list[str]:
    """Return the services that an environment has settings of."""
    return [
        name
        for name, service in SERVICES.items()
        if any(variable.startswith(f"{service.prefix}_") for variable in environ)
    ]


def parse_environment(text: str, source: str) -> tuple[dict[str, str], list[Finding]]:
    r"""Read lines such as `NAME=value`, as systemd and Compose do.

    >>> environ, findings = parse_environment("# none\nA=1\nB='two words'\nC", "x.env")
    >>> environ, [finding.problem for finding in findings]
    ({'A': '1', 'B': 'two words'}, ['line 4: expected NAME=value'])
    """
    environ, findings = dict[str, str](), list[Finding]()
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if not stripped or stripped.startswith(("#", ";")):
            continue
        name, sign, value = stripped.partition("=")
        if not sign or not name.isidentifier():
            findings.append(Finding(source, f"line {number}: expected NAME=value"))
            continue
        is_quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
        environ[name] = value[1:-1] if is_quoted else value
    return environ, findings


def find_contradictions(environ: Mapping[str, str]) -> list[Finding]:
    """Return what does not fit together; no secret is shown."""
    return [
        *_find_different_secrets(environ),
        *_find_wrong_links(environ),
        *_find_port_clashes(environ),
        *_find_shared_credentials(environ),
        *_find_different_replicas(environ),
    ]


def _find_different_secrets(environ: Mapping[str, str]) -> Iterator[Finding]:
    for first, other in SHARED_SECRETS:
        if first in environ and other in environ and environ[first] != environ[other]:
            yield Finding("settings", f"{first} and {other} differ: set both to the same value")


def _find_wrong_links(environ: Mapping[str, str]) -> Iterator[Finding]:
    for link, listen in LINKS:
        url, address = environ.get(link, ""), environ.get(listen, "")
        host, _, port = address.rpartition(":")
        if not url or not port.isdecimal():
            continue
        parts = urlsplit(url)
        try:
            is_same = parts.port == int(port)
        except ValueError:
            is_same = False
        # Elsewhere a proxy or a service of Kubernetes may be between them.
        if parts.hostname in LOOPBACK and not is_same:
            yield Finding(
                "settings",
                f"{link} is {url}, but {listen} is {address}: set {link}=http://{address}",
            )
        elif (
            host and host not in EVERYWHERE and host in LOOPBACK and parts.hostname not in LOOPBACK
        ):
            yield Finding(
                "settings",
                f"{link} is {url}, but {listen} is {address}, which other machines cannot reach: "
                f"set {listen}=0.0.0.0:{port}, behind a firewall",
            )


def _find_port_clashes(environ: Mapping[str, str]) -> Iterator[Finding]:
    taken: dict[str, list[tuple[str, str]]] = {}
    for name, value in sorted(environ.items()):
        if not (name.startswith("WARPBOARD_") and name.endswith("LISTEN")):
            continue
        host, _, port = value.rpartition(":")
        for other_name, other_host in taken.setdefault(port, []):
            if host == other_host or {host, other_host} & set(EVERYWHERE):
                yield Finding("settings", f"{other_name} and {name} both listen on port {port}")
        taken[port].append((name, host))


def _find_shared_credentials(environ: Mapping[str, str]) -> Iterator[Finding]:
    owners: dict[str, str] = {}
    for name, value in sorted(environ.items()):
        if name.startswith("WARPBOARD_") and name.endswith("_NATS_CREDENTIALS") and value:
            if value in owners:
                yield Finding(
                    "settings",
                    f"{owners[value]} and {name} are one file, {value}: each service has its own",
                )
            owners.setdefault(value, name)


def _find_different_replicas(environ: Mapping[str, str]) -> Iterator[Finding]:
    counts = {
        name: value
        for name in (f"{service.prefix}_REPLICAS" for service in SERVICES.values())
        if (value := environ.get(name))
    }
    if len(set(counts.values())) > 1:
        pairs = ", ".join(f"{name}={value}" for name, value in counts.items())
        yield Finding("settings", f"{pairs}: set the same number everywhere, 3 on a cluster")
