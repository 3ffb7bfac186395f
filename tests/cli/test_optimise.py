"""The optimiser without a harness: templates, evolution, the trace, and what is refused."""

import ast
from pathlib import Path
from random import Random

import pytest

from shared.errors import Refused
from tests.cli.command_runner import run_warpboard
from warpboard.domain.evolution import Parent, cross, mutate
from warpboard.domain.tuning import find_constants, read_template, set_constants
from warpboard.optimiser_files import TRACE, TraceFile, TraceLine
from warpboard.service.optimisation.pool import Pool, Proposal
from warpboard.service.optimisation.proposers import SearchProposer

PROBLEM = Path(__file__).parents[2] / "problems" / "identity"
START = "#!WARPBOARD tune A 1 2 4\n#!WARPBOARD tune B 'x' 'y'\nA = 2\nB = 'x'\n"


def line(candidate: int, **fields: object) -> TraceLine:
    known = {"round": 0, "stage": "benchmark", "origin": "start", "name": "k.py", "source": START}
    known |= {"verdict": "passed", "problem": "p", "problem_digest": "d"}
    return TraceLine(candidate=candidate, **(known | fields))  # type: ignore[arg-type]


async def test_a_search_proposes_every_setting_once() -> None:
    template = read_template("k.py", START)
    pool = Pool()
    pool.add(Proposal("start", "k.py", START, values=template.values), 0)
    proposals = await SearchProposer(template, 0).propose(pool, 100)
    sources = {proposal.source for proposal in proposals}
    assert len(proposals) == len(sources) == 5
    assert START not in sources


@pytest.mark.parametrize("seed", range(8))
def test_a_child_has_a_function_of_the_other_parent_with_what_it_needs(seed: int) -> None:
    first = Parent("a.py", "def f(x):\n    return x\n\n\ndef g(x):\n    return f(x)\n")
    second = Parent(
        "b.py",
        "import math\nN = 3\n\n\ndef f(x):\n    return math.sqrt(x) * N\n\n\n"
        "def g(x):\n    return f(x)\n",
    )
    child = cross(first, second, Random(seed))
    assert child is not None
    ast.parse(child)
    values: dict[str, object] = {}
    exec(child, values)  # noqa: S102  (our own text)
    assert values["g"](4) == 6  # type: ignore[operator]


@pytest.mark.parametrize("seed", range(8))
def test_a_mutation_stays_among_the_declared_values(seed: int) -> None:
    child = mutate(Parent("k.py", START), Random(seed))
    assert child is not None
    assert child != START
    read_template("k.py", child)


def test_constants_of_native_files_are_set_in_place() -> None:
    text = "#define N 16 // rows\nconstexpr int M = 4;\n"
    assert set_constants("k.cu", text, {"N": "32", "M": "8"}) == text.replace("16", "32").replace(
        "= 4", "= 8"
    )
    assert list(find_constants("k.py", "A = 1\nA = 2\nB = 3\n")) == ["B"]


def test_the_best_has_the_highest_lower_bound_of_a_time_that_counts() -> None:
    pool = Pool(
        [
            line(0, speedup=1.0, interval=(0.9, 1.1), grade="ok"),
            line(1, origin="search", speedup=2.0, interval=(1.8, 2.2), grade="ok"),
            line(2, origin="search", speedup=3.0, interval=(1.2, 9.0), grade="ok"),
            line(3, origin="search", speedup=9.0, interval=(8.0, 10.0), grade="noisy"),
            line(4, origin="retrieved", speedup=9.0, interval=(8.0, 10.0), grade="ok"),
            line(5, origin="search", verdict="wrong_answer"),
        ]
    )
    best = pool.best()
    assert best is not None
    assert best.id == 1


def test_a_trace_goes_on_behind_a_line_that_a_kill_cut_off(tmp_path: Path) -> None:
    with TraceFile(tmp_path) as trace:
        trace.append(line(0))
    with (tmp_path / TRACE).open("ab") as file:
        file.write(b'{"candidate": 1, "ro')
    with TraceFile(tmp_path) as trace:
        assert len(trace.lines) == 1
        trace.append(line(1))
        with pytest.raises(Refused, match="another process"), TraceFile(tmp_path):
            pass
        with pytest.raises(Refused, match="another START"):
            trace.check_run("p", "d", "other")
    with TraceFile(tmp_path) as trace:
        assert [kept.candidate for kept in trace.lines] == [0, 1]


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        ("x = 1\n", (), "declares no constant to tune: begin it with lines like"),
        ("#!WARPBOARD tune A 1 2\n", (), "tune A: write `A = 1` once"),
        ("#!WARPBOARD tune A 1 2\nA = 3\n", (), "its value 3 is not among those declared"),
        ("#!WARPBOARD tune A 1\nA = 1\n", (), "line 1: tune takes a constant's name and two"),
        ("x = 1\n", ("--by", "model"), "--endpoint: name it"),
    ],
)
def test_wrong_input_is_refused_with_the_fix(
    source: str, options: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    start = tmp_path / "k.py"
    start.write_text(source)
    result = run_warpboard("optimise", PROBLEM, start, "--out", tmp_path / "out", *options)
    assert result.exit_code == 2
    assert message in result.stderr
    assert not (tmp_path / "out").exists()
