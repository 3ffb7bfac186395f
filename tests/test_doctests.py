"""The examples in docstrings do what they say, a test for each module that has any.

pytest could collect them itself, for three seconds of every worker: it imports and searches all
modules, most of which have none.
"""

import doctest
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = (
    *(ROOT / part / "src" for part in ("shared", "harness", "cli", "discord-sim")),
    *ROOT.glob("services/*/src"),
)


def modules() -> list[str]:
    """The modules with an example in them, tests' helpers included."""
    files = [(folder, path) for folder in FOLDERS for path in folder.rglob("*.py")]
    files += [(ROOT, path) for path in (ROOT / "tests").rglob("*.py") if path != Path(__file__)]
    return sorted(
        ".".join(path.relative_to(folder).with_suffix("").parts).removesuffix(".__init__")
        for folder, path in files
        if b"\n    >>> " in path.read_bytes()
    )


@pytest.mark.parametrize("name", modules())
def test_the_examples_of_a_module_hold(name: str) -> None:
    failed, tried = doctest.testmod(importlib.import_module(name))
    assert tried > 0
    assert failed == 0
