"""The evaluator: many sources against one problem, on the devices of this machine."""

import json
import math
import os
import shutil
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness import Evaluation, Evaluator, EvaluatorError, Source, compute_reward
from harness.vocabulary import GRADES
from tests.support.harness import HONEST, Host, Warm, children

pytestmark = pytest.mark.box

WRONG = "def custom_kernel(data):\n    data[1].fill_(7)\n    return data[1]\n"
UNREADABLE = "def custom_kernel(data:\n"
MODEL = """
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)


def get_inputs():
    return [torch.randn(64, 1024)]


def get_init_inputs():
    return []
"""
RELU = """
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return x.clamp(min=0)
"""
IDENTITY = RELU.replace("x.clamp(min=0)", "x.clone()")
KILL_EVERY_S = 0.05


@pytest.fixture(scope="module")
def evaluator() -> Iterator[Evaluator]:
    """An evaluator of two runs at once, which all tests use that do not break theirs."""
    with Evaluator(devices=["cpu"], slots=2) as evaluator:
        yield evaluator


@pytest.fixture
def problem(tmp_path: Path, warm: Warm) -> Path:
    """A compiled version of a small problem."""
    Host(tmp_path, warm).write()
    return tmp_path / "problem"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A problem in the form of KernelBench, in the folders of a checkout of it."""
    folder = tmp_path / "KernelBench" / "level1"
    folder.mkdir(parents=True)
    (folder / "19_ReLU.py").write_text(MODEL)
    return folder / "19_ReLU.py"


@contextmanager
def killing(others: set[int], every_s: float) -> Iterator[None]:
    """Kill every supervisor that this process starts meanwhile, and those that it has."""
    is_over = threading.Event()

    def kill() -> None:
        while not is_over.wait(every_s):
            kill_supervisors(others)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def kill_supervisors(others: set[int]) -> None:
    """Kill every process that this one has started, but others."""
    for pid in children() - others:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def by_id(evaluations: Iterator[Evaluation]) -> dict[str | int, Evaluation]:
    """The evaluations of a map."""
    return {evaluation.id: evaluation for evaluation in evaluations}


def test_every_source_gets_a_verdict_under_its_id(evaluator: Evaluator, problem: Path) -> None:
    sources: dict[str | int, str] = {"right": HONEST, "wrong": WRONG, "unreadable": UNREADABLE}
    ended = by_id(evaluator.map(problem, sources))
    verdicts = {id_: evaluation.verdict for id_, evaluation in ended.items()}
    assert verdicts == {
        "right": "passed",
        "wrong": "wrong_answer",
        "unreadable": "compile_error",
    }
    right = ended["right"]
    assert (right.device, right.level, right.failure_code) == ("cpu", "strong", "")
    assert len(right.cases) == 2
    assert right.speedup is None
    digests = {evaluation.source_digest for evaluation in ended.values()}
    assert len(digests) == 3
    assert len(right.problem_digest) == len(right.harness_code) == 64


def test_sources_without_ids_are_numbered(evaluator: Evaluator, problem: Path) -> None:
    sources: list[Source | str | bytes] = [HONEST, WRONG.encode(), Source(HONEST, "kernel.py")]
    ended = by_id(evaluator.map(problem, sources))
    assert {id_: one.verdict for id_, one in ended.items()} == {
        0: "passed",
        1: "wrong_answer",
        2: "passed",
    }


@pytest.mark.feature("N7")
def test_a_source_may_have_files_beside_it(
    evaluator: Evaluator, problem: Path, tmp_path: Path
) -> None:
    several = tmp_path / "several"
    shutil.copytree(problem, several)
    manifest = json.loads((several / "manifest.json").read_bytes())
    (several / "manifest.json").write_text(json.dumps(manifest | {"source_files_max": 3}))
    entry, helper = "from lib.own import custom_kernel\n", {"lib/own.py": HONEST}
    wrong = {"lib/own.py": WRONG}
    sources = {
        "right": Source(entry, others=helper),
        "wrong": Source(entry, others=wrong),
        "again": Source(entry, others=helper),
    }
    ended = by_id(evaluator.map(several, sources))
    assert [ended[id_].verdict for id_ in sources] == ["passed", "wrong_answer", "passed"]
    digests = [ended[id_].source_digest for id_ in sources]
    assert (len(set(digests)), digests[0]) == (2, digests[2])
    for name in ("../own.py", "/tmp/own.py", "submission.py", "utils.py", ""):
        with pytest.raises(EvaluatorError, match="cannot be the name of a file beside it"):
            next(evaluator.map(several, [Source(entry, others={name: HONEST})]))
    with pytest.raises(EvaluatorError, match="has 2 files; this problem takes at most 1"):
        next(evaluator.map(problem, [Source(entry, others=helper)]))


def test_a_benchmark_of_a_kernelbench_model_has_a_speed_up(
    evaluator: Evaluator, model: Path
) -> None:
    ended = by_id(evaluator.map(model, {"relu": RELU, "identity": IDENTITY}, mode="benchmark"))
    assert ended["identity"].verdict == "wrong_answer"
    assert (ended["identity"].speedup, ended["identity"].interval) == (None, None)
    relu = ended["relu"]
    assert relu.verdict == "passed", relu.reason
    assert relu.speedup is not None
    assert relu.interval is not None
    assert relu.time_interval_us is not None
    assert relu.time_us is not None
    assert 0 < relu.interval[0] <= relu.speedup <= relu.interval[1]
    assert relu.time_interval_us[0] <= relu.time_us <= relu.time_interval_us[1]
    assert relu.grade in GRADES
    assert relu.usage["device_wait_s"] >= 0
    reward = compute_reward(relu)
    assert reward.is_timed == (relu.grade != "noisy")
    expected = max(0.0, math.log(relu.interval[0])) if reward.is_timed else 0.0
    assert reward.value == pytest.approx(expected)


async def test_the_results_can_be_awaited(evaluator: Evaluator, problem: Path) -> None:
    async def collect(evaluations: AsyncIterator[Evaluation]) -> list[str | int]:
        return [evaluation.id async for evaluation in evaluations]

    ids = await collect(evaluator.map(problem, ((f"n{n}", f"{HONEST}# {n}\n") for n in range(5))))
    assert sorted(map(str, ids)) == ["n0", "n1", "n2", "n3", "n4"]


async def test_an_evaluator_is_an_asynchronous_context(problem: Path) -> None:
    async with Evaluator(devices=["cpu"], slots=1) as evaluator:
        verdicts = [evaluation.verdict async for evaluation in evaluator.map(problem, [HONEST])]
    assert verdicts == ["passed"]


def test_an_equal_source_has_the_verdict_of_the_first(evaluator: Evaluator, problem: Path) -> None:
    sources = [HONEST + "# equal\n"] * 6
    ended = list(evaluator.map(problem, sources))
    assert [evaluation.verdict for evaluation in ended] == ["passed"] * 6
    # Those that are in flight together do not wait for each other.
    assert 1 <= sum(not evaluation.is_cached for evaluation in ended) <= 4
    assert {evaluation.id for evaluation in ended} == set(range(6))
    assert not any(one.is_cached for one in evaluator.map(problem, sources[:1], mode="benchmark"))


def test_a_source_is_taken_when_a_slot_is_free(evaluator: Evaluator, problem: Path) -> None:
    taken = []

    def generate() -> Iterator[str]:
        for number in range(100):
            taken.append(number)
            yield f"{HONEST}# taken {number}\n"

    evaluations = evaluator.map(problem, generate())
    assert next(evaluations).verdict == "passed"
    evaluations.close()
    assert len(taken) <= 2 * evaluator.slots + 1
    assert list(evaluations) == []


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_killed_supervisor_costs_no_source(problem: Path) -> None:
    others = children()
    with Evaluator(devices=["cpu"], slots=2) as evaluator:
        sources = [f"{HONEST}# killed {number}\n" for number in range(6)]
        evaluations = evaluator.map(problem, sources)
        ended = [next(evaluations)]
        kill_supervisors(others)
        ended += evaluations
    assert sorted(int(evaluation.id) for evaluation in ended) == list(range(6))
    assert [evaluation.verdict for evaluation in ended] == ["passed"] * 6
    assert children() == others


@pytest.mark.long
def test_a_source_that_ends_two_supervisors_has_crashed(problem: Path) -> None:
    others = children()
    with Evaluator(devices=["cpu"], slots=1) as evaluator:
        with killing(others, KILL_EVERY_S):
            (evaluation,) = evaluator.map(problem, [HONEST])
        ending = evaluation.verdict, evaluation.failure_code
        assert ending == ("crashed", ""), evaluation.reason
        assert "ended twice without a report" in evaluation.reason
        assert [one.verdict for one in evaluator.map(problem, [HONEST])] == ["passed"]


def test_an_interrupt_loses_no_source(evaluator: Evaluator, problem: Path) -> None:
    sources = [f"{HONEST}# interrupted {number}\n" for number in range(6)]
    evaluations = evaluator.map(problem, sources)
    ended = [next(evaluations).id]
    interrupter = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
    interrupter.start()
    with pytest.raises(KeyboardInterrupt):
        ended.extend(evaluation.id for evaluation in evaluations)
    interrupter.join()
    ended += [evaluation.id for evaluation in evaluations]
    assert sorted(map(int, ended)) == list(range(6))


def test_a_machine_that_isolates_too_little_evaluates_nothing() -> None:
    with (
        pytest.raises(EvaluatorError, match=r"at level weak, below medium: .* set level_min"),
        Evaluator(devices=["cpu"], level="weak"),
    ):
        pass


@pytest.mark.parametrize(
    ("ask", "reason"),
    [
        (lambda one, path: one.map(path, [HONEST], mode="ranked"), "unknown mode 'ranked'"),
        (lambda one, path: one.map(path / "absent", [HONEST]), "there is no problem"),
        (lambda one, path: one.map(path.parent, [HONEST]), "is no problem: "),
        (lambda one, path: list(one.map(path, [("a", HONEST)] * 2)), "two sources have the id 'a'"),
        (lambda one, _: one.start(), "has already been started"),
    ],
)
def test_what_cannot_be_evaluated_is_refused(
    evaluator: Evaluator, problem: Path, ask: Callable[[Evaluator, Path], object], reason: str
) -> None:
    with pytest.raises(EvaluatorError, match=reason):
        ask(evaluator, problem)


@pytest.mark.parametrize("devices", [["gpu"], ["cuda:x"], ["cpu", "cpu"], []])
def test_unknown_devices_are_refused(devices: list[str]) -> None:
    with pytest.raises(EvaluatorError), Evaluator(devices=devices):
        pass


def test_an_evaluator_that_has_ended_evaluates_nothing(problem: Path) -> None:
    with pytest.raises(EvaluatorError, match="not started"):
        Evaluator().map(problem, [HONEST])
