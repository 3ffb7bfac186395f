"""`python -m bench.gpu.validate`: every experiment of the GPU's clock and gate, in one call.

It changes no setting of the device, and stops the MPS daemon that it started. Each experiment is
a process with a time of its own; the table is printed, and the JSON written, as they end.
"""

import argparse
import contextlib
import importlib
import platform
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.gpu import aftermath, clocks, gates, launches, mps, others, runs, several
from bench.gpu.table import (
    POSTPONED,
    Bench,
    Experiment,
    Row,
    print_row,
    read,
    row_of,
    skipped,
    unshown,
    write,
)
from harness.devices.cuda import host
from harness.devices.device import DeviceFault

TOTAL_S = 560.0
# No experiment begins with less than this, or its whole budget if that is smaller.
LEFT_S_MIN = 20.0

# What the rest hangs on comes first: if time runs out, the last ones are skipped by name.
EXPERIMENTS = (
    Experiment("V1", "a context in a fork", "sum 1000", 40, gates.fork_then_open),
    Experiment("V2", "legacy stream, raw launches", "nothing while shut", 30, gates.legacy_stream),
    Experiment("V3", "descriptors across users", "5 of 5 right", 30, gates.across_users),
    Experiment("E1", "step of the timer", "32 ns", 20, clocks.timer_step, is_imitated=True),
    Experiment(
        "E2",
        "empty pair, empty kernel",
        "0.5-3 us; +1-3 us",
        20,
        clocks.empty_pair,
        is_imitated=True,
    ),
    Experiment("V9", "stamps against events", "within 0.1 us", 30, gates.two_clocks),
    Experiment("V8", "waits make progress, sliced", "all calls end", 40, gates.progress),
    Experiment("V6", "handshake, sliced", "<= 20 us; hoped for: 5, +-0.5", 40, gates.handshake),
    Experiment("V7", "done early, second stream", "none faster", 60, gates.wrong_order),
    Experiment("V5", "peeking, sliced", "strict holds", 90, gates.peeking),
    Experiment(
        "V6m", "handshake beside", "<= 20 us; hoped for: 5, +-0.5", 40, gates.handshake, beside=True
    ),
    Experiment(
        "V5m", "peeking beside", "plain loses, others hold", 120, gates.peeking, beside=True
    ),
    Experiment("V7m", "done early, beside", "none faster", 60, gates.wrong_order, beside=True),
    Experiment(
        "E3m", "known spins beside", "slope 1 +- 0.0005", 40, clocks.known_spins, beside=True
    ),
    Experiment("V4", "two at once, a fault", "G1; well again", 60, gates.two_at_once, beside=True),
    Experiment("V10", "memory of an ended process", "all zero", 40, aftermath.leftovers),
    Experiment("V12", "nodes that a box needs", "none missing", 20, aftermath.box),
    Experiment("E3", "known spins", "slope 1 +- 0.0005", 40, clocks.known_spins),
    Experiment("E4", "known cycles", "cycles / clock", 20, clocks.known_cycles, is_imitated=True),
    Experiment("E5", "copies", "over 0.8 of the maker's figure", 30, clocks.bandwidth),
    Experiment("E6", "matmul, zeros and random", "random takes longer", 30, clocks.data_and_power),
    Experiment(
        "E8", "3 us kernel, launches hidden", "3 us + E2", 40, launches.short_kernels, beside=True
    ),
    Experiment(
        "E17", "gated 3 us, idle clients", "spread < 1 us", 90, launches.idle_clients, beside=True
    ),
    Experiment(
        "E18", "5 us kernels in batches", "CV < 1 %", 20, launches.batches, is_imitated=True
    ),
    Experiment("E9", "kernel and .item()", "late, no hang", 30, launches.host_sync, beside=True),
    Experiment(
        "E10", "1 ms on a second stream", "20 of 20 seen", 30, launches.second_stream, beside=True
    ),
    Experiment("E7", "ways to flush", "two sweeps <= fill", 60, clocks.flushes, beside=True),
    Experiment("E16", "costs of a job", "at once is sooner", 40, others.costs, beside=True),
    Experiment(
        "E14", "two speeds, drift", "bimodal, trend", 60, runs.classes, beside=True, short_s=30
    ),
    Experiment(
        "E15", "other people's clocks", "gated - null = local", 120, others.comparison, beside=True
    ),
    Experiment(
        "E12",
        "true differences",
        "1 %: all right",
        200,
        runs.resolution,
        beside=True,
        short_s=45,
    ),
    Experiment("E13", "neighbours", "< 0.2 %", 60, runs.neighbours, beside=True, short_s=30),
    Experiment(
        "E11",
        "repeatability",
        "CV 1.5 0.5 0.2 0.15 %",
        240,
        runs.repeatability,
        beside=True,
        short_s=45,
    ),
    Experiment("R1", "two ranks on one GPU", "all right, stagger < 50 us", 40, several.on_one),
    Experiment("R2", "a GPU for each rank", "all right, stagger < 50 us", 60, several.on_each),
    Experiment("R3", "NCCL in a box", "passed", 90, several.by_nccl),
    # Last, for it kills and faults on purpose.
    Experiment("V11", "killed, faulting: well again", "seconds", 90, aftermath.recovery),
)


