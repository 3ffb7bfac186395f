"""Cheats: hostile programs in files, and the outcome that the header of each promises."""

import hashlib
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SUBMISSIONS = HERE / "submissions"
LEVELS = ("none", "weak", "medium", "strong")
# Words of a header that bound what is measured.
TIME_BOUNDS = ("time_us_min", "slow_us")
CHECKS = ("no_gain", "no_residue", "counts_all")

# A cheat must not wait for budgets made for large problems; a machine may be crowded all the same.
BUDGETS_S = {"build": 30.0, "test": 30.0, "benchmark": 20.0, "ranked": 20.0}


@dataclass(frozen=True)
class Cheat:
    """A submission and what its header asks for: `# word: value` in its first lines.

    `id` is the line of the catalogue; `expect` the verdicts that will do; `level` the least level
    of isolation at which that holds, by `launchers` if not by both. `mode`, `budgets`, `problem`,
    `answers`, `size`, `seed`, `forbid`, `floor_us`, `level_min`, `key_reversed` and `hidden` (how
    many hidden sizes of each kind) say what is run;
    `runs` how often in a row, `at_once` in how many sandboxes at one time. What has to be in the
    log and in the report is `prints` and `says`; `never_prints` and `never_says` may not be there.
    `time_us_min` bounds its times, and most calls that take `slow_us` must count. `check` is one of
    CHECKS: `no_gain` compares every call with the time that its work takes alone; `no_residue` its
    score with that of the yardstick, which does the same work and would be slow beside it; and
    `counts_all` its score with the mean of all its calls. `alone` says why nothing may run beside
    it, though no times are compared; `long` why it takes many seconds.
    """

    path: Path
    header: dict[str, str]

    @property
    def name(self) -> str:
        """The file's name, without its ending."""
        return self.path.stem

    @property
    def id(self) -> str:
        """The line of the catalogue."""
        return self.header["id"].partition(" ")[0]

    @property
    def verdicts(self) -> list[str]:
        """The verdicts that will do."""
        return self.header["expect"].split()

    @property
    def mode(self) -> str:
        """The mode that it is run in."""
        return self.header.get("mode", "test")

    @property
    def key(self) -> str | None:
        """The run's key, if it must be known; its text may not stand in the file."""
        return self.header["key_reversed"][::-1] if "key_reversed" in self.header else None

    @property
    def has_compared_times(self) -> bool:
        """Whether its times are compared with anything, which would differ on a busy machine."""
        has_bound = any(word in self.header for word in TIME_BOUNDS)
        return self.mode != "test" and (self.check in CHECKS or has_bound)

    @property
    def check(self) -> str:
        """With what its times are compared, "" for nothing."""
        return self.header.get("check", "")

    @property
    def is_compared(self) -> bool:
        """Whether its calls are compared with the time that the work alone takes."""
        return self.check == "no_gain"

    @property
    def is_alone(self) -> bool:
        """Whether nothing may run beside it."""
        return self.has_compared_times or "alone" in self.header

    @property
    def is_long(self) -> bool:
        """Whether it takes many seconds, so that `make test-long` runs it."""
        return "long" in self.header

    def like(self, **words: str) -> "Cheat":
        """The same submission with other words in its header."""
        return replace(self, header=self.header | words)

    def number(self, word: str, default: float) -> float:
        """A number of the header."""
        return float(self.header.get(word, default))

    def holds_at(self, level: str, launcher: str) -> bool:
        """Whether its outcome is promised at a level of isolation, by a launcher."""
        is_enough = LEVELS.index(level) >= LEVELS.index(self.header.get("level", "none"))
        return is_enough and launcher in self.header.get("launchers", launcher)

    def budgets_s(self) -> dict[str, float]:
        """How long the stages may take: ours, and over them what the header says."""
        pairs = (item.split("=") for item in self.header.get("budgets", "").split())
        return BUDGETS_S | {stage: float(seconds) for stage, seconds in pairs}


def cheat(path: Path) -> Cheat:
    """The cheat in a file."""
    lines = path.read_text().splitlines()
    words = (line[2:].partition(": ") for line in lines if line.startswith("# "))
    return Cheat(path, {word: value for word, colon, value in words if colon})


def named(name: str) -> Cheat:
    """The cheat of a name."""
    return cheat(SUBMISSIONS / f"{name}.py")


def corpus() -> list[Cheat]:
    """All cheats by id, the controls first: if one of those fails, nothing below it counts."""
    found = [cheat(path) for path in SUBMISSIONS.glob("*.py") if not path.name.startswith("gpu_")]
    return sorted(found, key=lambda one: (one.id != "control", one.id, one.name))


def write_problem(one: Cheat, folder: Path) -> None:
    """Lays out the problem that a cheat is asked to solve."""
    slug = one.header.get("problem", "triangles")
    files = {}
    for path in (HERE / "problem" / slug).glob("*.py"):
        (folder / path.name).write_bytes(path.read_bytes())
        files[path.name] = hashlib.sha256(path.read_bytes()).hexdigest()
    seed = {"seed": None if one.header.get("seed") == "none" else 7}
    timed = _case(int(one.number("size", 256)), seed)
    manifest = {
        "slug": slug,
        "lang": "py",
        "files": files,
        "submission": "submission.py",
        "tests": [_case(32, seed), _case(64, seed)],
        "benchmarks": [timed | {"floor_us": one.number("floor_us", 0.0)}],
        "ranking_by": "geom",
        "budgets_s": one.budgets_s(),
        "answers": one.header.get("answers", ""),
    }
    if count := int(one.number("hidden", 0)):
        sizes = {"size": {"from": 65, "to": 255}, **({"seed": 0} if seed["seed"] else {})}
        family = {"count": count, "args": sizes}
        manifest["hidden"] = {"tests": family, "benchmarks": family}
    if forbidden := one.header.get("forbid", "").split():
        manifest["shortcuts"] = {"forbid": forbidden}
    (folder / "manifest.json").write_text(json.dumps(manifest))


def _case(size: int, seed: dict[str, int | None]) -> dict[str, Any]:
    args = {"size": size} | seed
    return {"name": " ".join(f"{word}={value}" for word, value in args.items()), "args": args}
