"""Generates docs/features.md: what Warpboard does, and the tests that show it.

The rows are in features.toml. A test names its rows with the marker `feature`; the tests are read,
not run.
"""

import ast
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

DOCS = Path(__file__).parent
PAGE = DOCS / "features.md"
TABLE = DOCS / "features.toml"
TESTS = DOCS.parent / "tests"
MARKER = "feature"
HEAD = """# Features

Generated from `docs/features.toml` and the markers of the tests by `make docs`; a test fails when
this page is stale, or when a row has no test. In CI, a row also fails if none of its tests passed.

A row may say what is **missing**, and what is **unproven** because only a GPU or an outside service
can show it.
"""


class Feature(msgspec.Struct, forbid_unknown_fields=True):
    """A row: what the platform does, what is not built, and what no test can show here."""

    text: str
    missing: str = ""
    unproven: str = ""


class Section(msgspec.Struct, forbid_unknown_fields=True):
    """The rows for one kind of reader, by their names."""

    title: str
    rows: dict[str, Feature]


def load_sections() -> list[Section]:
    """Return the sections of the page in order."""
    tables = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    return list(msgspec.convert(tables, dict[str, Section]).values())


def load_features() -> dict[str, Feature]:
    """Return all rows by name."""
    return {name: row for section in load_sections() for name, row in section.rows.items()}


def marked_rows(source: str) -> Iterator[tuple[str, str]]:
    """Yield each test of a file with each row that its marker names."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for decorator in node.decorator_list:
                match decorator:
                    case ast.Call(func=ast.Attribute(attr=name), args=rows) if name == MARKER:
                        yield from ((node.name, ast.literal_eval(row)) for row in rows)


def find_tests() -> dict[str, list[str]]:
    """Return the tests of each row, `<file>::<test>`, in the order of the files."""
    tests: dict[str, list[str]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        source = path.read_text(encoding="utf-8")
        for test, row in marked_rows(source) if f"mark.{MARKER}(" in source else ():
            name = f"{path.relative_to(TESTS.parent).as_posix()}::{test}"
            tests.setdefault(row, []).append(name)
    return tests


def _cells(name: str, row: Feature, tests: Mapping[str, list[str]]) -> str:
    parts = [row.text]
    parts += [f"**missing:** {row.missing}"] if row.missing else []
    parts += [f"**unproven:** {row.unproven}"] if row.unproven else []
    shown = "<br>".join(f"`{test.removeprefix('tests/')}`" for test in tests.get(name, ()))
    return f"| {name} | {'; '.join(parts)} | {shown} |\n"


def pages() -> dict[Path, str]:
    """Return the page as it should be, by its path."""
    tests, parts = find_tests(), [HEAD]
    for section in load_sections():
        parts.append(f"\n## {section.title}\n\n| row | what | tests |\n|---|---|---|\n")
        parts += [_cells(name, row, tests) for name, row in section.rows.items()]
    return {PAGE: "".join(parts)}
