"""A switch with hosts on it, each in namespaces of this machine with its own systemd.

It needs root. A host runs what its `systemctl` starts, from the files of this machine, in a layer
of its own.
"""

import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

BOOT = Path(__file__).parent / "boot.sh"
ROOT = Path(__file__).parent.parent.parent.parent
SYSTEMD = Path("/lib/systemd/systemd")
BOOT_S_MAX = 60.0
COMMAND_S_MAX = 120.0
STEP_S = 0.05
PREFIX_BITS = 24
TOOLS = ("ip", "nft", "unshare", "nsenter", "sshd", "scp", "caddy", "prometheus")


def missing_parts() -> str:
    """Return what this machine lacks to have hosts; "" if nothing.

    It tries what only some machines allow: namespaces, layers of file systems, and cgroups.
    """
    if os.geteuid() != 0:
        return "root"
    path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
    tools = [tool for tool in TOOLS if shutil.which(tool, path=path) is None]
    if tools:
        return f"the programs {', '.join(tools)} (see system_packages in .ci/run)"
    if not SYSTEMD.exists():
        return "systemd"
    script = (
        "d=$(mktemp -d) && mount -t tmpfs t $d && mkdir $d/u $d/w $d/r && "
        "mount -t overlay -o lowerdir=/,upperdir=$d/u,workdir=$d/w o $d/r && "
        "nft add table inet warpboard_test"
    )
    command = ["unshare", "--mount", "--net", "--pid", "--fork", "--cgroup", "sh", "-c", script]
    result = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    return result.stderr.strip() if result.returncode else ""


def _run(*command: str, within_s: float = COMMAND_S_MAX) -> str:
    result = subprocess.run(command, capture_output=True, text=True, timeout=within_s, check=False)
    assert result.returncode == 0, f"{' '.join(command)}\n{result.stdout}{result.stderr}"
    return result.stdout


class Host:
    """A host on one or two switches; `run` is root's shell there."""

    def __init__(self, name: str, namespace: str, folder: Path) -> None:
        self.name = name
        self.namespace = namespace
        self.folder = folder
        self.workdir = "/root"
        self._init: subprocess.Popen[bytes] | None = None
        self._pid = 0

    @property
    def shell(self) -> Sequence[str]:
        """The beginning of a command that runs there."""
        return ("nsenter", "--target", str(self._pid), "--all", f"--wdns={self.workdir}", "--")

    def start(self) -> None:
        """Start systemd, which ends with the thread that calls this."""
        self.folder.mkdir(parents=True)
        for cgroup in _cgroup_mounts():
            _create_cgroup(cgroup / self.namespace)
        # The process moves into the cgroups before they become the root of its own.
        enter = [f"echo $$ >{path / self.namespace}/cgroup.procs" for path in _cgroup_mounts()]
        namespaces = "--pid --mount --uts --ipc --cgroup --fork --kill-child"
        net = f"nsenter --net=/run/netns/{self.namespace}"
        script = "\n".join([*enter, f'exec {net} unshare {namespaces} "$@"'])
        checkouts = (str(ROOT), str(Path(sys.prefix).resolve()), sys.base_prefix)
        boot = ("bash", str(BOOT), self.name, str(self.folder), *checkouts)
        with (self.folder.parent / f"{self.name}.log").open("wb") as log:
            self._init = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "bash", "-euc", script, "bash", *boot],  # noqa: S607
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def wait(self) -> None:
        """Return when systemd is ready."""
        assert self._init is not None, "start() starts it"
        until = time.monotonic() + BOOT_S_MAX
        while not self._is_up():
            assert self._init.poll() is None, self.read_log()
            assert time.monotonic() < until, self.read_log()
            time.sleep(STEP_S)

    def _is_up(self) -> bool:
        assert self._init is not None, "start() starts it"
        children = Path(f"/proc/{self._init.pid}/task/{self._init.pid}/children")
        with suppress(OSError, ValueError):
            self._pid = int(children.read_text())
            if Path(f"/proc/{self._pid}/comm").read_text().strip() != "systemd":
                return False
            state = ("systemctl", "is-active", "--quiet", "default.target")
            result = subprocess.run(
                [*self.shell, *state], capture_output=True, timeout=BOOT_S_MAX, check=False
            )
            return result.returncode == 0
        return False

    def read_log(self) -> str:
        """Return what its first process printed."""
        return (self.folder.parent / f"{self.name}.log").read_text(errors="replace")

    def run(self, command: str, within_s: float = COMMAND_S_MAX) -> str:
        """Run a command of the shell, and return what it printed; fails if it does."""
        return _run(*self.shell, "bash", "-euc", command, within_s=within_s)

    def stop(self) -> None:
        """Power off at once: its first process is killed, and with it all others."""
        if self._init is not None:
            if self._pid:
                with suppress(ProcessLookupError):
                    os.kill(self._pid, signal.SIGKILL)
            self._init.kill()
            self._init.wait(BOOT_S_MAX)
            self._init = None
        for cgroup in _cgroup_mounts():
            _remove_cgroups(cgroup / self.namespace)


