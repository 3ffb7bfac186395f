"""A problem version's folder: its manifest and its files, read and verified.

The manifest's keys: slug, title, description, lang, files (name to SHA-256, the submission left
out), submission (the name under which the participant's file appears), tests and benchmarks
(each with name and args), ranking_by, budgets_s (build, test, benchmark, ranked, author), gpus,
templates; where they say more than usual: form (how the author's functions are called), calls (of
each checked case), native (defines and flags of a problem in C++, whose lang is cu), main (the
problem's own program, which then runs the cases instead of our harness), memory_mib (what a
submission may use), requires (memory_mib: what a machine must have), answers ("checked": the
problem's check judges a narrower dtype, too).
"""

import hashlib
import json
from collections.abc import Collection
from dataclasses import dataclass, field
from math import inf
from pathlib import Path, PurePath
from typing import Any

_BUDGETS = {
    "build": "build",
    "check": "test",
    "hidden_check": "test",
    "timed_check": "benchmark",
    "profile": "benchmark",
    "duel": "ranked",
}
# The last is of one call of an author's function; all others are of stages.
BUDGETS_S = {
    "build": 60.0,
    "test": 180.0,
    "benchmark": 180.0,
    "ranked": 180.0,
    "author": 120.0,
}
_RANKS_MAX = 64
# The GPU type of the cpu device.
_PROCESSOR = "CPU"
_MIB = 1024**2
# A model has its weights beside its inputs, and all that it makes of them.
_MODEL_MIB = 16 * 1024
_ANSWERS = ("", "checked")
_CALLS = 2
_CALLS_MAX = 100
# What a problem is written in, and how a submission to it ends.
SUFFIXES = {"py": ".py", "cu": ".cu"}
# The ways to call an author's functions, each with what it asks submissions to define.
FORMS = {"": "custom_kernel", "outputs": "custom_kernel", "kernelbench": "ModelNew"}


class ProblemFault(Exception):  # noqa: N818  (STYLE.md, section 3: an outcome, not an error)
    """The problem itself does not work: no submission can be judged by it."""


class MemoryShortage(Exception):  # noqa: N818
    """A run needs more memory than this machine has for it."""


@dataclass(frozen=True)
class Case:
    """One input of a problem: the keyword arguments of its generator.

    No correct answer can be had in less than `floor_us`; a faster one is held for review.
    """

    name: str
    args: dict[str, Any]
    floor_us: float = 0.0

    @property
    def seed(self) -> int | None:
        """The published seed, if the case has one."""
        seed = self.args.get("seed")
        return seed if isinstance(seed, int) else None

    @property
    def ranks(self) -> int:
        """How many workers take part: the case's `world_size`, of several GPUs."""
        ranks = self.args.get("world_size", 1)
        return ranks if isinstance(ranks, int) else 1


@dataclass(frozen=True)
class Native:
    """What the author of a problem in C++ has compilers told.

    `sources` are compiled besides the drivers. `arrays` are vectors of the host unless they are to
    stay on the `device`, where submissions are given views of them.
    """

    defines: dict[str, str] = field(default_factory=dict)
    flags: list[str] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)
    arrays: str = "host"

    def arguments(self) -> list[str]:
        """As a command line has them.

        >>> Native({"TILE": "64", "FAST": ""}, ["-O2"]).arguments()
        ['-DTILE=64', '-DFAST', '-O2']
        """
        pairs = self.defines.items()
        return [
            *(f"-D{name}={value}" if value else f"-D{name}" for name, value in pairs),
            *self.flags,
        ]


@dataclass(frozen=True)
class Problem:
    """A problem version that can be run.

    `memory_bytes` is what a submission may use at least, should the machine have it;
    `memory_bytes_declared` is what its author said of that, 0 for nothing: a machine that has less
    cannot run it. `required_bytes` is the memory that the author requires of the whole machine.
    `is_checked` leaves answers that look a little otherwise than the reference's to the problem's
    own check.
    """

    slug: str
    folder: Path
    files: dict[str, str]
    submission: str
    tests: tuple[Case, ...]
    benchmarks: tuple[Case, ...]
    ranking_by: str
    budgets_s: dict[str, float]
    form: str = ""
    calls: int = _CALLS
    lang: str = "py"
    native: Native = field(default_factory=Native)
    main: str = ""
    memory_bytes: int = 0
    memory_bytes_declared: int = 0
    required_bytes: int = 0
    is_checked: bool = False

    @property
    def ranks(self) -> int:
        """How many ranks its widest case has."""
        return max((case.ranks for case in (*self.tests, *self.benchmarks)), default=1)

    @property
    def entry(self) -> str:
        """What a submission in Python defines."""
        return FORMS[self.form]

    def cases(self, stage: str, mode: str, case: int = 0) -> tuple[Case, ...]:
        """The cases that a stage of a mode runs, in order; of a profile only one, where it says.

        Errors: ProblemFault where there is no such case.
        """
        timed = self.benchmarks[-1:] if self.ranking_by == "last" else self.benchmarks
        if stage == "timed_check":
            return self.benchmarks
        if stage == "profile" and case:
            if not 0 < case <= len(timed):
                raise ProblemFault(f"there is no timed case {case}, only {len(timed)}")
            return timed[case - 1 : case]
        if stage in ("time", "profile", "duel") or mode == "benchmark":
            return timed
        return self.tests or timed

    def warm_ups_max(self, stage: str, mode: str) -> int:
        """How many warm-up calls a process gets at most in a stage: one for each new shape."""
        return 0 if stage == "build" else len(self.cases(stage, mode))

    def budget_s(self, stage: str, mode: str) -> float:
        """How long a stage may take, in seconds."""
        key = _BUDGETS.get(stage, mode)
        return self.budgets_s[key]


