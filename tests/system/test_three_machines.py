"""An operator follows the guide to three machines, and two of their servers are lost under load."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest

from tests.docs.transcripts import Reader
from tests.support.hosts import ends, load
from tests.support.hosts.network import ROOT, Host, Network, missing_parts

pytestmark = [
    pytest.mark.platform,
    pytest.mark.long,
    pytest.mark.server,
    pytest.mark.box,
    pytest.mark.timeout(600),
]

GUIDE = ROOT / "deploy" / "three-machines"
MACHINES = ("a", "b", "c")
# As in site.env.
POSTGRES = Path("/usr/lib/postgresql/15/bin")
NAMES = """
10.41.0.1 warpboard.example
10.41.0.2 warpboard.example
"""
PARTICIPANTS = ("ada", "bob")
# Submissions that go on before and after each kill.
STEADY = 6
OUTAGE_S_MAX = 60.0
DRAIN_S_MAX = 120.0
STEP_S = 0.1
LEADER = """
import asyncio
from ranker.settings import load
from shared.nats.connection import connect
from shared.nats.streams import stream_info
async def main():
    nc = await connect(load().bus_login, "test")
    print((await stream_info(nc, "EVENTS")).cluster.leader)
    await nc.close()
asyncio.run(main())
"""
RANKER = "set -a; . /etc/warpboard/ranker.env; set +a"
PYTHON = "/opt/warpboard/bin/python"


@dataclass
class Site:
    """The hosts, and a reader of the guide with a shell on each."""

    network: Network
    reader: Reader

    def __getitem__(self, name: str) -> Host:
        return self.network.hosts[name]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """Five hosts on which nothing is installed but what the guide expects."""
    missing = missing_parts() or ("" if POSTGRES.is_dir() else f"Postgres in {POSTGRES}")
    if missing:
        pytest.skip(f"three machines need {missing}")
    with Network(tmp_path) as network:
        for number, name in enumerate(MACHINES, 1):
            network.add_host(name, number)
        network.add_host("admin", 100)
        network.add_private_host("gpu1", 20)
        for host in network.hosts.values():
            host.start()
        for host in network.hosts.values():
            host.wait()
        admin = network.hosts["admin"]
        admin.workdir = str(ROOT)
        admin.run(f"ln -s {ROOT} /root/warpboard; cat >>/etc/hosts <<'END'\n{NAMES}END")
        # The owner of the GPU host may fetch the line of its agent from admin.
        keys = "\n".join(_create_key(host) for host in (admin, network.hosts["gpu1"]))
        for host in network.hosts.values():
            _prepare(host, keys)
        environ = {
            "PATH": f"/opt/warpboard/bin:{os.environ['PATH']}:/usr/local/sbin:/usr/sbin:/sbin",
            "HOME": "/root",
        }
        shells = {name: host.shell for name, host in network.hosts.items()}
        with Reader(ROOT, tmp_path / "home", environ, hosts=shells) as reader:
            yield Site(network, reader)


def _create_key(host: Host) -> str:
    host.run("rm -rf /root/.ssh && install -d -m 700 /root/.ssh")
    host.run("ssh-keygen -q -t ed25519 -N '' -f /root/.ssh/id_ed25519")
    return host.run("cat /root/.ssh/id_ed25519.pub").strip()


def _prepare(host: Host, keys: str) -> None:
    """What an operator finds there: Warpboard installed, and ssh from admin."""
    host.run(
        f"ln -sfn {Path(sys.prefix)} /opt/warpboard\n"
        f"cp -r {ROOT}/deploy/systemd/. /etc/systemd/system/\n"
        "install -d -m 750 /etc/warpboard\n"
        "systemctl daemon-reload\n"
        "install -d -m 700 /root/.ssh\n"
        f"echo '{keys}' >/root/.ssh/authorized_keys\n"
        "echo 'StrictHostKeyChecking accept-new' >/root/.ssh/config\n"
        "echo 'LogLevel ERROR' >>/root/.ssh/config\n"
        "echo 'UsePAM no' >/etc/ssh/sshd_config.d/test.conf\n"
        "systemctl start ssh"
    )


class Load:
    """Participants who submit through the proxy, on admin."""

    def __init__(self, admin: Host, tokens: Sequence[str], ca: Path, log: Path) -> None:
        self._log = log
        command = [
            *admin.shell,
            *("env", f"SSL_CERT_FILE={ca}", f"WARPBOARD_TOKENS={' '.join(tokens)}"),
            *(PYTHON, load.__file__, "https://warpboard.example"),
        ]
        with log.open("wb") as file:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=file, stderr=file, start_new_session=True
            )

    def acknowledged(self) -> list[tuple[float, int]]:
        """Return when each submission was acknowledged, and its number."""
        lines = self._log.read_text().splitlines()
        assert all(line.startswith("{") for line in lines), "\n".join(lines[-20:])
        entries = [json.loads(line) for line in lines if line.endswith("}")]
        return [(entry["at"], entry["number"]) for entry in entries if "number" in entry]

    def wait_for_more(self, within_s: float = OUTAGE_S_MAX) -> None:
        """Wait for submissions that are acknowledged from now on."""
        began, until = time.time(), time.monotonic() + within_s
        while len([at for at, _ in self.acknowledged() if at > began]) < STEADY:
            assert self._process.poll() is None, self._log.read_text()[-2000:]
            assert time.monotonic() < until, self._log.read_text()[-2000:]
            time.sleep(STEP_S)

    def longest_gap_s(self, since: float) -> float:
        """Return the longest time without an acknowledgement from an instant on."""
        instants = [since, *(at for at, _ in self.acknowledged() if at > since)]
        return max(after - before for before, after in pairwise(instants))

    def end(self) -> set[int]:
        """Stop, and return the numbers of all that was acknowledged."""
        assert self._process.stdin is not None, "it is a pipe"
        self._process.stdin.close()
        self._process.wait(OUTAGE_S_MAX)
        numbers = [number for _, number in self.acknowledged()]
        assert len(numbers) == len(set(numbers)), "a number was given twice"
        return set(numbers)


def read_ends(site: Site) -> dict[int, list[str]]:
    """Return how each submission in the log ended."""
    printed = site["b"].run(f"{RANKER}; {PYTHON} {ends.__file__}")
    return {int(number): kinds for number, kinds in json.loads(printed).items()}


def kill_nats_leader(site: Site, running: Load) -> float:
    """Kill the member that leads the log; return how long nothing was acknowledged."""
    name = site["b"].run(f"{RANKER}; {PYTHON} -c '{LEADER}'").strip()
    began = time.time()
    site[name].run("systemctl kill --signal=KILL warpboard-nats && systemctl stop warpboard-nats")
    running.wait_for_more()
    outage_s = running.longest_gap_s(began)
    site[name].run("systemctl start warpboard-nats")
    return outage_s


def kill_primary(site: Site, running: Load) -> tuple[float, float]:
    """Kill the primary for good, and follow the page; return the outage, and the page's part."""
    site["a"].run(
        "mkdir -p /run/systemd/system/postgresql-warpboard.service.d\n"
        "cd /run/systemd/system/postgresql-warpboard.service.d\n"
        "printf '[Service]\\nRestart=no\\n' >lost.conf\n"
        "systemctl daemon-reload"
    )
    began = time.time()
    site["a"].run("systemctl kill --signal=KILL postgresql-warpboard")
    page_began = time.time()
    site.reader.follow(GUIDE / "failover.md")
    running.wait_for_more()
    return running.longest_gap_s(began), page_began - began


