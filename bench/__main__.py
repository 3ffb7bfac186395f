"""`python -m bench [--smoke] [NAME ...]`: every benchmark, or some, each beside its goals.

A whole run writes RESULTS.md and ends with all figures that have a goal. `--smoke` takes seconds
per benchmark, writes nothing, and fails if a figure that does not depend on the machine misses its
goal. Benchmarks share what takes long to prepare: a million runs and, in the smoke form, one
platform.
"""

import argparse
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench import figures, leaderboard_servers, noop_platform, results
from bench.figures import Figure

# A benchmark is a module of this folder: `python -m bench.NAME [--smoke]` reports its figures.
# Those that measure a platform of `warpboard up` come first: the smoke form then stops it.
ON_A_PLATFORM = ("turnaround", "evaluations", "counts", "pipeline", "api", "discord", "peers")
BENCHMARKS = (
    *ON_A_PLATFORM,
    *("query", "web", "replay", "scale", "segments", "archive", "retrieval", "harness"),
)
SMOKE_S_MAX = 180.0
WHOLE_S_MAX = 1800.0
STOP_S_MAX = 90.0


def measure(name: str, environ: Mapping[str, str], *, is_smoke: bool) -> tuple[list[Figure], bool]:
    """Run a benchmark in a process of its own: its figures, and whether it came to a good end."""
    command = [sys.executable, "-m", f"bench.{name}", *(["--smoke"] if is_smoke else [])]
    limit_s = SMOKE_S_MAX if is_smoke else WHOLE_S_MAX
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "figures.json")
        with _timed(name):
            process = subprocess.Popen(command, env={**environ, figures.FILE: str(path)})
            try:
                code = process.wait(limit_s)
            except subprocess.TimeoutExpired:
                print(f"{name} took more than {limit_s:.0f} s", file=sys.stderr)
                code = _interrupt(process)
            print(f"exit code {code}")
        found = figures.read(path)
    return found or [], code == 0 and found is not None


@contextmanager
def _timed(name: str) -> Iterator[None]:
    """Print how long something took, and the processor time of the processes that ended in it."""
    print(f"== {name}", flush=True)
    began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    yield
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = spent.ru_utime + spent.ru_stime - before.ru_utime - before.ru_stime
    print(f"== {name}: {time.monotonic() - began:.0f} s, {cpu_s:.0f} s of processor", flush=True)


def _interrupt(process: "subprocess.Popen[bytes]") -> int:
    """Let a benchmark stop what it started, and end it; never a good end."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(STOP_S_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    return 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmarks that are named, or all; 1 if one fails."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="seconds each; hold the ratios")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(BENCHMARKS))
    asked = parser.parse_args(arguments)
    unknown = set(asked.names) - set(BENCHMARKS)
    if unknown:
        parser.error(f"no benchmark {', '.join(sorted(unknown))}: choose from {BENCHMARKS}")
    names = asked.names or BENCHMARKS
    with _timed("all"):
        found, failed = _measure_all(names, is_smoke=asked.smoke)
    _print_goals(found, is_smoke=asked.smoke)
    return _judge(failed, found)


def _measure_all(
    names: Sequence[str], *, is_smoke: bool
) -> tuple[dict[str, list[Figure]], list[str]]:
    """Run benchmarks one after the other: their figures, and the names of those that failed."""
    found: dict[str, list[Figure]] = {}
    failed = []
    with tempfile.TemporaryDirectory() as home, ExitStack() as stack:
        environ = {**os.environ, leaderboard_servers.KEPT: home}
        if is_smoke and names[0] in ON_A_PLATFORM:
            # In a whole run each starts its own, to measure nothing that another has left.
            platform = stack.enter_context(noop_platform.running_platform())
            environ[noop_platform.SHARED] = str(platform.folder)
        for name in names:
            if name not in ON_A_PLATFORM:
                stack.close()
                environ.pop(noop_platform.SHARED, None)
            found[name], is_good = measure(name, environ, is_smoke=is_smoke)
            if not is_good:
                failed.append(name)
            if found[name] and not is_smoke:
                # At once, so that the load beside its figures is that of its end.
                results.write({name: found[name]}, BENCHMARKS)
    return found, failed


def _print_goals(found: Mapping[str, Sequence[Figure]], *, is_smoke: bool) -> None:
    """Print all figures with goals; of a smoke run those that no machine changes."""
    for name, of_benchmark in found.items():
        for figure in of_benchmark:
            if figure.is_held or (figure.goal is not None and not is_smoke):
                print(f"{name}: {figure}")


def _judge(failed: Sequence[str], found: Mapping[str, Sequence[Figure]]) -> int:
    """Say what failed, and which figures broke their goals; the exit status."""
    for name in failed:
        for figure in found[name]:
            if figure.is_broken:
                print(f"{name}: broken: {figure}", file=sys.stderr)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