def main() -> None:
    """Runs what was asked for, in that order, as far as the time goes."""
    options = _options()
    until = time.monotonic() + options.seconds
    chosen = _chosen(options.only)
    # Once: every experiment is a fork of this.
    is_needed = not options.imitation or any(one.is_imitated for one in chosen)
    about = _about(importlib.import_module("torch")) if is_needed else {}
    earlier = read(options.out) if options.resume else []
    rows = {row.name: row for row in earlier if not row.is_skipped}
    with contextlib.ExitStack() as daemons:
        environment: dict[str, str] = {}
        for experiment in chosen:
            known = rows.get(experiment.name)
            if known and (options.short or not known.is_short):
                continue
            reason = ""
            if experiment.beside and not options.imitation:
                reason = _start(daemons, environment)
            elif environment:
                daemons.close()
                environment = {}
            left_s = until - time.monotonic()
            is_short = options.short and experiment.short_s > 0
            limit_s = experiment.short_s if is_short else experiment.budget_s
            # What repeats as often as its time allows needs all of it.
            least_s = limit_s if experiment.short_s else min(limit_s, LEFT_S_MIN)
            if reason:
                row = skipped(experiment, reason)
            elif left_s < least_s:
                row = skipped(experiment, f"{max(0.0, left_s):.0f} s are left", POSTPONED)
            else:
                bench = Bench(environment, limit_s, is_short, options.imitation)
                row = _row_within(experiment, bench, left_s)
            print_row(row)
            if not (known and row.is_skipped):
                rows[row.name] = row
            write([*rows.values()], about, options.out)
    failed = [row.name for row in rows.values() if row.passed == "NO"]
    print(f"{len(rows)} experiments, not passed: {' '.join(failed) or 'none'}; {options.out}")


def _chosen(names: list[str]) -> list[Experiment]:
    """The experiments of these names, in the order of the names; without names all."""
    by_name = {experiment.name: experiment for experiment in EXPERIMENTS}
    if unknown := [name for name in names if name not in by_name]:
        raise SystemExit(f"no experiment {' '.join(unknown)}: there are {' '.join(by_name)}")
    return [by_name[name] for name in names or by_name]


def _row_within(experiment: Experiment, bench: Bench, left_s: float) -> Row:
    """The line of an experiment that may take the bench's time, or what is left if that is less.

    One that did not end for lack of time is skipped: it says nothing about the device.
    """
    if bench.is_imitation and not experiment.is_imitated:
        return unshown(experiment)
    budget_s = min(bench.budget_s, left_s)
    row = row_of(experiment, replace(bench, budget_s=budget_s))
    if budget_s < bench.budget_s and row.took_s >= budget_s:
        reason = f"it did not end in the {budget_s:.0f} s that were left"
        return skipped(experiment, reason, POSTPONED)
    return row


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="E11 to E14 in their short form")
    parser.add_argument("--only", nargs="*", default=[], help="names, such as V5 E7")
    parser.add_argument("--seconds", type=float, default=TOTAL_S, help="for everything")
    parser.add_argument("--out", type=Path, default=Path("validate.json"))
    parser.add_argument("--resume", action="store_true", help="only what has no row in --out yet")
    parser.add_argument("--imitation", action="store_true", help="of a GPU; shows nothing of one")
    return parser.parse_args()


def _start(daemons: contextlib.ExitStack, environment: dict[str, str]) -> str:
    """Starts our daemon unless it runs; why it cannot be had, or nothing."""
    if environment:
        return ""
    if host.is_mps_running():
        return "a daemon that is not ours runs here: it is left alone"
    try:
        folder = Path(daemons.enter_context(_folder()))
        environment |= daemons.enter_context(mps.MpsDaemon(folder)).environment
    except DeviceFault as fault:
        return str(fault)
    return ""


@contextlib.contextmanager
def _folder() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="mps-") as folder:
        Path(folder).chmod(0o755)
        yield folder


def _about(torch: Any) -> dict[str, Any]:
    """The machine, in words, without opening the device in this process."""
    fields = "name,uuid,driver_version,compute_mode,mig.mode.current,clocks.sm,temperature.gpu"
    try:
        done = subprocess.run(
            ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader"],  # noqa: S607  (found on the PATH)
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
        said = (done.stdout or done.stderr).strip()
    except (OSError, subprocess.SubprocessError) as error:
        said = str(error)
    return {
        "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "gpu": said,
        "torch": str(torch.__version__),
        "cuda": str(torch.version.cuda),
        "python": platform.python_version(),
        "kernel": platform.platform(),
    }


if __name__ == "__main__":
    main()