def test_the_guide_ends_with_a_rank_and_nothing_is_lost_when_servers_are(
    site: Site, tmp_path: Path
) -> None:
    site.reader.follow(GUIDE / "README.md")
    ca = ROOT / "site" / "keys" / "certificates" / "ca.pem"
    operator = (
        f"cd {ROOT}; export WARPBOARD_URL=https://warpboard.example SSL_CERT_FILE={ca}\n"
        "export WARPBOARD_OPERATOR_TOKEN=$(cat site/secrets/operator)\n"
    )
    warpboard = "/opt/warpboard/bin/warpboard"
    tokens = []
    for name in PARTICIPANTS:
        site["admin"].run(f"{operator}{warpboard} admin participant create {name} --reason test")
        token = f"{warpboard} admin token create {name} --name test --reason test"
        tokens.append(site["admin"].run(operator + token).splitlines()[0])
    running = Load(site["admin"], tokens, ca, tmp_path / "load.log")
    running.wait_for_more()
    nats_s = kill_nats_leader(site, running)
    running.wait_for_more()
    postgres_s, _ = kill_primary(site, running)
    numbers = running.end()
    until = time.monotonic() + DRAIN_S_MAX
    while not all((ended := read_ends(site)).values()):
        assert time.monotonic() < until, {number for number, kinds in ended.items() if not kinds}
    assert numbers <= ended.keys(), "an acknowledged submission is not in the log"
    assert {number: kinds for number, kinds in ended.items() if len(kinds) != 1} == {}
    sys.stdout.write(
        f"{len(numbers)} submissions were acknowledged, and each ended once\n"
        f"NATS leader killed: {nats_s:.1f} s without an acknowledged submission\n"
        f"Postgres primary killed: {postgres_s:.1f} s, with the failover by the page\n"
    )
