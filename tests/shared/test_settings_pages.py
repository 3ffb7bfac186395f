"""Every setting is in the table of its service, and a table names no other settings."""

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest

from discord_edge.settings import Settings as EdgeSettings
from gpu_agent.settings import Settings as AgentSettings
from ingest.settings import Settings as IngestSettings
from ranker.settings import Settings as RankerSettings
from scheduler.launcher.settings import Settings as LauncherSettings
from scheduler.settings import Settings as SchedulerSettings
from shared.signing import CREDENTIAL_SETTINGS

ROOT = Path(__file__).parents[2]
NAME = re.compile(r"`(?:WARPBOARD_INGEST_)?([A-Z][A-Z0-9_]*)`")
TABLE = re.compile(r"^\| setting.*\n(?:\|.*\n)+", re.MULTILINE)
SERVICES: list[tuple[type[Any], tuple[str, ...]]] = [
    (IngestSettings, ("services/ingest/README.md", "docs/login.md", "docs/popcorn.md")),
    (RankerSettings, ("services/ranker/README.md",)),
    (SchedulerSettings, ("services/scheduler/README.md",)),
    (LauncherSettings, ("docs/operating/launchers.md",)),
    (AgentSettings, ("services/gpu-agent/README.md",)),
    (EdgeSettings, ("docs/discord.md",)),
]


def documented(page: str) -> set[str]:
    """The settings in the first column of the page's tables of settings."""
    tables = TABLE.findall((ROOT / page).read_text(encoding="utf-8"))
    rows = [line for table in tables for line in table.splitlines()]
    return {name for row in rows for name in NAME.findall(row.split("|")[1])}


@pytest.mark.parametrize(("kind", "pages"), SERVICES)
def test_a_services_settings_are_those_of_its_tables(
    kind: type[Any], pages: tuple[str, ...]
) -> None:
    expected = {field.name.upper() for field in dataclasses.fields(kind)}
    if kind is AgentSettings:
        expected |= set(CREDENTIAL_SETTINGS)
    assert set().union(*(documented(page) for page in pages)) == expected
