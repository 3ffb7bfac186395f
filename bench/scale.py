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

from bench import scale_queue
from bench.figures import Figure, at_least, at_most, report
from bench.noop_platform import load
from bench.scale_log import LogBench, Row

LONG, SMOKE = (1_000_000, 3_000_000, 10_000_000), (2_000, 6_000)
# The ranker's start does not depend on the log, and its first fold takes an hour at ten million.
RANKED_EVENTS_MAX = 1_000_000
GOALS = {
    ("scheduler", "start"): at_most(3.0),
    ("scheduler", "memory"): at_most(600.0),
}
IDLE_S, IDLE_SMOKE_S = 30.0, 2.0
# Waiting jobs and agents.
QUEUE, QUEUE_SMOKE = (100_000, 1000), (400, 40)
ASSIGNED_PER_S_MIN = 300.0


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
    return [*_figures(rows[-1]), *_event_costs(rows), *_slopes(rows)]


def measure_queue(jobs: int, agents: int, wanted: int, folder: Path) -> list[Figure]:
    """Work off a queue, and print what it cost."""
    result = scale_queue.measure(jobs, agents, wanted, folder)
    about, order = f"{result.jobs} jobs, {result.agents} agents", result.order
    spent = {
        "scheduler": result.scheduler_cpu_s,
        "nats-server": result.nats_cpu_s,
        "agents": result.agents_cpu_s,
    }
    print(
        f"{about}: {result.assigned} assigned, {result.rate:.0f}/s,"
        f" {result.beats / result.took_s:.0f} beats/s; scheduler: {result.scheduler_peak_mib:.0f}"
        " MiB,"
        f" start {result.start_s:.2f} s with {result.start_peak_mib:.0f} MiB; {order}  ({load()})"
    )
    return [
        Figure(name=f"{about}: assigned meanwhile", measured=result.assigned),
        Figure(
            name=f"{about}: assignments",
            measured=result.rate,
            unit="/s",
            goal=at_least(ASSIGNED_PER_S_MIN),
        ),
        *(
            Figure(
                name=f"{about}: {name}, processor per assignment",
                measured=1000 * cpu_s / result.assigned,
                unit="ms",
            )
            for name, cpu_s in spent.items()
        ),
        Figure(
            name=f"{about}: overtaken by their own participant's",
            measured=order.overtaken,
            goal=at_most(0),
            is_held=True,
        ),
        Figure(
            name=f"{about}: lanes passed over too often",
            measured=order.lanes_starved,
            goal=at_most(0),
            is_held=True,
        ),
        # Charges are estimates until a run ends.
        Figure(name=f"{about}: jobs ahead of who waits as long", measured=order.jobs_ahead),
        Figure(
            name=f"{about}: scheduler's start",
            measured=result.start_s,
            unit="s",
            goal=GOALS["scheduler", "start"],
        ),
        Figure(
            name=f"{about}: scheduler's memory at most",
            measured=max(result.start_peak_mib, result.scheduler_peak_mib),
            unit="MiB",
            goal=GOALS["scheduler", "memory"],
        ),
    ]


def _print(row: Row) -> None:
    print(
        f"{row.events} events ({row.new_events} new, {row.new_events / row.written_s:.0f}/s), "
        f"{row.subjects} subjects, {row.log_bytes / 1e9:.2f} GB of log, "
        f"{row.postgres_bytes / 1e9:.2f} GB of Postgres  ({load()})"
    )
    for need in row.needs:
        print(
            f"{need.name:>14}: start {need.start_s:7.2f} s"
            f" ({need.event_us:5.1f} us of processor per new event), "
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


def _event_costs(rows: Sequence[Row]) -> list[Figure]:
    """The processor that each component needs for a new event, at the greatest known length."""
    known = {need.name: (row, need) for row in rows for need in row.needs if need.event_us}
    return [
        Figure(
            name=f"{row.events} events: {name}, processor per event",
            measured=need.event_us,
            unit="us",
        )
        for name, (row, need) in known.items()
    ]


def _slopes(rows: Sequence[Row]) -> list[Figure]:
    """What a million events add to each component, from the first length to the last."""
    if len(rows) < 2:
        return []
    figures = []
    for name in dict.fromkeys(need.name for row in rows for need in row.needs):
        known = [(row, need) for row in rows for need in row.needs if need.name == name]
        (first, least), (last, most) = known[0], known[-1]
        if first is last:
            continue
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
    # Without ranker, Postgres does not grow with the log.
    is_ranked = any(need.name == "ranker" for need in last.needs)
    growing = [("log", "log_bytes"), *([("Postgres", "postgres_bytes")] if is_ranked else [])]
    for name, of_row in growing:
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
    parser.add_argument("--jobs", type=int, help="jobs that wait")
    parser.add_argument("--agents", type=int, help="agents that work")
    parser.add_argument("--assigned", type=int, help="stop after so many; all unless given")
    parser.add_argument("--part", choices=["log", "queue"], help="only one")
    parser.add_argument("--ranked", type=int, default=RANKED_EVENTS_MAX, help="for the ranker")
    told = parser.parse_args()
    lengths = told.events or (SMOKE if told.smoke else LONG)
    jobs, agents = QUEUE_SMOKE if told.smoke else QUEUE
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory() as home:
        Path(home).chmod(0o755)
        if told.part != "log":
            folder = Path(home, "queue")
            folder.mkdir()
            jobs, agents = told.jobs or jobs, told.agents or agents
            figures += measure_queue(jobs, agents, told.assigned or jobs, folder)
        if told.part != "queue":
            folder = Path(home, "log")
            folder.mkdir()
            idle_s = IDLE_SMOKE_S if told.smoke else IDLE_S
            figures += measure_log(lengths, told.ranked, idle_s, folder)
    report(figures)


if __name__ == "__main__":
    main()
