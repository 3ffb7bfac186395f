"""Why a wall cannot be built here, and what an operator can do about it."""

from dataclasses import dataclass
from pathlib import Path

from harness.sandbox.spec import WORKER_UID

_AS_ROOT = "run the agent as root: it gives root up before any foreign code runs"
_CONTAINER = (
    "docker run --cap-add SYS_ADMIN --security-opt seccomp=unconfined "
    "--security-opt apparmor=unconfined --security-opt systempaths=unconfined, "
    "or a virtual machine for each trust domain"
)
_GROUPS_IN_CONTAINER = "docker run --cgroupns private -v /sys/fs/cgroup:/sys/fs/cgroup:rw"
_DELEGATE = (
    "set Delegate=yes in the agent's systemd unit, "
    "or start by systemd-run --user --scope -p Delegate=yes"
)
_CGROUP_KERNEL = "boot a kernel with control groups (cgroup_enable=memory on some boards)"
_USER_NAMESPACES = (
    ("proc/sys/user/max_user_namespaces", "0", "sysctl -w user.max_user_namespaces=15000"),
    (
        "proc/sys/kernel/unprivileged_userns_clone",
        "0",
        "sysctl -w kernel.unprivileged_userns_clone=1",
    ),
    (
        "proc/sys/kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or run the agent as root",
    ),
)
_CONTAINERS = (".dockerenv", "run/.containerenv", "var/run/secrets/kubernetes.io")
_GROUPS = "sys/fs/cgroup"


@dataclass(frozen=True)
class Missing:
    """A wall that cannot be built here: why, and what an operator can do."""

    wall: str
    reason: str
    mend: str


@dataclass(frozen=True)
class Host:
    """The machine that is asked about: by which user, and below which folder its files lie."""

    uid: int
    root: Path = Path("/")

    @property
    def is_root(self) -> bool:
        """Whether more could be had than is."""
        return self.uid == 0

    def says(self, file: str) -> str:
        """What is in a small file; "" if it is not there."""
        try:
            return (self.root / file).read_text(encoding="utf-8", errors="replace").strip()
        except OSError:
            return ""

    def is_contained(self) -> bool:
        """Whether this looks like a container, whose runtime takes rights away."""
        is_filtered = "Seccomp:\t2" in self.says("proc/self/status")
        return is_filtered or any((self.root / mark).exists() for mark in _CONTAINERS)


def of_namespaces(host: Host, reason: str) -> Missing:
    """What keeps a box from having namespaces of its own."""
    if not host.is_root:
        for file, bad, mend in _USER_NAMESPACES:
            if host.says(file) == bad:
                return Missing("namespaces", f"{reason} (/{file} is {bad})", mend)
        if "proc" in reason:
            mend = "docker run --security-opt systempaths=unconfined, or run the agent as root"
            return Missing("namespaces", f"{reason} (something lies over parts of /proc)", mend)
    if "5.12" in reason:
        return Missing("namespaces", reason, "boot Linux 5.12 or later")
    if host.is_contained():
        return Missing("namespaces", f"{reason} (a container without the right)", _CONTAINER)
    return Missing("namespaces", reason, _AS_ROOT)


def of_uid(host: Host, reason: str) -> Missing:
    """What keeps a worker from being another user."""
    if not host.is_root:
        return Missing("uid", f"uid {host.uid} cannot become another user", _AS_ROOT)
    mend = "docker run --cap-add SETUID --cap-add SETGID --cap-add SETPCAP"
    return Missing("uid", reason, mend)


def of_reach(path: str) -> Missing:
    """What keeps a worker that is another user from importing, where nothing can be mounted."""
    return Missing(
        "uid",
        f"uid {WORKER_UID} cannot reach {path}, and there are no namespaces to show it in",
        f"chmod o+x each folder above {path}, or install Python below /usr or /opt",
    )


def of_seccomp(reason: str) -> Missing:
    """What keeps a filter from being loaded."""
    return Missing("seccomp", reason, "boot a kernel with CONFIG_SECCOMP_FILTER on x86-64 or arm64")


def of_landlock(abi: int, needed: int) -> Missing:
    """What keeps Landlock from standing in for namespaces."""
    if abi == 0:
        mend = "boot Linux 6.12 or later with landlock in its lsm= list"
        return Missing("landlock", "this kernel has no Landlock, or forbids it", mend)
    mend = "boot Linux 6.12 or later"
    return Missing("landlock", f"Landlock {abi} is too old, at least {needed} is needed", mend)


def of_group(host: Host, wall: str) -> Missing:
    """What keeps memory, pids or the freezer of a box from being held by a control group."""
    controller = "control group" if wall == "freezer" else f"{wall} controller"
    reason = f"no {controller} can be made and written to here"
    groups = host.root / _GROUPS
    if not groups.is_dir() or not any(groups.iterdir()):
        return Missing(wall, "no control groups are mounted", _CGROUP_KERNEL)
    if not host.is_root:
        return Missing(wall, reason, f"{_DELEGATE}; or {_AS_ROOT}")
    if host.is_contained():
        return Missing(wall, reason, _GROUPS_IN_CONTAINER)
    if (groups / "cgroup.controllers").exists():
        return Missing(wall, f"{reason} (pure v2)", _DELEGATE)
    return Missing(wall, reason, _CGROUP_KERNEL)


def of_launcher(reason: str) -> Missing:
    """What keeps the second launcher from building the walls that the first one can."""
    if not reason.endswith("is not installed"):
        mend = "bubblewrap 0.8 or later, and Python below /usr or /opt; the zygote needs neither"
        return Missing("bubblewrap", reason, mend)
    package = "util-linux" if reason.startswith("setpriv") else "bubblewrap"
    return Missing("bubblewrap", reason, f"apt install {package} (bubblewrap 0.8 or later)")
