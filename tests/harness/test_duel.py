"""Duels: two submissions in separate boxes, timed in alternation, both judged."""

import dataclasses
import gzip
import json
from pathlib import Path
from typing import NamedTuple

import pytest

from harness.messages import RunReport, from_line, to_line
from harness.sandbox.box import SandboxFault
from harness.time.duel import require_walls
from harness.time.policy import policy_for
from harness.vocabulary import DUEL, MODES
from tests.support.harness import HONEST, Host, Warm

pytestmark = pytest.mark.long

(ROUND_PAIRS,) = policy_for("cpu", "duel").looks
PAIRS = MODES[DUEL].processes * ROUND_PAIRS

SLOW = HONEST.replace(
    "    return",
    "    import time\n    until = time.perf_counter() + 0.001\n"
    "    while time.perf_counter() < until:\n        continue\n    return",
)
MUCH_SLOWER = SLOW.replace("0.001", "0.01")
WRONG = HONEST.replace("data[0])", "data[0] + 1)")
# Sees files of other submissions, which have its own text, or another process.
SPY = """
import os
from pathlib import Path

def custom_kernel(data):
    here = Path(__file__)
    others = [path for path in (*Path("/").glob("*"), *here.parent.glob("*")) if path != here]
    for path in others:
        if path.is_file() and "SECRET" in path.read_text(errors="replace"):
            raise RuntimeError(f"it is in {path}")
    pids = [int(name) for name in os.listdir("/proc") if name.isdecimal()]
    if len(pids) > 3:
        raise RuntimeError(f"others live here: {pids}")
    data[1].copy_(data[0])
    return data[1]
"""


def duel(host: Host, first: str, second: str) -> RunReport:
    """A duel of two sources with small budgets."""
    host.budgets_s = {"ranked": 2.0}
    rival = host.folder / "rival.py"
    rival.write_text(second)
    return host.run(first, "duel", rival=str(rival))


class FinishedDuel(NamedTuple):
    """The report of a duel, and the folder of its records."""

    report: RunReport
    out: Path


@pytest.fixture(scope="module")
def won_by_a(warm: Warm, tmp_path_factory: pytest.TempPathFactory) -> FinishedDuel:
    """A duel that each side prints in, and B is slower."""
    host = Host(tmp_path_factory.mktemp("won-by-a"), warm)
    report = duel(host, HONEST + "print('one')\n", SLOW + "print('other')\n")
    return FinishedDuel(report, host.out)


@pytest.fixture(scope="module")
def won_by_b(warm: Warm, tmp_path_factory: pytest.TempPathFactory) -> FinishedDuel:
    """A duel in which A is so slow that its calls take most of the budget."""
    host = Host(tmp_path_factory.mktemp("won-by-b"), warm)
    return FinishedDuel(duel(host, MUCH_SLOWER, HONEST), host.out)


def test_the_faster_one_wins_from_either_side(
    won_by_a: FinishedDuel, won_by_b: FinishedDuel
) -> None:
    first, second = won_by_a.report, won_by_b.report
    for report in (first, second):
        assert (report.verdict, report.failure_code, report.stage) == ("passed", "", "duel")
        assert report.duel is not None
        assert len(report.duel.pairs_us) == PAIRS
        assert report.duel.round_pairs == ROUND_PAIRS
        assert report.duel.ratio is not None
        assert report.duel.interval is not None
        low, high = report.duel.interval
        assert low <= report.duel.ratio <= high
    assert first.duel is not None
    assert first.duel.winner == "A"
    assert second.duel is not None
    assert second.duel.winner == "B"


def test_a_duel_leaves_as_many_samples_of_each_side(
    won_by_a: FinishedDuel, won_by_b: FinishedDuel
) -> None:
    for finished in (won_by_a, won_by_b):
        kept = json.loads(gzip.decompress((finished.out / "samples.json.gz").read_bytes()))
        case = kept["cases"]["size=16 seed=3"]
        pairs = [pair for process in case["processes"] for pair in process["pairs"]]
        assert len(pairs) == PAIRS
        assert all(pair["A"]["time_us"] and pair["B"]["time_us"] for pair in pairs)


def test_a_duel_leaves_both_logs(won_by_a: FinishedDuel) -> None:
    report, out = won_by_a
    assert "one" in (out / "log.txt").read_text()
    assert "other" in (out / "rival-log.txt").read_text()
    assert "other" not in report.log_head + report.log_tail


@pytest.mark.parametrize("side", ["A", "B"])
def test_a_side_that_fails_is_told_with_its_verdict(host: Host, side: str) -> None:
    report = duel(host, WRONG, HONEST) if side == "A" else duel(host, HONEST, WRONG)
    assert (report.verdict, report.stage) == ("wrong_answer", "check")
    assert report.reason.startswith(f"submission {side}: check failed (wrong_answer)")
    assert report.duel is not None
    assert (report.duel.failed, report.duel.winner) == (side, "")


def test_a_side_that_is_wrong_only_while_it_is_timed_fails(host: Host) -> None:
    late = HONEST.replace("def ", "count = 0\n\ndef ").replace(
        "    data[1]", "    global count\n    count += 1\n    data[1]", 1
    )
    late = late.replace("data[0])", "data[0] + (count > 12))")
    report = duel(host, HONEST, late)
    assert (report.verdict, report.stage) == ("wrong_answer", "duel")
    assert report.duel is not None
    assert report.duel.failed == "B"


def test_a_side_that_does_not_build_fails(host: Host) -> None:
    report = duel(host, HONEST, "def custom_kernel(:\n")
    assert report.stage == "build"
    assert report.verdict in ("compile_error", "import_error")
    assert report.duel is not None
    assert report.duel.failed == "B"


def test_neither_side_sees_the_other(host: Host) -> None:
    report = duel(host, SPY, SPY)
    assert report.verdict == "passed", report.reason


def test_a_duel_needs_a_rival(host: Host) -> None:
    report = host.run(HONEST, "duel")
    assert report.failure_code == "problem_fault"
    assert "name the rival" in report.reason


def test_a_machine_without_walls_refuses_a_duel() -> None:
    class Place:
        walls = ("uid", "freezer")

    with pytest.raises(SandboxFault, match="missing: namespaces"):
        require_walls(Place())  # type: ignore[arg-type]


def test_a_report_crosses_the_wire(won_by_a: FinishedDuel) -> None:
    report = won_by_a.report
    assert from_line(to_line(report)) == report
    assert report.duel is not None
    bad = dataclasses.replace(report, duel=dataclasses.replace(report.duel, winner="C"))
    with pytest.raises(ValueError, match="not a message"):
        from_line(to_line(bad))
