"""What `python -m bench` makes of the figures of a benchmark."""

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from bench import figures, results
from bench.__main__ import BENCHMARKS, main
from bench.figures import Figure, at_least, at_most, report
from bench.intervals import Interval, mean_interval, p99, share_interval
from bench.scale_queue import LANES, QueuedJob, check_order

FOLDER = Path(results.__file__).parent
FLAT = Figure(name="flat", measured=1.5, goal=at_most(2), is_held=True)
STEEP = Figure(name="steep", measured=7.489, goal=at_most(2), is_held=True)
SLOW = Figure(name="slow", measured=0.3, unit="/s", goal=at_least(0.5), note="it is a slow one")


def test_a_figure_that_no_machine_changes_fails_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "figures.json"
    monkeypatch.setenv(figures.FILE, str(path))
    report([FLAT, SLOW])
    with pytest.raises(SystemExit, match=r"broken: steep: 7.489 \(goal: at most 2, missed\)"):
        report([FLAT, STEEP])
    assert figures.read(path) == [FLAT, STEEP]


def test_a_page_keeps_the_rows_of_benchmarks_that_did_not_run(tmp_path: Path) -> None:
    page = tmp_path / "RESULTS.md"
    page.write_text("# Older results\n")
    results.write({"one": [SLOW]}, ["one", "two"], page)
    results.write({"two": [FLAT]}, ["one", "two"], page)
    text = page.read_text()
    assert "| one | slow | 0.3 /s | at least 0.5 | no |" in text
    assert "| two | flat | 1.5 | at most 2 | yes |" in text
    assert "- one: it is a slow one (slow)" in text
    results.write({"one": [FLAT]}, ["one", "two"], page)
    text = page.read_text()
    assert "slow" not in text
    assert text.count("| one |") == text.count("| two |") == 1


def test_a_page_keeps_the_rows_that_a_gpu_machine_wrote(tmp_path: Path) -> None:
    page = tmp_path / "RESULTS.md"
    results.write({"one": [FLAT]}, ["one"], page)
    pasted = "| gpu | clocks: E1 step of the timer | 32 ns | 32 ns | yes | H100 | 2026-11-27 | a |"
    page.write_text(f"{page.read_text()}{pasted}\n")
    results.write({"one": [SLOW]}, ["one"], page)
    assert pasted in page.read_text().splitlines()
    assert "| one | slow |" in page.read_text()


def test_an_interval_stands_beside_its_figure(tmp_path: Path) -> None:
    figure = Figure(name="p99", measured=2233.4, unit="ms", interval=Interval(2104, 2391))
    assert str(figure) == "p99: 2233 ms (2104 to 2391)"
    page = tmp_path / "RESULTS.md"
    results.write({"one": [figure]}, ["one"], page)
    assert "| one | p99 | 2233 ms" in page.read_text()


def _p99(dice: random.Random) -> Interval:
    return p99([dice.random() for _ in range(800)]).interval


def _mean(dice: random.Random) -> Interval:
    return mean_interval([dice.gauss(0.99, 0.1) for _ in range(8)])


def _share(dice: random.Random) -> Interval:
    trials = [dice.random() < 0.99 for _ in range(200)]
    return share_interval(sum(trials) / len(trials), len(trials))


@pytest.mark.parametrize("measure", [_p99, _mean, _share])
def test_an_interval_holds_the_true_value_in_95_of_100_cases(
    measure: Callable[[random.Random], Interval],
) -> None:
    dice = random.Random(1)
    intervals = [measure(dice) for _ in range(1000)]
    assert 930 <= sum(low <= 0.99 <= high for low, high in intervals) <= 985


def test_each_benchmark_is_a_module_with_a_smoke_form() -> None:
    for name in BENCHMARKS:
        assert '"--smoke"' in (FOLDER / f"{name}.py").read_text()


def test_a_benchmark_that_is_not_there_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--smoke", "nothing"])
    assert "no benchmark nothing" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("lanes", "reversed_at", "starved"),
    [
        ("aaaaaaaab", 9, 0),
        ("aaaaaaaaaaaab", 13, 1),
        # What one look decided is stored in another order: which of both counts is not known.
        ("aaaaaaaaaaaab", 0, 0),
        ("a" * 12 + "bab", 13, 1),
    ],
)
def test_a_lane_is_starved_only_if_no_order_of_a_look_explains_it(
    lanes: str, reversed_at: int, starved: int
) -> None:
    names = {"a": LANES[0], "b": LANES[3]}
    queued = {f"{n:03}": QueuedJob(n, f"account{n}", names[lane]) for n, lane in enumerate(lanes)}
    queued["last"] = QueuedJob(1000, "somebody", names["b"])
    began = datetime(2026, 1, 1, tzinfo=UTC)
    leases = [(began + timedelta(seconds=n), f"{n:03}") for n in range(len(lanes))]
    leases[reversed_at:] = reversed(leases[reversed_at:])
    assert check_order(queued, leases, 7).lanes_starved == starved