def load(folder: Path) -> Problem:
    """The problem version in a folder. Errors: ProblemFault, with the file and what is wrong."""
    try:
        manifest = json.loads((folder / "manifest.json").read_bytes())
        problem = _from_manifest(folder, manifest)
    except (AttributeError, KeyError, OSError, RecursionError, TypeError, ValueError) as error:
        raise ProblemFault(f"manifest.json cannot be used: {error!r}") from error
    for name, digest in problem.files.items():
        _verify(folder, name, digest)
    return problem


def _from_manifest(folder: Path, manifest: dict[str, Any]) -> Problem:
    lang = _one_of(SUFFIXES, manifest.get("lang", "py"))
    budgets = {key: _budget_s(value) for key, value in manifest.get("budgets_s", {}).items()}
    return Problem(
        slug=manifest["slug"],
        folder=folder,
        files=dict(manifest["files"]),
        submission=_plain(manifest["submission"], SUFFIXES[lang]),
        tests=_cases(manifest["tests"]),
        benchmarks=_cases(manifest["benchmarks"]),
        ranking_by=manifest["ranking_by"],
        budgets_s=BUDGETS_S | budgets,
        form=_one_of(FORMS, manifest.get("form", "")),
        calls=_count(manifest.get("calls", _CALLS)),
        lang=lang,
        native=Native(**manifest.get("native", {})),
        main=str(manifest.get("main", "")),
        memory_bytes=_MIB * int(manifest.get("memory_mib", _memory_mib(manifest))),
        memory_bytes_declared=_MIB * int(manifest.get("memory_mib", 0)),
        required_bytes=_MIB * _required_mib(manifest),
        is_checked=_one_of(_ANSWERS, manifest.get("answers", "")) == "checked",
    )


def _memory_mib(manifest: dict[str, Any]) -> int:
    return _MODEL_MIB if manifest.get("form") == "kernelbench" else 0


def _required_mib(manifest: dict[str, Any]) -> int:
    """The memory of a whole machine; of a problem for GPUs alone it is each GPU's that is meant."""
    required = int(manifest.get("requires", {}).get("memory_mib", 0))
    return required if _PROCESSOR in manifest.get("gpus", [_PROCESSOR]) else 0


def _cases(items: list[dict[str, Any]]) -> tuple[Case, ...]:
    return tuple(_case(item) for item in items)


def _case(item: dict[str, Any]) -> Case:
    case = Case(str(item["name"]), dict(item["args"]), float(item.get("floor_us", 0.0)))
    if not 1 <= case.ranks <= _RANKS_MAX:
        raise ValueError(f"{case.name!r} has {case.ranks} ranks, not 1 to {_RANKS_MAX}")
    return case


def _one_of(known: Collection[str], word: str) -> str:
    if word not in known:
        raise ValueError(f"{word!r} is none of {', '.join(map(repr, known))}")
    return word


def _count(calls: Any) -> int:
    if not isinstance(calls, int) or not 1 <= calls <= _CALLS_MAX:
        raise ValueError(f"{calls!r} calls of a case, not 1 to {_CALLS_MAX}")
    return calls


def _budget_s(value: Any) -> float:
    seconds = float(value)
    if not 0 < seconds < inf:
        raise ValueError(f"a budget of {seconds} s")
    return seconds


def _plain(name: str, suffix: str) -> str:
    if name != PurePath(name).name or name in ("", "..") or not name.endswith(suffix):
        raise ValueError(f"{name!r} is not the plain name of a {suffix} file")
    return name


def _verify(folder: Path, name: str, digest: str) -> None:
    if name != PurePath(name).name:
        raise ProblemFault(f"{name!r} is not a plain file name")
    try:
        found = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    except OSError as error:
        raise ProblemFault(f"{name} cannot be read: {error.strerror}") from error
    if found != digest:
        raise ProblemFault(f"{name} has SHA-256 {found}, its manifest says {digest}")
