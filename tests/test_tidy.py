"""The style that a machine can check: each finding names the file, the line and the better way."""

import ast
import itertools
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

import pytest
from docs.generate import READS, reads, schema_pages
from docs.generate import page as events_page

from ingest.site.guide import list_pages
from shared.events import CATALOGUE
from shared.servers import nats
from tests.support.tiers import GROUPS

ROOT = Path(__file__).parent.parent
SOURCES = sorted(
    path
    for pattern in (
        "shared/src",
        "harness/src",
        "services/*/src",
        "cli/src",
        "agents/src",
        "discord-sim/src",
    )
    for folder in ROOT.glob(pattern)
    for path in folder.rglob("*.py")
)
SQL_FILES = [
    *ROOT.glob("services/*/src/*/sql/*.sql"),
    *ROOT.glob("shared/src/*/sql/*.sql"),
]
TESTS = sorted((ROOT / "tests").rglob("*.py"))
HARNESS = [path for path in SOURCES if path.is_relative_to(ROOT / "harness")]
SQL = re.compile(r"^\s*(select|insert|update|delete|create|alter|drop)\s", re.IGNORECASE)
# Where a string, or its part behind a value, may begin so. Other files need not be walked.
SQL_WORD = re.compile(
    r"""["'}](\\n|\s)*(select|insert|update|delete|create|alter|drop)\s""", re.IGNORECASE
)
# Their texts come from docstrings, statements and results.
GENERATED_PAGES = (
    "bench/RESULTS.md",
    "docs/events.md",
    "docs/gpus.md",
    "docs/problems",
    "docs/public-sets.md",
    "docs/shortcuts.md",
)
# A file of problems, and one that a trial change added.
FOREIGN_FILES = ("eval.py", "site/templates/records.html")
STANDARD = {"__future__", *__import__("sys").stdlib_module_names}
# These make a value and do nothing else.
HARMLESS_AT_IMPORT = re.compile(
    r"(frozenset|set|dict|tuple|range|len|sorted|vars|field|type|TypeVar|NewType|get_args|Path|Query"
    r"|partial|[A-Z]\w+(\[.*\])?|re\.compile|bytes\.fromhex|struct\.Struct|operator\.\w+"
    r"|'[^']*'\.join|logging\.(getLogger|makeLogRecord)|msgspec\.json\.\w+"
    r"|\w+\.(option|argument|command|group|__subclasses__|items|split))\b|[A-Z]\w+\[.*\]\("
)


# Locals that do not say what they hold, and words that no reader of other projects knows.
VAGUE_LOCALS = re.compile(
    "one|found|said|told|asked|wanted|seen|kept|shown|listed|given|made|done|what|which|who|whole|rest"
)
VAGUE_CLASSES = re.compile(
    "_?(Asked|Told|Wanted|Said|Shown|Listed|Given|Kept|Seen|Looked|Made|Found|Happened|Expected|Twice"
    "|Both|Which|When|Why|How|Well|Back|Again|Aside|Behind|Beside|Elsewhere|Nowhere|Nothing|Once|Soon"
    "|Whole|Short|Mine|Own|Me|Departure|Attic|Purse|Court|Seat|Nursery|Town|Office|Slip|Hands|Desk"
    "|Deed|Letters?|Mail|Journeys|Life|Vitals|Voucher|Outfit|Rhythm|Stranger|Newcomer|Plea|Remark"
    "|Wish|Home|Birth|Ears|Shelf|Purge|Trail|Way|Wall|Foul|Volley|Leash|Leashed)"
)
DIALECT = re.compile(r"\b(anew|whence|whither|hitherto)\b", re.IGNORECASE)


def where(path: Path, line: int, what: str) -> str:
    return f"{path.relative_to(ROOT)}:{line}: {what}"


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def nodes(path: Path) -> list[ast.AST]:
    """All of a file's syntax tree, walked once for all tests."""
    return list(ast.walk(parsed(path)))


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """The functions of a module and the methods of its classes."""
    for node in parsed(path).body:
        for inner in node.body if isinstance(node, ast.ClassDef) else [node]:
            if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
                yield inner


