"""Runs cheats and prints a table: `python -m tests.cheats [NAME ...] [--times 3] ...`.

A cheat as expected has its time as a multiple of the yardstick's behind `ok`.
"""

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from harness.entry import Isolation, isolation

from .corpus import LEVELS, Cheat, corpus, named
from .outcomes import judge, yardstick_ratios
from .trials import Trials

ROW = "{:7} {:21} {:10} {:6} {:30} {:14} {:>6}  {}"


def main() -> int:
    """As many rounds as asked for, in each launcher and level; the status counts the failures."""
    wish = _arguments().parse_args()
    here = isolation()
    missing = [one.wall for one in here.missing]
    _say(f"uid {os.getuid()}, level {here.level}, missing: {missing}, without: {wish.without}")
    _say(ROW.format("id", "name", "launcher", "level", "expected", "got", "s", ""))
    counts: Counter[str] = Counter()
    for _ in range(wish.times):
        for launcher, level in _places(wish, here):
            counts += _round(wish, launcher, level)
    _say(f"{counts['ok']} as expected, {counts['FAILED']} not, {counts['above']} need more walls")
    return min(counts["FAILED"], 99)


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.cheats", description=__doc__)
    parser.add_argument("names", nargs="*", help="cheats, by file name; all, if none is given")
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--launcher", dest="launchers", action="append")
    parser.add_argument("--level", dest="levels", action="append", choices=LEVELS)
    parser.add_argument("--without", action="append", default=[], help="a wall left out")
    return parser


def _places(wish: argparse.Namespace, here: Isolation) -> Iterator[tuple[str, str]]:
    """Launchers and levels to try; what this machine cannot do is said aloud."""
    for launcher in wish.launchers or ("zygote", "bubblewrap"):
        for level in wish.levels or [here.level]:
            if launcher == "bubblewrap" and not here.has_bubblewrap:
                _say(f"NOT RUN: no bubblewrap: {here.launchers[0].reason}")
            elif LEVELS.index(level) > LEVELS.index(here.level):
                _say(f"NOT RUN: this machine is {here.level}, not {level}")
            else:
                yield launcher, level


def _round(wish: argparse.Namespace, launcher: str, level: str) -> Counter[str]:
    wanted = [named(name) for name in wish.names] or corpus()
    options = {"launcher": launcher, "level": level, "without": wish.without}
    with tempfile.TemporaryDirectory() as folder, Trials(Path(folder), **options) as trials:
        return Counter(_row(trials, one, (launcher, level)) for one in wanted)


def _row(trials: Trials, one: Cheat, where: tuple[str, str]) -> str:
    launcher, level = where
    if not one.holds_at(level, launcher):
        return "above"
    began = time.monotonic()
    runs, wrong = judge(one, trials)
    if not trials.bystanders.are_well:
        wrong.append("a bystander was harmed")
    got = " ".join(ended.report.verdict or ended.report.failure_code for ended in runs)
    took = f"{time.monotonic() - began:.2f}"
    ratios = " ".join(f"{ratio:.3f}" for ended in runs for ratio in yardstick_ratios(ended))
    said = "FAILED " + "; ".join(wrong) if wrong else f"ok {ratios}".rstrip()
    _say(ROW.format(one.id, one.name, launcher, level, one.header["expect"], got, took, said))
    return "FAILED" if wrong else "ok"


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
