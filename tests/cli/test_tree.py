"""What holds of every command: an example, one document for programs, no fall without a reader."""

import contextlib
import errno
import io
import json
import platform
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from msgspec import inspect
from rich.cells import cell_len

from shared.clock import now
from shared.version import VERSION
from tests.cli.answers import RECEIVED_AT
from tests.cli.command_cases import ASKED, HERE, PLATFORMS, say
from tests.cli.command_runner import PROGRAM, environment
from tests.cli.stand_in import ReceivedRequest, StandIn, find_model, run_stand_in
from tests.cli.test_screen import Terminal
from warpboard.domain.output import Table
from warpboard.files import create_contest_files
from warpboard.screen import Screen
from warpboard.terminal.commands import COMMANDS as TABLE
from warpboard.terminal.commands import GROUPS
from warpboard.terminal.program import load_command, suggest_commands

ROOT = Path(__file__).parent.parent.parent
KERNEL = "def custom_kernel(data):\n    source, output = data[0], data[-1]\n    return output\n"
TOKEN = "wb_secret"
ENVIRON = {"WARPBOARD_OPERATOR_TOKEN": "secret-token", "WARPBOARD_PARTICIPANT": "ada"}


SUMMARIES = {words: summary for words, (_, summary) in TABLE.items()}
COMMANDS = tuple(SUMMARIES)

MODEL = "class Model: ...\ndef get_inputs(): ...\ndef get_init_inputs(): ...\n"


class Unread(io.StringIO):
    """A stdout whose reader has gone."""

    def write(self, text: str) -> int:
        del text
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")


@pytest.fixture(scope="module")
def standin() -> Iterator[StandIn]:
    """One stand-in for all."""
    with run_stand_in(say) as running:
        yield running


def words_of(command: str, folder: Path, url: str) -> list[str]:
    """A command with its arguments."""
    file = folder / "kernel.py"
    file.write_text(KERNEL)
    levels = folder / "KernelBench" / "level1"
    levels.mkdir(parents=True, exist_ok=True)
    (levels / "1_Add.py").write_text(MODEL)
    paths = {"FILE": file, "DIR": ROOT / "problems" / "identity", "NEW": folder / "new"}
    paths["LEVELS"], paths["SOURCES"] = folder, folder / "sources.jsonl"
    paths["CONTEST"] = folder / "cup"
    if not paths["CONTEST"].exists():
        create_contest_files(paths["CONTEST"], ["m:CPU"], "ada", now(), is_now=True)
    paths["ROSTER"] = folder / "class.csv"
    paths["ROSTER"].write_text("name\nmilo\n")
    paths["SOURCES"].write_text(json.dumps({"id": "a", "source": KERNEL}))
    arguments = [str(paths.get(item, item)) for item in (ASKED | HERE)[command]]
    return [*command.split(), *arguments, *(("--url", url) if command in ASKED else ())]


def run(words: list[str], home: Path) -> Result:
    """Run it, as somebody whose tokens lie in a home of their own."""
    variables = environment(ENVIRON | {"HOME": str(home)})
    return CliRunner().invoke(PROGRAM, words, env=variables, input=TOKEN)


def test_every_command_is_known_here() -> None:
    assert sorted(COMMANDS) == sorted([*ASKED, *HERE, *PLATFORMS])


@pytest.mark.parametrize("group", ["", *GROUPS])
def test_a_group_says_in_whole_sentences_what_is_in_it(group: str) -> None:
    result = CliRunner().invoke(PROGRAM, [*group.split(), "--help"])
    assert "..." not in result.stdout.replace("[ARGS]...", "")