def test_public_things_say_what_they_promise() -> None:
    found = []
    for path in SOURCES:
        tree = parsed(path)
        if not ast.get_docstring(tree):
            found.append(where(path, 1, "the module opens with no sentence"))
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                found += _undocumented(path, node)
    assert not found, "\n".join(found)


def _undocumented(
    path: Path, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
) -> list[str]:
    decorators = {ast.unparse(one) for one in node.decorator_list}
    if node.name.startswith("_") or "overload" in decorators:
        return []
    found = []
    if not ast.get_docstring(node):
        found.append(where(path, node.lineno, f"{node.name} has no docstring"))
    if isinstance(node, ast.ClassDef):
        for inner in node.body:
            if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
                found += _undocumented(path, inner)
    return found


def test_a_name_says_what_it_holds() -> None:
    findings = []
    for path in SOURCES:
        for node in nodes(path):
            if isinstance(node, ast.ClassDef) and VAGUE_CLASSES.fullmatch(node.name):
                findings.append(where(path, node.lineno, f"{node.name}: a type is a noun"))
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                findings += [
                    where(path, inner.lineno, f"{inner.id}: name what it holds")
                    for inner in ast.walk(node)
                    if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store)
                    if VAGUE_LOCALS.fullmatch(inner.id)
                ]
    assert not findings, "\n".join(findings)


def test_texts_are_in_plain_english() -> None:
    findings = []
    for path in SOURCES:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if word := DIALECT.search(line):
                findings.append(where(path, number, f"{word[0]!r}: use the common word"))
    assert not findings, "\n".join(findings)


def test_importing_does_nothing() -> None:
    found = [said for path in SOURCES for node in parsed(path).body for said in _calls(path, node)]
    assert not found, "\n".join(found)


