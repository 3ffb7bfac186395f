"""The systemd units are valid, and confine each process as far as their page says."""

import configparser
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ranker.commands import make_parser
from tests.support.platform import ROOT

UNITS = ROOT / "deploy" / "systemd"
PAGE = UNITS / "README.md"
AGENT = "warpboard-gpu-agent@.service"
SERVICES = sorted(path.name for path in UNITS.glob("*.service"))
# Started by its timer, and ends.
BACKUP = "warpboard-backup.service"
ANALYZE_S_MAX = 60
DOCTOR_S_MAX = 120


def analyze(*arguments: str) -> str:
    """What systemd-analyze prints."""
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("NOT RUN: no systemd-analyze here; apt-get install systemd")
    done = subprocess.run(
        [program, *arguments],
        cwd=UNITS,
        capture_output=True,
        text=True,
        timeout=ANALYZE_S_MAX,
        check=False,
    )
    return done.stdout + done.stderr


def directives(path: Path) -> dict[str, list[str]]:
    """The values of each directive of a file."""
    values: dict[str, list[str]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        name, sign, value = line.partition("=")
        if sign and not line.startswith("#"):
            values.setdefault(name, []).append(value)
    return values


@pytest.mark.parametrize("name", SERVICES)
def test_systemd_understands_the_unit(name: str) -> None:
    lines = analyze("verify", "--man=no", f"./{name}").splitlines()
    # The program is not installed here.
    assert [line for line in lines if "is not executable" not in line] == []


@pytest.mark.parametrize("name", SERVICES)
def test_the_exposure_is_at_most_what_the_page_says(name: str) -> None:
    output = analyze("security", "--offline=true", f"./{name}")
    match = re.search(r"Overall exposure level for \S+: ([\d.]+)", output)
    assert match, output
    pages = re.search(rf"\| `{re.escape(name)}` \|.*\| ([\d.]+) \|", PAGE.read_text())
    assert pages, f"{name} has no row in {PAGE}"
    assert float(match[1]) <= float(pages[1])


@pytest.mark.parametrize("name", [name for name in SERVICES if name != BACKUP])
def test_a_unit_runs_a_module_of_ours_with_its_own_settings_and_state(name: str) -> None:
    unit = directives(UNITS / name)
    service = name.removeprefix("warpboard-").removesuffix(".service").replace("@", "-%i")
    (command,) = unit["ExecStart"]
    module = command.removeprefix("/opt/warpboard/bin/python -P -m ")
    found = subprocess.run(
        [sys.executable, "-P", "-m", module, "check"],
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=ANALYZE_S_MAX,
        check=False,
    )
    assert found.returncode == 2, found.stderr
    assert "_OPS_LISTEN is missing" in found.stdout
    assert unit["EnvironmentFile"] == [f"/etc/warpboard/{service}.env"]
    assert unit["StateDirectory"] == [f"warpboard/{service}"]


def test_the_backup_runs_every_night_with_options_that_its_command_has() -> None:
    assert directives(UNITS / "warpboard-backup.timer")["OnCalendar"] == ["*-*-* 03:00"]
    (command,) = directives(UNITS / BACKUP)["ExecStart"]
    _, *words = command.removeprefix("/opt/warpboard/bin/python -P -m ").split()
    options = make_parser().parse_args(words)
    assert (options.command, str(options.folder)) == ("backup", "${FOLDER}")
    assert (options.recipient, str(options.metrics)) == ("${RECIPIENT}", "${METRICS}")


def test_no_file_has_a_directive_twice_by_mistake() -> None:
    repeated = {"CapabilityBoundingSet", "SystemCallFilter", "Environment"}
    for path in sorted(UNITS.rglob("*")):
        if path.is_file() and path.suffix != ".md":
            values = directives(path)
            assert {name for name in values if len(values[name]) > 1} <= repeated, path
            assert configparser.RawConfigParser(strict=False).read(path)


@pytest.mark.box
def test_the_agent_has_every_wall_with_the_capabilities_of_its_unit() -> None:
    if (setpriv := shutil.which("setpriv")) is None:
        pytest.skip("NOT RUN: no setpriv here; apt-get install util-linux")
    if os.geteuid() != 0:
        pytest.skip("NOT RUN: only root can give up capabilities of root")
    doctor = [sys.executable, "-m", "warpboard", "agent", "doctor"]
    hardening = directives(UNITS / f"{AGENT}.d" / "hardening.conf")
    capabilities = " ".join(hardening["CapabilityBoundingSet"]).split()
    allowed = ",".join(f"+{name.removeprefix('CAP_').lower()}" for name in capabilities)
    confined = [setpriv, f"--bounding-set=-all,{allowed}", "--inh-caps=-all", "--no-new-privs"]
    free, inside = (
        subprocess.run(
            command, capture_output=True, text=True, timeout=DOCTOR_S_MAX, check=False
        ).stdout
        for command in (doctor, [*confined, *doctor])
    )
    assert "wall" in free
    assert inside == free