@pytest.mark.parametrize("group", ["", *GROUPS])
def test_a_group_says_everything_in_one_screen(group: str) -> None:
    result = CliRunner().invoke(PROGRAM, [*group.split(), "--help"])
    lines = result.stdout.splitlines()
    entries = [line for line in lines if line.startswith("  ") and "  " in line.strip()]
    assert len(lines) <= 48
    assert all(len(line) <= 100 for line in lines)
    assert len(entries) >= sum(words.rpartition(" ")[0] == group for words in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_summary_of_a_command_is_the_first_sentence_of_its_help(command: str) -> None:
    loaded = load_command(command)
    assert loaded is not None
    assert (loaded.help or "").partition("\n\n")[0].replace("\n", " ") == SUMMARIES[command]
    assert len(SUMMARIES[command]) <= 72


@pytest.mark.parametrize(
    ("group", "name", "expected"),
    [
        ("", "leaderbord", ["leaderboard"]),
        ("", "diff", ["submission diff"]),
        ("", "token", ["auth token", "admin token"]),
        ("", "deadletters", ["admin deadletter"]),
        ("submission", "shw", ["submission show"]),
        ("admin", "hold", ["admin submission hold"]),
        ("", "whoami", []),
    ],
)
def test_an_unknown_command_is_refused_with_the_closest_ones(
    group: str, name: str, expected: list[str]
) -> None:
    assert suggest_commands(group, name)[: len(expected)] == expected
    result = CliRunner().invoke(PROGRAM, [*group.split(), name, "--json"])
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"No such command '{name}'." in result.stderr
    for words in expected:
        assert f"\n  warpboard {words}\n" in result.stderr


def test_the_help_begins_with_an_example_and_the_commands() -> None:
    lines = CliRunner().invoke(PROGRAM, ["--help"], env={"COLUMNS": "80"}).stdout.splitlines()
    headings = [line.strip() for line in lines if re.match(r"  Example:$|[A-Z][^:]*:$", line)]
    assert headings[:2] == ["Example:", "Start here:"]
    assert lines[-1].endswith("143 stopped.")
    assert max(map(len, lines)) <= 80
    for example in (line.split() for line in lines if line.startswith("    warpboard ")):
        assert load_command(example[1]) is not None, example


def test_version_is_one_line() -> None:
    result = CliRunner().invoke(PROGRAM, ["--version"])
    python = f"{platform.python_implementation()} {platform.python_version()}"
    assert (result.exit_code, result.stdout) == (0, f"warpboard {VERSION} ({python})\n")


def test_all_packages_have_the_version_of_one_file() -> None:
    assert re.fullmatch(r"0\.\d+\.\d+", VERSION)
    file = ROOT / "shared" / "src" / "shared" / "version.py"
    for path in (*ROOT.glob("*/pyproject.toml"), *ROOT.glob("services/*/pyproject.toml")):
        project = tomllib.loads(path.read_text())
        assert project["project"]["dynamic"] == ["version"], path
        source = path.parent / project["tool"]["hatch"]["version"]["path"]
        assert source.resolve() == file.resolve(), path


def list_imports(words: str) -> set[str]:
    """Run a command and return the modules that it imports."""
    process = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "warpboard", *words.split()],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return {line.rpartition("|")[2].strip() for line in process.stderr.splitlines()}


@pytest.mark.parametrize("words", ["--help", "--version", "submission --help", "admin --help", "x"])
def test_help_imports_no_command_and_no_heavy_library(words: str) -> None:
    imported = list_imports(words)
    assert "warpboard.terminal.commands" in imported
    heavy = {"pydantic", "msgspec", "httpx", "rich", "nats", "psycopg", "fastapi", "matplotlib"}
    modules = {place.partition(".")[0] for place, _ in TABLE.values()}
    commands = {f"warpboard.terminal.{module}" for module in modules} | {"warpboard.context"}
    assert imported & (heavy | commands | {"torch", "numpy", "asyncio", "yaml", "mcp"}) == set()


@pytest.mark.parametrize(
    ("words", "unused"),
    [
        ("completion bash", {"httpx", "pydantic", "yaml", "harness.entry"}),
        ("problem list --url http://127.0.0.1:9", {"pydantic", "yaml", "harness.entry"}),
    ],
)
def test_a_command_imports_only_libraries_that_it_uses(words: str, unused: set[str]) -> None:
    imported = list_imports(words)
    assert "warpboard.context" in imported
    assert imported & unused == set()


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_an_example_and_json(command: str) -> None:
    result = CliRunner().invoke(PROGRAM, [*command.split(), "--help"])
    assert result.exit_code == 0
    assert f"Example:\n    warpboard {command}" in result.stdout
    assert "--json" in result.stdout
    assert max(len(line) for line in result.stdout.splitlines()) <= 100


@pytest.mark.parametrize(
    "command", sorted({*ASKED, *HERE} - {"run", "evaluate", "duel", "problem check"})
)
def test_json_is_one_document_and_text_has_no_escapes(
    command: str, standin: StandIn, tmp_path: Path
) -> None:
    results = []
    for extra in ([], ["--json"]):
        home = tmp_path / f"home{len(extra)}"
        home.mkdir()
        results.append(run([*words_of(command, home, standin.url), *extra], home))
    for result in results:
        assert result.exit_code in (0, 1, 2, 3), result.output
        if command in ASKED:
            assert result.exit_code == 0, result.output
        assert "\x1b" not in result.output
        assert "Traceback" not in result.output
    told = results[-1]
    assert ("error" in json.loads(told.stdout)) == (told.exit_code in (2, 3))


