"""Why a wall cannot be built here, and what an operator can do about it."""

import os
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
_DELEGATE = "systemd: set Delegate=yes in the agent's unit and start the agent in a unit of its own"
_CGROUP_KERNEL = "boot a kernel with control groups (cgroup_enable=memory on some boards)"
_USER_NAMESPACES = (
    ("/proc/sys/user/max_user_namespaces", "0", "sysctl -w user.max_user_namespaces=15000"),
    (
        "/proc/sys/kernel/unprivileged_userns_clone",
        "0",
        "sysctl -w kernel.unprivileged_userns_clone=1",
    ),
    (
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or run the agent as root",
    ),
)


@dataclass(frozen=True)
class Missing:
    """A wall that cannot be built here: why, and what an operator can do."""

    wall: str
    reason: str
    mend: str


def of_namespaces(reason: str) -> Missing:
    """What keeps a box from having namespaces of its own."""
    if os.geteuid() != 0:
        for file, bad, mend in _USER_NAMESPACES:
            if _read(file) == bad:
                return Missing("namespaces", f"{reason} ({file} is {bad})", mend)
    if "proc" in reason and os.geteuid() != 0:
        mend = "docker run --security-opt systempaths=unconfined, or run the agent as root"
        return Missing("namespaces", f"{reason} (something lies over parts of /proc)", mend)
    if is_contained():
        return Missing("namespaces", f"{reason} (a container without the right)", _CONTAINER)
    if "5.12" in reason:
        return Missing("namespaces", reason, "boot Linux 5.12 or later")
    return Missing("namespaces", reason, _AS_ROOT)


def of_uid(reason: str) -> Missing:
    """What keeps a worker from being another user."""
    if os.geteuid() != 0:
        return Missing("uid", f"uid {os.geteuid()} cannot become another user", _AS_ROOT)
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


def of_group(wall: str) -> Missing:
    """What keeps memory, pids or the freezer of a box from being held by a control group."""
    controller = "cgroup" if wall == "freezer" else f"{wall} controller"
    reason = f"no {controller} can be made or written to here"
    if not Path("/sys/fs/cgroup").is_dir() or not os.listdir("/sys/fs/cgroup"):  # noqa: PTH208
        return Missing(wall, "no control groups are mounted", _CGROUP_KERNEL)
    if is_contained():
        return Missing(wall, reason, _GROUPS_IN_CONTAINER)
    if os.geteuid() != 0:
        return Missing(wall, reason, f"{_DELEGATE}, or {_AS_ROOT}")
    if Path("/sys/fs/cgroup/cgroup.controllers").exists():
        return Missing(wall, f"{reason} (pure v2)", _DELEGATE)
    return Missing(wall, reason, _CGROUP_KERNEL)


def of_tool(tool: str) -> Missing:
    """What the second launcher needs and does not find."""
    package = "bubblewrap" if tool == "bwrap" else "util-linux"
    return Missing("bubblewrap", f"{tool} is not installed", f"apt install {package}")


def is_contained() -> bool:
    """Whether this looks like a container, whose runtime takes rights away."""
    marks = ("/.dockerenv", "/run/.containerenv", "/var/run/secrets/kubernetes.io")
    status = _read("/proc/self/status")
    is_filtered = "Seccomp:\t2" in status
    return is_filtered or any(Path(mark).exists() for mark in marks)


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
