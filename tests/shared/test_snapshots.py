"""The source code that a snapshot of a fold names."""

import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from ingest.identity.access import feed
from scheduler.domain import fold
from shared.snapshots import find_fold_files

CODE = re.compile(r"^(?:import|from|class|def) ", re.MULTILINE)
IMPORTS = """
import importlib, json, sys
importlib.import_module(sys.argv[1])
files = {name: m.__file__ for name, m in sys.modules.items() if getattr(m, "__file__", None)}
print(json.dumps([file for name, file in files.items() if name.split(".")[0] in sys.argv[2:]]))
"""


@pytest.mark.parametrize(("module", "service"), [(fold, "scheduler"), (feed, "ingest")])
def test_every_module_that_a_fold_imports_counts(module: ModuleType, service: str) -> None:
    command = [sys.executable, "-c", IMPORTS, module.__name__, service, "shared"]
    output = subprocess.run(command, capture_output=True, timeout=60, check=True).stdout
    # Packages without code do not count.
    imported = {file for file in map(Path, json.loads(output)) if CODE.search(file.read_text())}
    assert {file.name for file in imported} >= {"wire.py", "subjects.py", "submissions.py"}
    assert imported - find_fold_files(module) == set()
