"""The optimiser without a harness: templates, evolution, the trace, and what is refused."""

import ast
import re
import shlex
import subprocess
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import click
import msgspec
import pytest

from harness.evaluations import Evaluation
from harness.evaluator import EvaluationMode
from shared.errors import Refused
from tests.cli.command_runner import PROGRAM, run_warpboard
from tests.cli.model_server import complete, run_model_server
from warpboard.domain.evolution import Parent, cross, mutate
from warpboard.domain.tuning import find_constants, read_template, set_constants
from warpboard.model_endpoint import open_endpoint
from warpboard.optimiser_files import TRACE, TraceFile, TraceLine
from warpboard.service.optimisation.loop import Budget, Optimiser, ProblemName
from warpboard.service.optimisation.pool import Candidate, Pool, Proposal
from warpboard.service.optimisation.proposers import (
    EvolutionProposer,
    ModelProposer,
    SearchProposer,
    Task,
    make_prompt,
)

ROOT = Path(__file__).parents[2]
PROBLEM = ROOT / "problems" / "identity"
START = "#!WARPBOARD tune A 1 2 4\n#!WARPBOARD tune B 'x' 'y'\nA = 2\nB = 'x'\n"


def line(candidate: int, **fields: object) -> TraceLine:
    known = {"round": 0, "stage": "benchmark", "origin": "start", "name": "k.py", "source": START}
    known |= {"verdict": "passed", "problem": "p", "problem_digest": "d"}
    return TraceLine(candidate=candidate, **(known | fields))  # type: ignore[arg-type]


def read_line(data: bytes) -> TraceLine:
    return msgspec.json.decode(data, type=TraceLine)


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


class Scripted:
    """Evaluates kernels by their constants: A times as fast, and wrong if B is 'y'.

    Times of the kernels in `noisy` are noisy so often.
    """

    def __init__(self, noisy: Mapping[str, int] | None = None) -> None:
        self.noisy = dict(noisy or {})
        self.stages: list[tuple[str, int]] = []

    async def evaluate(
        self, candidates: Sequence[Candidate], mode: EvaluationMode, precision: float
    ) -> AsyncGenerator[tuple[Candidate, Evaluation], None]:
        self.stages.append((f"{mode} {precision}", len(candidates)))
        for candidate in candidates:
            values = candidate.proposal.values
            if values["B"] == "'y'":
                yield candidate, Evaluation(candidate.id, mode, "wrong_answer", "case 0 differs")
            elif mode == "test":
                yield candidate, Evaluation(candidate.id, mode, "passed", "")
            else:
                speedup = float(values["A"])
                left = self.noisy.get(values["A"], 0)
                self.noisy[values["A"]] = left - 1
                yield (
                    candidate,
                    Evaluation(
                        *(candidate.id, mode, "passed", ""),
                        speedup=speedup,
                        interval=(0.9 * speedup, 1.1 * speedup),
                        grade="noisy" if left > 0 else "ok",
                    ),
                )

    async def evaluate_backwards(
        self, candidates: Sequence[Candidate], mode: EvaluationMode, precision: float
    ) -> AsyncGenerator[tuple[Candidate, Evaluation], None]:
        """Let the last one end first, as may happen."""
        async for ended in self.evaluate(candidates[::-1], mode, precision):
            yield ended


WIDE = (
    "#!WARPBOARD tune A 1 2 3 4 5 6 7 8\n#!WARPBOARD tune B 'x' 'y'\nA = 1\nB = 'x'\n"
    "def custom_kernel(data):\n    return data\n"
)


async def optimise(folder: Path, scripted: Scripted, evaluations: int) -> Optimiser:
    """Run the loop with a search; return it when its budget is used up."""
    template = read_template("k.py", WIDE)
    start = Proposal("start", "k.py", WIDE, values=template.values)
    with TraceFile(folder) as trace:
        optimiser = Optimiser(
            trace,
            ProblemName("p", "d"),
            Budget(evaluations, 60),
            scripted.evaluate,
            lambda _: None,
        )
        await optimiser.begin(start, [])
        await optimiser.improve(SearchProposer(template, 0), 16)
        return optimiser


