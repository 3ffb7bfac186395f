"""Every code that a request may be refused with has its status, and is in the document."""

import re
from pathlib import Path

from ingest.http.document import error_schema
from shared.errors import STATUS_BY_CODE

ROOT = Path(__file__).parents[2]
CODE = re.compile(r'Refused\(\s*"([a-z0-9_]+)"')
FOLDERS = ("services/ingest/src/ingest", "services/ranker/src/ranker/http", "shared/src/shared")
# Said in a terminal, or at a start: no request is refused so.
ELSEWHERE = ("unreadable", "bad_settings")
# What only operators' commands call.
TERMINAL_FOLDERS = {"bus_keys", "database"}


def test_each_code_has_a_status() -> None:
    said = {
        code
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*.py")
        if path.parent.name not in TERMINAL_FOLDERS
        for code in CODE.findall(path.read_text(encoding="utf-8"))
    }
    assert len(said) > 60
    assert sorted(said - set(STATUS_BY_CODE) - set(ELSEWHERE)) == [], "name them in shared.errors"
    assert set(STATUS_BY_CODE) <= set(error_schema()["properties"]["code"]["enum"])
