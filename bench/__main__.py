"""`python -m bench [--smoke] [NAME ...]`: every benchmark, or some, each beside its goals.

A whole run writes RESULTS.md. `--smoke` takes seconds a benchmark, writes nothing, and holds the
figures that do not depend on the machine: it fails if one of them misses its goal.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench import figures, results
from bench.figures import Figure

# A benchmark is a module of this folder: `python -m bench.NAME [--smoke]` reports its figures.
BENCHMARKS = (
    *("turnaround", "counts", "query", "web", "pipeline", "api", "discord", "replay", "harness"),
)
SMOKE_S_MAX = 180.0
WHOLE_S_MAX = 3600.0
STOP_S_MAX = 90.0


def measure(name: str, *, is_smoke: bool) -> tuple[list[Figure], bool]:
    """Run a benchmark in a process of its own: its figures, and whether it came to a good end."""
    command = [sys.executable, "-m", f"bench.{name}", *(["--smoke"] if is_smoke else [])]
    limit_s, began = SMOKE_S_MAX if is_smoke else WHOLE_S_MAX, time.monotonic()
    print(f"== {name}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "figures.json")
        environ = {**os.environ, figures.FILE: str(path)}
        process = subprocess.Popen(command, env=environ)
        try:
            code = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            print(f"{name} took more than {limit_s:.0f} s", file=sys.stderr)
            code = _interrupt(process)
        found = figures.read(path)
    print(f"== {name}: {time.monotonic() - began:.0f} s, exit code {code}", flush=True)
    return found, code == 0 and bool(found)


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
    found: dict[str, list[Figure]] = {}
    failed = []
    for name in asked.names or BENCHMARKS:
        found[name], is_good = measure(name, is_smoke=asked.smoke)
        if not is_good:
            failed.append(name)
        if found[name] and not asked.smoke:
            # At once, so that the load beside its figures is that of its end.
            results.write({name: found[name]}, BENCHMARKS)
    return _judge(failed, found)


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