async def test_all_are_checked_those_that_pass_timed_and_the_best_third_precisely(
    tmp_path: Path,
) -> None:
    scripted = Scripted()
    optimiser = await optimise(tmp_path, scripted, 100)
    assert scripted.stages == [
        *(("test 0.0", 1), ("benchmark 0.0", 1)),
        *(("test 0.0", 15), ("benchmark 0.2", 7), ("benchmark 0.0", 3)),
    ]
    best = optimiser.pool.best()
    assert best is not None
    assert best.proposal.values["A"] == "8"
    precise = [kernel for kernel in optimiser.pool.candidates if kernel.attempts("benchmark")]
    assert sorted(kernel.proposal.values["A"] for kernel in precise) == ["1", "6", "7", "8"]


async def test_a_noisy_time_is_measured_once_more_and_never_counts(tmp_path: Path) -> None:
    # The rough times of 8 are both noisy; of 7 the first precise one is.
    optimiser = await optimise(tmp_path, Scripted({"8": 2, "7": 0, "6": 1}), 100)
    attempts = {
        kernel.proposal.values["A"]: (kernel.attempts("screen"), kernel.attempts("benchmark"))
        for kernel in optimiser.pool.candidates
        if kernel.has_passed
    }
    assert (attempts["8"], attempts["7"], attempts["6"]) == ((2, 0), (1, 1), (2, 1))
    best = optimiser.pool.best()
    assert best is not None
    assert best.proposal.values["A"] == "7"


async def test_a_run_that_was_cut_off_anywhere_ends_as_if_it_had_not_been(tmp_path: Path) -> None:
    await optimise(tmp_path, Scripted(), 100)
    lines = (tmp_path / TRACE).read_bytes().splitlines(keepends=True)
    assert len(lines) == 27
    for count in range(len(lines) + 1):
        folder = tmp_path / str(count)
        folder.mkdir()
        (folder / TRACE).write_bytes(b"".join([*lines[:count], b'{"candid']))
        scripted = Scripted()
        optimiser = await optimise(folder, scripted, 100)
        after = (folder / TRACE).read_bytes().splitlines(keepends=True)
        assert after[:count] == lines[:count]
        best = optimiser.pool.best()
        assert best is not None
        assert best.proposal.values["A"] == "8", count
        stages = [(line.source, line.stage) for line in map(read_line, after)]
        assert len(stages) == len(set(stages)), f"evaluated twice behind line {count}"


async def test_a_trace_begins_with_its_start(tmp_path: Path) -> None:
    start = Proposal("start", "k.py", WIDE, values=read_template("k.py", WIDE).values)
    other = replace(start, origin="retrieved", source=f"{WIDE}\n# other\n")
    with TraceFile(tmp_path) as trace:
        name, budget = ProblemName("p", "d"), Budget(20, 60)
        optimiser = Optimiser(trace, name, budget, Scripted().evaluate_backwards, lambda _: None)
        await optimiser.begin(start, [other])
    with TraceFile(tmp_path) as trace:
        assert trace.lines[0].source == WIDE
        trace.check_run("p", "d", WIDE)


async def test_a_budget_is_kept_with_one_evaluation_for_the_end(tmp_path: Path) -> None:
    await optimise(tmp_path, Scripted(), 10)
    assert (tmp_path / TRACE).read_bytes().count(b"\n") == 9
    await optimise(tmp_path, Scripted(), 10)
    assert (tmp_path / TRACE).read_bytes().count(b"\n") == 9
    await optimise(tmp_path, Scripted(), 14)
    assert (tmp_path / TRACE).read_bytes().count(b"\n") == 13


async def test_a_kernel_that_fails_a_later_check_is_neither_best_nor_a_parent() -> None:
    timed = {"origin": "search", "speedup": 3.0, "interval": (2.0, 4.0), "grade": "ok"}
    pool = Pool(
        [
            line(0, speedup=1.0, interval=(0.9, 1.1), grade="ok"),
            line(1, stage="screen", **timed),
            line(1, origin="search", verdict="wrong_answer", reason="case 0 differs"),
            line(2, stage="screen", **timed),
            line(2, origin="search", verdict="", reason="the sandbox failed"),
        ]
    )
    assert [kernel.id for kernel in pool.fastest()] == [2, 0]
    # Its rough time counts, so the duel decides.
    best = pool.best()
    assert best is not None
    assert best.id == 2
    _, prompt = make_prompt(Task("t", "s", "r", "cpu"), pool, pool.start)
    assert "Kernel 1: wrong_answer: case 0 differs" in prompt.content
    assert "Kernel 2: passed, 3 times as fast as the yardstick" in prompt.content


