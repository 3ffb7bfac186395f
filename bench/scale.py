"""What grows with the length of the log, and how fast a long queue is worked off.

`python -m bench.scale [--smoke] [--events N ...] [--part log|queue]`. The log grows from length to
length, up to ten million events; at each, every component starts with what it stored before, and
then idles. The queue has 100,000 jobs of many participants in two classes, and 1,000 agents whose
runs take some seconds.
"""

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.figures import Figure, at_most, report
from bench.noop_platform import load
from bench.scale_log import LogBench, Row

LONG, SMOKE = (1_000_000, 3_000_000, 10_000_000), (2_000, 6_000)
# The ranker's start does not depend on the log, and its first fold takes an hour at ten million.
RANKED_EVENTS_MAX = 3_000_000
GOALS = {
    ("scheduler", "start"): at_most(3.0),
    ("scheduler", "memory"): at_most(600.0),
}
IDLE_S = 30.0


def measure_log(
    lengths: Sequence[int], ranked_events_max: int, idle_s: float, folder: Path
) -> list[Figure]:
    """Measure each length, and print a table of each."""
    bench, rows = LogBench(folder, ranked_events_max, idle_s), list[Row]()
    try:
        for events in lengths:
            rows.append(bench.grow(events))
            _print(rows[-1])
    finally:
        bench.stop()
    return [*_figures(rows[-1]), *_slopes(rows)]


def _print(row: Row) -> None:
    print(
        f"{row.events} events ({row.new_events} new, {row.new_events / row.written_s:.0f}/s), "
        f"{row.subjects} subjects, {row.log_bytes / 1e9:.2f} GB of log, "
        f"{row.postgres_bytes / 1e9:.2f} GB of Postgres  ({load()})"
    )
    for need in row.needs:
        print(
            f"{need.name:>14}: start {need.start_s:7.2f} s"
            f" (with new events {need.folded_s:7.1f} s), "
            f"{need.mib:7.0f} MiB (peak {need.peak_mib:7.0f}), "
            f"{100 * need.idle_cpu:5.1f} % of a core",
            flush=True,
        )


def _figures(row: Row) -> list[Figure]:
    """The needs of each component at the greatest length."""
    figures = []
    for need in row.needs:
        about = f"{row.events} events: {need.name}"
        memory = max(need.mib, need.peak_mib) if need.name == "scheduler" else need.mib
        if need.start_s:
            goal = GOALS.get((need.name, "start"))
            figures.append(
                Figure(name=f"{about}, start", measured=need.start_s, unit="s", goal=goal)
            )
        goal = GOALS.get((need.name, "memory"))
        figures += [
            Figure(name=f"{about}, memory", measured=memory, unit="MiB", goal=goal),
            Figure(name=f"{about}, processor when idle", measured=need.idle_cpu, unit="cores"),
        ]
    return figures


def _slopes(rows: Sequence[Row]) -> list[Figure]:
    """What a million events add to each component, from the first length to the last."""
    if len(rows) < 2:
        return []
    figures = []
    for name in dict.fromkeys(need.name for row in rows for need in row.needs):
        known = [(row, need) for row in rows for need in row.needs if need.name == name]
        (first, least), (last, most) = known[0], known[-1]
        millions = (last.events - first.events) / 1e6
        for what, before, after, unit in (
            ("start", least.start_s, most.start_s, "s"),
            ("memory", least.mib, most.mib, "MiB"),
            ("processor when idle", least.idle_cpu, most.idle_cpu, "cores"),
        ):
            figures.append(
                Figure(
                    name=f"a million events more: {name}, {what}",
                    measured=(after - before) / millions,
                    unit=unit,
                )
            )
    first, last = rows[0], rows[-1]
    for name, of_row in (("log", "log_bytes"), ("Postgres", "postgres_bytes")):
        grown = getattr(last, of_row) - getattr(first, of_row)
        millions = (last.events - first.events) / 1e6
        figures.append(
            Figure(
                name=f"a million events more: {name}", measured=grown / millions / 1e9, unit="GB"
            )
        )
    return figures


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.scale", description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="short, in seconds")
    parser.add_argument("--events", type=int, nargs="+", help="lengths of one's own")
    parser.add_argument("--ranked", type=int, default=RANKED_EVENTS_MAX, help="for the ranker")
    told = parser.parse_args()
    lengths = told.events or (SMOKE if told.smoke else LONG)
    figures = []
    with tempfile.TemporaryDirectory() as home:
        Path(home).chmod(0o755)
        folder = Path(home, "log")
        folder.mkdir()
        figures += measure_log(lengths, told.ranked, 2.0 if told.smoke else IDLE_S, folder)
    report(figures)


if __name__ == "__main__":
    main()