class Network:
    """Hosts on one switch, and some behind a router that translates addresses."""

    def __init__(self, folder: Path, subnet: str = "10.41.0") -> None:
        self._folder = folder
        self._prefix = f"wb{secrets.token_hex(2)}"
        self._subnet = subnet
        self._namespaces: list[str] = []
        self.hosts: dict[str, Host] = {}

    def __enter__(self) -> Self:
        self._add_switch("lan")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for host in self.hosts.values():
            host.stop()
        for namespace in reversed(self._namespaces):
            _run("ip", "netns", "del", namespace)

    def add_host(self, name: str, number: int) -> Host:
        """Add a host with an address on the switch, which is not booted yet."""
        host = self._add(name)
        self._connect(host.namespace, "lan", f"{self._subnet}.{number}")
        return host

    def add_private_host(self, name: str, number: int, subnet: str = "192.168.7") -> Host:
        """Add a host behind a router of its own, which has the address on the switch."""
        router = self._add_namespace(f"{name}r")
        self._connect(router, "lan", f"{self._subnet}.{number}")
        self._add_switch(f"{name}s")
        self._connect(router, f"{name}s", f"{subnet}.1")
        rules = (
            "table ip nat { chain out { type nat hook postrouting priority 100;"
            f" ip saddr {subnet}.0/24 masquerade; }}; }}"
        )
        self._in(router, "nft", rules)
        self._in(router, "sysctl", "-qw", "net.ipv4.ip_forward=1")
        host = self._add(name)
        self._connect(host.namespace, f"{name}s", f"{subnet}.2")
        self._in(host.namespace, "ip", "route", "add", "default", "via", f"{subnet}.1")
        return host

    def _add(self, name: str) -> Host:
        host = Host(name, self._add_namespace(name), self._folder / name)
        self.hosts[name] = host
        return host

    def _add_namespace(self, name: str) -> str:
        namespace = f"{self._prefix}-{name}"
        _run("ip", "netns", "add", namespace)
        self._namespaces.append(namespace)
        self._in(namespace, "ip", "link", "set", "lo", "up")
        return namespace

    def _add_switch(self, name: str) -> None:
        namespace = self._add_namespace(name)
        self._in(namespace, "ip", "link", "add", "switch", "type", "bridge")
        self._in(namespace, "ip", "link", "set", "switch", "up")

    def _connect(self, namespace: str, switch: str, address: str) -> None:
        """Lay a cable from a namespace to a switch."""
        number, at_switch = secrets.token_hex(3), f"{self._prefix}-{switch}"
        ends = (f"h{number}", f"s{number}")
        _run("ip", "link", "add", ends[0], "type", "veth", "peer", "name", ends[1])
        _run("ip", "link", "set", ends[0], "netns", namespace)
        _run("ip", "link", "set", ends[1], "netns", at_switch)
        self._in(namespace, "ip", "addr", "add", f"{address}/{PREFIX_BITS}", "dev", ends[0])
        self._in(namespace, "ip", "link", "set", ends[0], "up")
        self._in(at_switch, "ip", "link", "set", ends[1], "master", "switch")
        self._in(at_switch, "ip", "link", "set", ends[1], "up")

    @staticmethod
    def _in(namespace: str, *command: str) -> None:
        _run("ip", "netns", "exec", namespace, *command)


def _cgroup_mounts() -> Iterator[Path]:
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, path, kind, *_ = line.split()
        if kind in ("cgroup", "cgroup2"):
            yield Path(path)


def _create_cgroup(path: Path) -> None:
    path.mkdir(exist_ok=True)
    # Of the first version: no process can enter before these are set.
    for name in ("cpuset.cpus", "cpuset.mems"):
        with suppress(OSError):
            (path / name).write_text((path.parent / name).read_text())
    # A group counts as one process among those beside it; a host has dozens.
    for name, share in (("cpu.shares", 40 * 1024), ("cpu.weight", 40 * 100)):
        with suppress(OSError):
            (path / name).write_text(str(share))


def _remove_cgroups(path: Path) -> None:
    until = time.monotonic() + BOOT_S_MAX
    while path.exists() and time.monotonic() < until:
        for folder, _, _ in os.walk(path, topdown=False):
            with suppress(OSError):
                Path(folder).rmdir()
        time.sleep(STEP_S)


def environment(values: Mapping[str, str]) -> Sequence[str]:
    """Return `env -i` with these variables, for a command that must not see the machine's."""
    return ("env", "-i", *(f"{name}={value}" for name, value in values.items()))