async def test_a_kernel_without_a_time_that_counts_is_a_parent_beside_those_with_one() -> None:
    """On a busy machine, only a retrieved kernel may have one, and nothing in it can change."""
    interval = (0.9, 1.1)
    plain = "def custom_kernel(data):\n    return data\n"
    timed = {"origin": "retrieved", "source": plain, "speedup": 1.0, "interval": interval}
    noisy = line(0, speedup=1.0, interval=interval, grade="noisy")
    for start in (noisy, line(0, stage="test"), line(0, verdict="", stage="test")):
        passed = line(0, stage="test")
        pool = Pool([passed, start, line(1, grade="ok", **timed)])
        proposals = await EvolutionProposer(0).propose(pool, 4)
        assert {proposal.parents for proposal in proposals} == {(0,)}
        assert len(proposals) == 3
    # One that fails is none.
    pool = Pool([line(0, stage="test", verdict="wrong_answer"), line(1, grade="ok", **timed)])
    assert await EvolutionProposer(0).propose(pool, 4) == []


def test_a_kernel_that_passes_is_better_than_a_start_that_does_not() -> None:
    noisy = {"origin": "model", "speedup": 3.0, "interval": (2.0, 4.0), "grade": "noisy"}
    lines = [
        line(0, stage="test", verdict="wrong_answer"),
        line(1, stage="test", origin="model", verdict="compile_error"),
        line(2, **noisy),
    ]
    best = Pool(lines).best()
    assert best is not None
    assert best.id == 2


def test_a_noisy_time_leads_to_the_duel_only_where_none_counts() -> None:
    start = line(0, speedup=1.0, interval=(0.9, 1.1), grade="ok")
    noisy = {"origin": "search", "speedup": 3.0, "grade": "noisy"}
    fast, slow = line(1, interval=(2.0, 4.0), **noisy), line(2, interval=(0.8, 5.0), **noisy)
    timed = line(3, origin="search", speedup=1.3, interval=(1.2, 1.4), grade="ok")
    bests = [Pool(lines).best() for lines in ([start, fast], [start, slow], [start, fast, timed])]
    assert [best.id for best in bests if best is not None] == [1, 0, 3]


async def test_a_model_is_asked_no_more_once_its_tokens_are_used() -> None:
    pool = Pool([line(0, speedup=1.0, interval=(0.9, 1.1), grade="ok")])
    task = Task("t", "s", "r", "cpu")
    # The second answer is what the pool has, and counts all the same.
    with run_model_server(complete("```py\nx = 1\n```\n", 40), complete(START, 60)) as server:
        async with open_endpoint(server.url, "small", 9, "") as endpoint:
            proposer = ModelProposer(endpoint, task, 100)
            (proposal,) = await proposer.propose(pool, 1)
            pool.add(proposal, 1)
            assert (proposal.source, proposal.tokens) == ("x = 1\n", 40)
            assert await proposer.propose(pool, 1) == []
            assert await proposer.propose(pool, 1) == []
    assert len(server.asked) == 2


def parse_command(words: Sequence[str]) -> dict[str, Any]:
    """Return the parameters of a command as it would be called with them."""
    context = click.Context(PROGRAM, obj=None)
    command: click.Command = PROGRAM
    rest = list(words)
    while isinstance(command, click.Group):
        found = command.get_command(context, rest.pop(0))
        assert found is not None, words
        command = found
    return dict(command.make_context(command.name, rest, parent=context).params)


def test_the_four_stages_on_the_page_can_be_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (ROOT / "docs" / "optimiser.md").read_text()
    stages = text[text.index("## Four stages") :]
    monkeypatch.chdir(tmp_path)
    for name in ("cli", "problems"):
        (tmp_path / name).symlink_to(ROOT / name)
    called = []
    for block in re.findall(r"^```sh\n(.*?)^```", stages, re.MULTILINE | re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            program, *words = shlex.split(line)
            if program == "warpboard":
                called.append(parse_command(words))
            else:
                assert program in ("cp", "mkdir")
                subprocess.run([program, *words], check=True)
    *optimised, searched = called
    assert [call["by"] for call in optimised] == ["model", "search", "evolution", "search"]
    assert [call["is_submitted"] for call in optimised] == [False, False, False, True]
    assert searched["problem"] == "life"
    start = Path("work/start.py").read_text()
    assert read_template("start.py", start).size > 1
    other = Path("work/kernels/archived.py").read_text()
    parents = Parent("start.py", start), Parent("archived.py", other)
    children = {cross(*parents, Random(seed)) for seed in range(20)} - {None}
    assert len(children) > 1
    for child in children:
        compile(str(child), "child.py", "exec")