# Long texts, large numbers, and everything optional.
LONG: dict[type[inspect.Type], Callable[[Any], Any]] = {
    inspect.Metadata: lambda kind: stretch(kind.type),
    inspect.UnionType: lambda kind: stretch(
        next(option for option in kind.types if not isinstance(option, inspect.NoneType))
    ),
    inspect.StructType: lambda kind: {
        field.encode_name: stretch(field.type) for field in kind.fields
    },
    inspect.ListType: lambda kind: [stretch(kind.item_type)] * 2,
    inspect.VarTupleType: lambda kind: [stretch(kind.item_type)] * 2,
    inspect.TupleType: lambda kind: [stretch(item) for item in kind.item_types],
    inspect.DictType: lambda kind: {"a long name": stretch(kind.value_type)},
    inspect.LiteralType: lambda kind: max(kind.values, key=len),
    inspect.StrType: lambda kind: "0123456789abcdef" * 4 if kind.pattern else "long words " * 8,
    inspect.IntType: lambda _: 1_234_567,
    inspect.FloatType: lambda _: 1234.567,
    inspect.BoolType: lambda _: True,
    inspect.DateTimeType: lambda _: RECEIVED_AT,
    inspect.AnyType: lambda _: None,
}


def stretch(kind: inspect.Type) -> Any:
    """Return a long JSON value of a type."""
    return LONG[type(kind)](kind)


def say_much(heard: ReceivedRequest) -> tuple[int, Any]:
    """Answer each request with long values."""
    model = find_model(heard)
    return (200, stretch(inspect.type_info(model))) if model else say(heard)


@pytest.fixture(scope="module")
def talkative() -> Iterator[StandIn]:
    """A stand-in with long answers."""
    with run_stand_in(say_much) as running:
        yield running


@pytest.mark.parametrize("command", ASKED)
def test_the_tables_of_every_command_fit_80_columns_or_are_wide_on_demand(
    command: str,
    standin: StandIn,
    talkative: StandIn,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    loaded = load_command(command)
    has_wide = loaded is not None and any(option.name == "is_wide" for option in loaded.params)
    tables: list[Table] = []
    print_table = Screen.table

    def record(screen: Screen, table: Table, *, is_wide: bool = False) -> list[str]:
        tables.append(table)
        return print_table(screen, table, is_wide=is_wide)

    monkeypatch.setattr(Screen, "table", record)
    url = (talkative if has_wide else standin).url
    result = run(words_of(command, tmp_path, url), tmp_path)
    assert result.exit_code in (0, 1, 3, 5), result.output
    assert bool(tables) is has_wide
    for table in tuple(tables):
        for stream in (io.StringIO(), Terminal()):
            left_out = Screen(stream, io.StringIO()).table(table)
            _, *lines = re.sub(r"\x1b\[[0-9;]*m", "", stream.getvalue()).splitlines()
            assert max(map(cell_len, lines)) <= 80
            assert not {*left_out} & {*lines[0].split("  ")}
        out = io.StringIO()
        assert Screen(out, io.StringIO()).table(table, is_wide=True) == []
        assert all(name in out.getvalue().splitlines()[1] for name in table.columns)


@pytest.mark.parametrize("command", sorted({*ASKED, "completion", "agent doctor"} - {"login"}))
def test_a_command_ends_quietly_when_nobody_reads(
    command: str, standin: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment(ENVIRON | {"HOME": str(tmp_path)}).items():
        monkeypatch.setenv(name, value) if value else monkeypatch.delenv(name, raising=False)
    err = io.StringIO()
    words = words_of(command, tmp_path, standin.url)
    with contextlib.redirect_stdout(Unread()), contextlib.redirect_stderr(err):
        with pytest.raises(SystemExit) as ended:
            PROGRAM(words, prog_name="warpboard")
        sys.stdout = sys.__stdout__
    assert ended.value.code == 141
    assert "Traceback" not in err.getvalue()


@pytest.mark.parametrize("command", ["problem list", "submission show", "status"])
def test_a_command_without_any_stdout_still_does_its_work(
    command: str, standin: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    with pytest.raises(SystemExit) as ended:
        PROGRAM(words_of(command, tmp_path, standin.url), prog_name="warpboard")
    assert ended.value.code == 0