def _calls(path: Path, node: ast.stmt) -> Iterator[str]:
    """What a statement of a module calls when that is imported; `if __name__ == ...` may."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield where(path, node.lineno, "a call at import: wire it in __main__")
    if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
        values = list(ast.walk(node.value))
        run_later = {
            inner for value in values if isinstance(value, ast.Lambda) for inner in ast.walk(value)
        }
        for call in values:
            if (
                isinstance(call, ast.Call)
                and call not in run_later
                and not HARMLESS_AT_IMPORT.match(ast.unparse(call))
            ):
                yield where(path, call.lineno, f"{ast.unparse(call)[:60]} runs at import")


def test_only_settings_read_the_environment() -> None:
    found = [
        where(path, node.lineno, "reads the environment: ask for it in settings.py")
        for path in SOURCES
        if path.name != "settings.py" and re.search(rb"environ|getenv", path.read_bytes())
        for node in nodes(path)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "os"
        and node.attr in ("environ", "getenv")
    ]
    assert not found, "\n".join(found)


def test_no_python_string_is_a_sql_program() -> None:
    found = [
        where(path, node.lineno, "SQL in Python: put it into sql/*.sql")
        for path in SOURCES
        if SQL_WORD.search(path.read_text(encoding="utf-8"))
        for node in nodes(path)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and "\n" in node.value
        and SQL.match(node.value)
        and node not in _docstrings(path)
    ]
    assert not found, "\n".join(found)


@cache
def _docstrings(path: Path) -> set[ast.AST]:
    """The docstrings of a file: they may begin with a word such as Create."""
    return {
        node.body[0].value
        for node in nodes(path)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }


def test_the_harness_stands_on_the_standard_library_alone() -> None:
    found = [
        where(path, getattr(node, "lineno", 0), f"imports {name}")
        for path in HARNESS
        for node in nodes(path)
        for name in _imported(node)
        if name.partition(".")[0] not in {*STANDARD, "harness"}
    ]
    assert not found, "\n".join(found)


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and not node.level:
        return [node.module or ""]
    return []


def test_the_harness_package_itself_imports_nothing() -> None:
    code = "import sys; old = set(sys.modules); import harness; print(*set(sys.modules) - old)"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert process.stdout.decode().split() == ["harness"]


def test_every_sql_statement_is_described_and_used() -> None:
    found = []
    for path in SQL_FILES:
        code = "".join(one.read_text() for one in path.parent.parent.rglob("*.py"))
        text = path.read_text()
        for match in re.finditer(r"^-- name: (\w+)\n(.*)$", text, re.MULTILINE):
            line = text.count("\n", 0, match.start()) + 1
            if f'"{match[1]}"' not in code and f"(:{match[1]})" not in text:
                found.append(where(path, line, f"{match[1]} is used nowhere: delete it"))
            if not match[2].startswith("-- "):
                found.append(where(path, line, f"{match[1]} is not described"))
    assert not found, "\n".join(found)


def test_no_sql_selects_everything() -> None:
    found = [
        where(path, number, "select *: name the columns")
        for path in SQL_FILES
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if re.search(r"select\s+\*", line, re.IGNORECASE)
    ]
    assert not found, "\n".join(found)


def test_every_dependency_is_pinned() -> None:
    found = []
    for path in [*ROOT.glob("*/pyproject.toml"), *ROOT.glob("services/*/pyproject.toml")]:
        # The adapters have an environment of their own.
        own = path.with_name("constraints.txt")
        constraints = own if own.exists() else ROOT / "constraints.txt"
        pinned = {
            line.partition("==")[0].strip().lower().replace("_", "-")
            for line in constraints.read_text().splitlines()
            if "==" in line
        }
        project = tomllib.loads(path.read_text())["project"]
        named = [*project["dependencies"]]
        for extra in project.get("optional-dependencies", {}).values():
            named += extra
        names = {re.split(r"[\[>=<~!; ]", one)[0].lower() for one in named}
        found += [
            f"{path.relative_to(ROOT)}: {name} is not in {constraints.relative_to(ROOT)}"
            for name in sorted(names - pinned)
            if not name.startswith("warpboard-")
        ]
    assert not found, "\n".join(found)


def test_the_links_of_every_page_resolve() -> None:
    findings = []
    for page in [*list_pages(ROOT), *ROOT.glob("problems/*/*.md")]:
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
            for target, anchor in re.findall(r"\]\(([^)#\s]*)#?([^)\s]*)\)", line):
                path = page.parent / target if target else page
                if "://" in target:
                    continue
                if not path.exists():
                    findings.append(where(page, number, f"{target} is not there"))
                elif anchor and anchor not in anchors(path):
                    findings.append(where(page, number, f"{target} has no heading #{anchor}"))
    assert not findings, "\n".join(findings)


@cache
def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and the guide make them."""
    text = re.sub(
        r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL
    )
    names = [
        re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")
        for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    ]
    return {*names, *re.findall(r'<a id="([^"]+)"', text)}


def test_the_files_and_modules_that_the_architecture_names_exist() -> None:
    """A path is one from the root, below a part's package, or begins with the part itself."""
    roots = [ROOT, *ROOT.glob("deploy/*"), *ROOT.glob("*/src/*"), *ROOT.glob("services/*/src/*")]
    # In `ranker/http/access.py` the part is named, below a folder `src`.
    roots += [root.parent for root in roots if root.parent.name == "src"]
    findings = []
    for page in (ROOT / "ARCHITECTURE.md", ROOT / "docs/changes.md"):
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
            for path in itertools.chain(*map(_expand_braces, re.findall(r"`([^`]+)`", line))):
                if re.fullmatch(r"(shared|harness|ingest|scheduler|ranker)(\.\w+)+", path):
                    path = f"{path.replace('.', '/')}.py"  # noqa: PLW2901
                if (
                    re.fullmatch(r"[\w./-]+\.(py|sql|csv|yml|json|html)", path)
                    and path not in FOREIGN_FILES
                    and not any((root / path).exists() for root in roots)
                ):
                    findings.append(where(page, number, f"no part has {path}"))
    assert not findings, "\n".join(findings)


