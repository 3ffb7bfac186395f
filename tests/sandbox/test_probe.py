"""Every wall is tried, and a missing one comes with a reason and a fix."""

import os
import shutil
import subprocess
import tempfile
import venv
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

import harness
from harness.sandbox import probe
from harness.sandbox.box import WALLS
from harness.sandbox.probe import HostMachine, Isolation, MissingWall
from harness.vocabulary import LEVELS

from .test_levels import needs_root, seen


def test_this_machine_is_strong(isolation: Isolation) -> None:
    """Skips elsewhere must not hide that nothing was tested at all."""
    if os.geteuid() != 0 and "CI" not in os.environ:
        pytest.skip("neither root nor CI: strong cannot be expected")
    assert isolation.level == "strong", isolation.missing


def test_an_isolation_survives_its_json(isolation: Isolation) -> None:
    assert msgspec.json.decode(isolation.to_json(), type=Isolation) == isolation


@pytest.mark.parametrize("level", LEVELS)
def test_a_machine_can_be_lowered_to_every_level(isolation: Isolation, level: str) -> None:
    if isolation.level != "strong":
        pytest.skip(f"this machine is {isolation.level}")
    lowered = isolation.lowered(level)
    assert lowered.level == level
    assert set(lowered.walls) <= set(isolation.walls)


def test_a_wall_can_be_left_out(isolation: Isolation) -> None:
    assert "seccomp" not in isolation.minus(("seccomp",)).walls
    assert isolation.minus(WALLS).level == "none"


@needs_root
def test_forbidden_user_namespaces_are_named() -> None:
    found = seen("walled_user")
    (missing,) = [one for one in found.missing if one.wall == "namespaces"]
    assert "max_user_namespaces is 0" in missing.reason
    assert missing.fix.startswith("sysctl -w user.max_user_namespaces")


@pytest.mark.box
def test_an_interpreter_below_the_folder_for_temporary_files_is_shown(
    isolation: Isolation,
) -> None:
    """A box has its own /tmp, which must contain what the machine's /tmp has there."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        python = clone(Path(folder))
        done = subprocess.run(
            [python, "-m", "harness.sandbox.probe"], capture_output=True, check=True, timeout=60
        )
    found = msgspec.json.decode(done.stdout, type=Isolation)
    assert found.walls == isolation.walls
    assert found.has_bubblewrap == isolation.has_bubblewrap, found.launchers


def clone(folder: Path) -> str:
    """An interpreter in a folder with the harness beside it, like a checkout."""
    venv.create(folder / "venv", symlinks=True)
    source = Path(harness.__file__ or "").parent
    shutil.copytree(source, folder / "src" / source.name)
    (packages,) = (folder / "venv").glob("lib/*/site-packages")
    (packages / "harness.pth").write_text(f"{folder}/src\n")
    return f"{folder}/venv/bin/python"


def machine(root: Path, uid: int, files: dict[str, str]) -> HostMachine:
    """A machine that consists of these files."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return HostMachine(uid, root)


V2 = {"sys/fs/cgroup/cgroup.controllers": "cpu memory pids\n"}
DOCKER = {".dockerenv": "", **V2}
APPARMOR = {"proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1\n"}
DEBIAN = {"proc/sys/kernel/unprivileged_userns_clone": "0\n"}


@pytest.mark.parametrize(
    ("uid", "files", "asked", "fix"),
    [
        (
            1000,
            APPARMOR,
            lambda host: probe.explain_namespaces(host, "EPERM"),
            "apparmor_restrict",
        ),
        (
            1000,
            DEBIAN,
            lambda host: probe.explain_namespaces(host, "EPERM"),
            "unprivileged_userns",
        ),
        (
            1000,
            {},
            lambda host: probe.explain_namespaces(host, "mount proc: EPERM"),
            "systempaths",
        ),
        (
            0,
            DOCKER,
            lambda host: probe.explain_namespaces(host, "EPERM"),
            "--cap-add SYS_ADMIN",
        ),
        (
            0,
            {},
            lambda host: probe.explain_namespaces(host, "read-only (Linux 5.12 "),
            "boot Linux",
        ),
        (0, DOCKER, lambda host: probe.explain_uid(host, "EPERM"), "--cap-add SETUID"),
        (0, DOCKER, lambda host: probe.explain_group(host, "memory"), "--cgroupns private"),
        (0, V2, lambda host: probe.explain_group(host, "memory"), "Delegate=yes"),
        (1000, V2, lambda host: probe.explain_group(host, "pids"), "Delegate=yes"),
        (0, {}, lambda host: probe.explain_group(host, "freezer"), "boot a kernel"),
        (0, {}, lambda _: probe.explain_landlock(0, 6), "boot Linux"),
        (0, {}, lambda _: probe.explain_landlock(4, 6), "boot Linux"),
        (0, {}, lambda _: probe.explain_seccomp("ENOSYS"), "CONFIG_SECCOMP"),
        (0, DOCKER, lambda host: probe.explain_priority(host, "EPERM"), "--ulimit rtprio=1"),
        (1000, {}, lambda host: probe.explain_priority(host, "EPERM"), "LimitRTPRIO=1"),
        (0, {}, lambda host: probe.explain_priority(host, "EPERM"), "CONFIG_RT_GROUP_SCHED"),
        (
            0,
            {},
            lambda _: probe.explain_launcher("bwrap is not installed"),
            "apt install bubblewrap",
        ),
        (
            0,
            {},
            lambda _: probe.explain_launcher("setpriv is not installed"),
            "apt install util-linux",
        ),
        (
            0,
            {},
            lambda _: probe.explain_launcher("bwrap: Can't mount"),
            "Python below /usr",
        ),
    ],
)
def test_what_is_missing_comes_with_a_mend(
    tmp_path: Path,
    uid: int,
    files: dict[str, str],
    asked: Callable[[HostMachine], MissingWall],
    fix: str,
) -> None:
    found = asked(machine(tmp_path, uid, files))
    assert fix in found.fix
    assert found.reason
