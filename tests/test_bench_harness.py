"""What `bench.harness` and `bench.peers` make of their runs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from bench import results
from bench.figures import Figure
from bench.harness_figures import compare, compare_truth, is_wrong, summarize_modes
from bench.harness_runs import Kernel, Record, Records, busy_processes
from bench.peers import Cost, compare_costs, main
from bench.peers_kernelbot import CHECKOUT, PYTHON, find_kernelbot, read_result

ROOT = Path(results.__file__).parent.parent


def timed(count: int, score_us: float, *, load: int = 0, twin: int = 0) -> Record:
    """Return a run of a kernel that truly takes `count` microseconds, known to 0.1 %."""
    return Record(
        part="across-load",
        size="1 ms",
        kernel=Kernel("products", count, twin),
        load=load,
        repetition=0,
        mode="ranked",
        truth_us=float(count),
        yardstick=Kernel("products", 2000),
        score_us=score_us,
        interval_us=(0.998 * score_us, 1.002 * score_us),
        error=0.001,
        freedom=1000,
        delta=0.003,
        null_us=25.0,
        samples=100,
        took_s=2.0,
        cpu_s=1.0,
        measured_share=0.5,
    )


def measured(figures: list[Figure]) -> dict[str, float]:
    return {figure.name: figure.measured for figure in figures}


def test_runs_under_every_load_are_compared_with_each_other() -> None:
    runs = [timed(1000, 1000.0), timed(1020, 1020.0), timed(1000, 1200.0, load=4)]
    assert is_wrong(runs[1], runs[2])
    assert not is_wrong(runs[0], runs[1])
    figures = measured(compare(runs))
    assert figures["1 ms: across-load spread"] == pytest.approx(20.0)
    assert figures["1 ms: 2 % more work ordered right"] == 0.5
    assert figures["strict orders that are claimed"] == 2
    assert figures["strict orders that are wrong"] == 1
    assert figures["twins told apart"] == 1.0
    assert figures["intervals that contain the time alone"] == pytest.approx(2 / 3)
    ratios = "1 ms: intervals of a ratio of two scores that contain the true one"
    assert figures[ratios] == pytest.approx(1 / 3)


def test_a_run_without_a_score_is_counted_and_not_compared() -> None:
    failed = Record(
        part="across-load",
        size="1 ms",
        kernel=Kernel("products", 1000),
        load=8,
        repetition=0,
        mode="ranked",
        truth_us=1000.0,
        yardstick=Kernel("products", 2000),
        failure="noisy",
    )
    figures = measured(compare([timed(1000, 1000.0), timed(1000, 1001.0, twin=1), failed]))
    assert figures["runs without a score"] == 1
    assert figures["twins told apart"] == 0.0
    assert figures["intervals that contain the time alone"] == 1.0


def test_a_score_over_the_truth_is_a_mean_of_ratios_for_each_load() -> None:
    runs = [timed(1000, 500.0), timed(1000, 2000.0), timed(1000, 3000.0, load=4)]
    assert measured(compare_truth(runs)) == {
        "1 ms, 0 busy processes: score over truth": pytest.approx(1.0),
        "1 ms, 4 busy processes: score over truth": pytest.approx(3.0),
    }


def test_a_mode_is_summarized_by_its_time_and_its_measured_share() -> None:
    figures = {figure.name: figure for figure in summarize_modes([timed(1000, 1000.0)])}
    assert figures["ranked: wall time"].is_met
    assert figures["ranked: measured share of the timed stage"].measured == 0.5
    assert figures["a null call"].measured == 25.0


def test_runs_that_are_recorded_are_not_made_again(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    Records(path).add(timed(1000, 1000.0))
    records = Records(path)
    assert records.rows == [timed(1000, 1000.0)]
    assert records.has(timed(1000, 0.0))
    assert not records.has(timed(1000, 0.0, load=1))


def test_busy_processes_have_sessions_of_their_own_and_end() -> None:
    def children() -> set[int]:
        tasks = Path("/proc/self/task").iterdir()
        return {int(pid) for task in tasks for pid in (task / "children").read_text().split()}

    before = children()
    with busy_processes(2):
        started = children() - before
        assert {os.getsid(pid) for pid in started} == started
        assert len(started) == 2
    assert children() == before


def test_figures_of_before_stay_on_the_page_and_are_read_from_it(tmp_path: Path) -> None:
    page = tmp_path / "RESULTS.md"
    name = results.BEFORE.format(name="harness")
    results.write({name: [Figure(name="spread", measured=700, unit="%")]}, [name], page)
    results.write({"harness": [Figure(name="spread", measured=3, unit="%")]}, ["harness"], page)
    assert results.read_before("harness", page)["spread"].startswith("700 % (")
    assert "| harness | spread | 3 % |" in page.read_text()


def test_costs_are_compared_pair_by_pair() -> None:
    pairs = [(Cost(1.0, 0.5, 100), Cost(2.0, 2.0, 50)), (Cost(3.0, 1.0, 100), Cost(2.0, 2.0, 50))]
    figures = {figure.name: figure for figure in compare_costs("ranked", pairs)}
    assert figures["ranked: wall time of KernelBot's"].measured == 1.0
    assert figures["ranked: wall time of KernelBot's"].interval == (0.5, 1.5)
    assert figures["ranked: processor time of KernelBot's"].measured == 0.375
    assert figures["ranked: wall time per counted call of KernelBot's"].measured == 0.5
    untimed = compare_costs("test", [(Cost(1.0, 1.0, 0), Cost(1.0, 1.0, 0))])
    assert not any("counted call" in figure.name for figure in untimed)


def test_the_last_event_of_a_stream_has_the_public_result() -> None:
    status = 'event: status\ndata: {"status": "processing", "elapsed_time": 0.0}\n\n'
    result = '{"success": true, "error": "", "runs": {}}'
    end = f'event: result\ndata: {{"status": "success", "results": [{result}], "reports": []}}\n\n'
    assert read_result(status + end)["runs"] == {}
    with pytest.raises(AssertionError, match="no such user"):
        read_result(
            status + 'event: error\ndata: {"status": "error", "detail": "no such user"}\n\n'
        )


def test_a_comparison_without_a_checkout_says_that_it_was_skipped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.delenv(CHECKOUT, raising=False)
    monkeypatch.setattr(sys, "argv", ["peers", "--smoke"])
    main()
    assert capsys.readouterr().out.startswith("skipped: WARPBOARD_KERNELBOT does not name")
    (tmp_path / "src" / "kernelbot" / "api").mkdir(parents=True)
    monkeypatch.setenv(CHECKOUT, str(tmp_path))
    monkeypatch.setenv(PYTHON, sys.executable)
    assert "lacks a dependency of KernelBot" in str(find_kernelbot())


def test_cuda_is_replaced_on_a_machine_without_a_gpu() -> None:
    code = """
import cuda_on_cpu, torch
if torch.cuda.is_available(): raise SystemExit  # It leaves a GPU alone.
event, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
event.record(); torch.cuda.synchronize(); end.record()
assert 0 <= event.elapsed_time(end) < 1000
assert torch.zeros(2).to("cuda:0").device.type == "cpu"
assert torch.zeros(2).to(torch.int64).dtype == torch.int64
assert torch.empty((32, 1024, 1024), dtype=torch.int64, device="cuda").numel() == 2**19
assert torch.empty(3, 4).shape == (3, 4)
"""
    folder = ROOT / "bench" / "kernelbot"
    subprocess.run([sys.executable, "-c", code], cwd=folder, check=True, timeout=60)