def _expand_braces(text: str) -> list[str]:
    """Return the paths that a list in braces stands for.

    >>> _expand_braces("http/{requests,responses}.py")
    ['http/requests.py', 'http/responses.py']
    """
    match = re.search(r"\{([^{}]*,[^{}]*)\}", text)
    if match is None:
        return [text]
    return [
        path
        for choice in match[1].split(",")
        for path in _expand_braces(text[: match.start()] + choice + text[match.end() :])
    ]


def test_a_line_of_a_page_is_short() -> None:
    findings = [
        where(page, number, f"{len(line)} columns: wrap it at 100")
        for page in list_pages(ROOT)
        if not any(page.is_relative_to(ROOT / name) for name in GENERATED_PAGES)
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1)
        # Markdown cannot wrap a row of a table.
        if len(line) > 100 and not line.lstrip().startswith("|")
    ]
    assert not findings, "\n".join(findings)


@pytest.mark.parametrize("folder", ["services/ranker/src/ranker", "shared/src/shared"])
def test_migrations_are_numbered_one_by_one(folder: str) -> None:
    names = sorted(path.name for path in (ROOT / folder / "migrations").glob("*.sql"))
    numbers = [int(name.partition("_")[0]) for name in names]
    assert numbers == list(range(1, len(numbers) + 1)), names


def test_the_index_of_decisions_names_each_page() -> None:
    index = ROOT / "docs/adr/README.md"
    linked = re.findall(r"\]\(([a-z-]+\.md)\)", index.read_text(encoding="utf-8"))
    decisions = sorted(path.name for path in index.parent.glob("*.md") if path != index)
    assert sorted(linked) == decisions, f"{index.relative_to(ROOT)}: name each page once"


def test_the_page_of_events_is_fresh() -> None:
    page = ROOT / "docs/events.md"
    assert page.read_text(encoding="utf-8") == events_page(), "run `make docs`"


def test_the_schemas_of_problem_files_are_fresh() -> None:
    for path, text in schema_pages().items():
        assert path.read_text(encoding="utf-8") == text, "make docs"


def test_the_document_of_the_reads_is_fresh() -> None:
    assert READS.read_text(encoding="utf-8") == reads(), "run `make docs`"


def test_every_event_has_an_aggregate_and_a_publisher() -> None:
    bare = [name for name, kind in CATALOGUE.items() if not (kind.aggregate and kind.publisher)]
    assert not bare


def test_a_test_that_starts_a_server_without_the_marker_fails() -> None:
    with pytest.raises(AssertionError, match=r"lacks pytest\.mark\.server$"):
        subprocess.run([nats.find_binary(), "--version"], check=False)


def test_every_group_has_its_files() -> None:
    files = [str(path.relative_to(ROOT)) for path in TESTS]
    unused = [
        pattern
        for patterns in GROUPS.values()
        for pattern in patterns
        if not any(fnmatch(file, pattern) for file in files)
    ]
    assert not unused


def test_no_test_asserts_seconds_of_wall_time() -> None:
    """A shared machine may stand still for any time: count operations, or bound the wait."""
    clock = re.compile(r"assert .*\b(monotonic|perf_counter|time\.time)\(\).* <=? ?[\d.]+\b")
    found = [
        where(path, number, "asserts seconds: count operations instead")
        for path in TESTS
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if clock.search(line)
    ]
    assert not found, "\n".join(found)


def test_the_makefile_knows_every_folder_with_a_test_that_runs_alone() -> None:
    (line,) = re.findall(r"^ALONE = (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    folders = {
        f"tests/{path.relative_to(ROOT / 'tests').parts[0]}"
        for path in TESTS
        if "mark.alone" in path.read_text(encoding="utf-8") and path.parent.name != "tests"
    }
    assert folders == set(line.split())
