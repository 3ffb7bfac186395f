"""A problem version's folder, read and verified, and the folder of one run of it.

The manifest's keys: slug, title, description, lang, files (name to SHA-256, without the
submission), submission (the file name of the participant's file), tests and benchmarks (each with
name and args; a benchmark may have a weight), ranking_by, budgets_s (build, test, benchmark,
ranked, author), gpus, templates. Optional keys: form (how the author's functions are called), calls
(of each checked case), native (defines and flags of a problem in C++, whose lang is cu), main (the
problem's own program, which runs the cases instead of our harness), yardstick (the file that timed
runs measure beside a submission, by default the reference), memory_mib (what a submission may use),
requires (memory_mib: what a machine must have), answers ("checked": the problem's check judges a
narrower dtype, too), shortcuts (forbid, own_kernel: what a submission may not use), hidden (the
families of tests and benchmarks that a ranked run draws cases from), metrics (what a timed run
measures besides, each with a min and a max, which a rank needs).
"""

import hashlib
import json
import mmap
import os
import re
import shutil
import struct
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path, PurePath
from typing import Any

from harness.hidden_sizes import (
    GROUPS,
    HiddenFamily,
    draws_hidden_sizes,
    hidden_case_name,
    read_family,
)
from harness.metrics import Metric, read_metrics
from harness.ranking_rules import timed_cases
from harness.vocabulary import CPU_TYPE, STAGES, VERIFY

# The last is for one call of an author's function, all others are for stages.
BUDGETS_S = {"build": 60.0, "test": 180.0, "benchmark": 180.0, "ranked": 180.0, "author": 120.0}
_RANKS_MAX = 64
_MIB = 1024**2
# A model needs memory for its weights and intermediate results, besides its inputs.
_MODEL_MIB = 16 * 1024
_ANSWERS = ("", "checked")
_CALLS = 2
_CALLS_MAX = 100
# A problem's language, and the suffix of submissions to it.
SUFFIXES = {"py": ".py", "cu": ".cu"}
# The forms of an author's functions, each with the name that submissions must define.
FORMS = {
    **dict.fromkeys(("", "outputs", "reference_outputs"), "custom_kernel"),
    "kernelbench": "ModelNew",
}


_STARTED_AT = struct.Struct("=dd")
_IDLE = 0.0
_TEXT_BYTES_MAX = 1024


class ProblemFault(Exception):  # noqa: N818  (STYLE.md, section 3: an outcome, not an error)
    """The problem itself does not work, so it can judge no submission."""


class MemoryShortage(Exception):  # noqa: N818
    """A run needs more memory than this machine has for it."""


@dataclass(frozen=True)
class Case:
    """One input of a problem: the keyword arguments of its generator.

    No correct answer can take less than `floor_us`; a faster one is held for review. `weight` is
    that of a timed case in the mean that makes the score. Nobody may see the arguments of a case
    that `is_hidden`.
    """

    name: str
    args: dict[str, Any]
    floor_us: float = 0.0
    weight: float = 1.0
    is_hidden: bool = False

    @property
    def seed(self) -> int | None:
        """The published seed, if the case has one."""
        seed = self.args.get("seed")
        return seed if isinstance(seed, int) else None

    @property
    def ranks(self) -> int:
        """How many workers take part: the case's `world_size` on several GPUs."""
        ranks = self.args.get("world_size", 1)
        return ranks if isinstance(ranks, int) else 1


@dataclass(frozen=True)
class NativeOptions:
    """Compiler options of a problem in C++.

    `sources` are compiled together with the drivers. `arrays` are vectors of the host, or with
    `device` they stay on the device, and submissions get views of them.
    """

    defines: dict[str, str] = field(default_factory=dict)
    flags: list[str] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)
    arrays: str = "host"

    def arguments(self) -> list[str]:
        """Return them as command line arguments.

        >>> NativeOptions({"TILE": "64", "FAST": ""}, ["-O2"]).arguments()
        ['-DTILE=64', '-DFAST', '-O2']
        """
        pairs = self.defines.items()
        defines = [f"-D{name}={value}" if value else f"-D{name}" for name, value in pairs]
        return [*defines, *self.flags]


@dataclass(frozen=True)
class ShortcutPolicy:
    """What submissions may not use: torch functions and libraries by name.

    With `own_kernel` set to `required`, a submission must define a kernel of its own.
    """

    forbid: list[str] = field(default_factory=list)
    own_kernel: str = ""

    @property
    def is_empty(self) -> bool:
        """Whether everything is allowed."""
        return not self.forbid and not self.own_kernel


@dataclass(frozen=True)
class Problem:
    """A problem version that can be run.

    `memory_bytes` is the least that a submission may use, if the machine has it.
    `memory_bytes_declared` is what the author declared for that, 0 for nothing: a machine with less
    cannot run it. `required_bytes` is the memory that the author requires of the whole machine.
    With `is_checked`, the problem's own check judges answers of another dtype or shape. `yardstick`
    names the file that timed runs measure beside a submission; "" is the reference. A run draws
    `drawn_tests` and `drawn_benchmarks` from the `hidden` families.
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
    native: NativeOptions = field(default_factory=NativeOptions)
    main: str = ""
    yardstick: str = ""
    memory_bytes: int = 0
    memory_bytes_declared: int = 0
    required_bytes: int = 0
    is_checked: bool = False
    shortcuts: ShortcutPolicy = field(default_factory=ShortcutPolicy)
    metrics: tuple[Metric, ...] = ()
    hidden: tuple[HiddenFamily, ...] = ()
    drawn_tests: tuple[Case, ...] = ()
    drawn_benchmarks: tuple[Case, ...] = ()

    @property
    def has_hidden_sizes(self) -> bool:
        """Whether this run has cases that nobody may see."""
        return any(case.is_hidden for case in (*self.drawn_tests, *self.drawn_benchmarks))

    def with_drawn_cases(self, mode: str, key: bytes) -> "Problem":
        """Return the problem with the cases that a run of a mode draws with its key.

        An author's own run draws them, too, with the smallest and the largest case of each family,
        and hides none of them.
        """
        if draws_hidden_sizes(mode):
            drawn = {
                family.group: tuple(
                    Case(
                        hidden_case_name(family.group, number),
                        args,
                        weight=family.weight,
                        is_hidden=True,
                    )
                    for number, args in enumerate(family.draw(key), 1)
                )
                for family in self.hidden
            }
        elif mode == VERIFY:
            drawn = {
                family.group: tuple(map(_shown_case, [*family.corners(), *family.draw(key)]))
                for family in self.hidden
            }
        else:
            return self
        return replace(
            self,
            drawn_tests=drawn.get("tests", ()),
            drawn_benchmarks=drawn.get("benchmarks", ()),
        )

    @property
    def corner_cases(self) -> list[Case]:
        """The smallest and the largest case of each hidden family, for the problem's author."""
        return [_shown_case(args) for family in self.hidden for args in family.corners()]

    @property
    def ranks(self) -> int:
        """The number of ranks of its widest case."""
        return max((case.ranks for case in (*self.tests, *self.benchmarks)), default=1)

    @property
    def modules(self) -> tuple[Path, ...]:
        """The author's modules in Python, without the yardstick, which they do not import."""
        names = [name for name in self.files if name.endswith(".py") and name != self.yardstick]
        return tuple(self.folder / name for name in names)

    @property
    def entry(self) -> str:
        """The name that a Python submission must define."""
        return FORMS[self.form]

    def cases(self, stage: str, mode: str, case: int = 0) -> tuple[Case, ...]:
        """Return the cases of a stage in a mode, in order; `case` selects one for a profile.

        Raises ProblemFault if that case does not exist.
        """
        timed = tuple(timed_cases(self.ranking_by, self.benchmarks))
        if stage == "timed_check":
            return (*self.benchmarks, *self.drawn_tests, *self.drawn_benchmarks)
        if stage == "profile" and case:
            if not 0 < case <= len(timed):
                raise ProblemFault(f"there is no timed case {case}, only {len(timed)}")
            return timed[case - 1 : case]
        if STAGES[stage].is_timed or stage == "profile" or mode == "benchmark":
            # The hidden cases are the last ones of each process.
            return (*timed, *self.drawn_benchmarks)
        checked = self.tests or timed
        return (*checked, *self.drawn_tests) if STAGES[stage].is_hidden else checked

    def budget_s(self, stage: str, mode: str) -> float:
        """Return how long a stage may take, in seconds."""
        return self.budgets_s[STAGES[stage].budget or mode]


def load_problem(folder: Path) -> Problem:
    """Load the problem version in a folder. Raises ProblemFault with the file and the error."""
    try:
        manifest = json.loads((folder / "manifest.json").read_bytes())
        problem = _from_manifest(folder, manifest)
    except (AttributeError, KeyError, OSError, RecursionError, TypeError, ValueError) as error:
        raise ProblemFault(f"manifest.json cannot be used: {error!r}") from error
    for name, digest in problem.files.items():
        if name != PurePath(name).name:
            raise ProblemFault(f"{name!r} is not a plain file name")
        try:
            actual = hashlib.sha256((folder / name).read_bytes()).hexdigest()
        except OSError as error:
            raise ProblemFault(f"{name} cannot be read: {error.strerror}") from error
        if actual != digest:
            raise ProblemFault(f"{name} has SHA-256 {actual}, its manifest says {digest}")
    return problem


def _from_manifest(folder: Path, manifest: dict[str, Any]) -> Problem:
    lang = _require_known(SUFFIXES, manifest.get("lang", "py"))
    budgets = {key: float(value) for key, value in manifest.get("budgets_s", {}).items()}
    for seconds in budgets.values():
        if not 0 < seconds < inf:
            raise ValueError(f"a budget of {seconds} s")
    calls = manifest.get("calls", _CALLS)
    if not isinstance(calls, int) or not 1 <= calls <= _CALLS_MAX:
        raise ValueError(f"{calls!r} calls of a case, not 1 to {_CALLS_MAX}")
    required_mib = int(manifest.get("requires", {}).get("memory_mib", 0))
    if CPU_TYPE not in manifest.get("gpus", [CPU_TYPE]):
        # For GPU problems it means each GPU's memory, not the machine's.
        required_mib = 0
    default_mib = _MODEL_MIB if manifest.get("form") == "kernelbench" else 0
    return Problem(
        slug=manifest["slug"],
        folder=folder,
        files=dict(manifest["files"]),
        submission=_require_plain_name(manifest["submission"], SUFFIXES[lang]),
        tests=tuple(map(_case, manifest["tests"])),
        benchmarks=tuple(map(_case, manifest["benchmarks"])),
        ranking_by=manifest["ranking_by"],
        budgets_s=BUDGETS_S | budgets,
        form=_require_known(FORMS, manifest.get("form", "")),
        calls=calls,
        lang=lang,
        native=NativeOptions(**manifest.get("native", {})),
        main=str(manifest.get("main", "")),
        yardstick=str(manifest.get("yardstick", "")),
        memory_bytes=_MIB * int(manifest.get("memory_mib", default_mib)),
        memory_bytes_declared=_MIB * int(manifest.get("memory_mib", 0)),
        required_bytes=_MIB * required_mib,
        is_checked=_require_known(_ANSWERS, manifest.get("answers", "")) == "checked",
        shortcuts=ShortcutPolicy(**manifest.get("shortcuts", {})),
        metrics=read_metrics(manifest.get("metrics", [])),
        hidden=tuple(
            read_family(group, manifest["hidden"][group])
            for group in GROUPS
            if group in manifest.get("hidden", {})
        ),
    )


def _shown_case(args: dict[str, Any]) -> Case:
    """Return a case of a hidden family that its author sees."""
    return Case(" ".join(["hidden", *(f"{name}={value}" for name, value in args.items())]), args)


def _case(item: dict[str, Any]) -> Case:
    floor_us, weight = float(item.get("floor_us", 0.0)), float(item.get("weight", 1.0))
    case = Case(str(item["name"]), dict(item["args"]), floor_us, weight)
    if not 0 < weight < inf:
        raise ValueError(f"{case.name!r} has the weight {weight}, not a positive number")
    if not 1 <= case.ranks <= _RANKS_MAX:
        raise ValueError(f"{case.name!r} has {case.ranks} ranks, not 1 to {_RANKS_MAX}")
    return case


def _require_known(known: Collection[str], word: str) -> str:
    if word not in known:
        raise ValueError(f"{word!r} is not one of {', '.join(map(repr, known))}")
    return word


def _require_plain_name(name: str, suffix: str) -> str:
    if name != PurePath(name).name or name in ("", "..") or not name.endswith(suffix):
        raise ValueError(f"{name!r} is not the plain name of a {suffix} file")
    return name


_DISTRIBUTED = re.compile(rb"torch\.distributed|from torch import .*\bdistributed\b")


def uses_collectives(problem: Problem) -> bool:
    """Return whether the author's code may communicate between ranks."""
    texts = (path.read_bytes() for path in problem.modules if path.name != "eval.py")
    return any(_DISTRIBUTED.search(text) for text in texts)


class AuthorActivity:
    """A page shared by run and supervisor: which part of the author's code runs, and since when."""

    def __init__(self) -> None:
        self._page = mmap.mmap(-1, mmap.PAGESIZE)

    @contextmanager
    def over(self, part: str) -> Iterator[None]:
        """Within it, this part of the author's code is running."""
        text = part.encode(errors="replace")[:_TEXT_BYTES_MAX].ljust(_TEXT_BYTES_MAX, b"\0")
        self._page[_STARTED_AT.size : _STARTED_AT.size + _TEXT_BYTES_MAX] = text
        _STARTED_AT.pack_into(self._page, 0, time.monotonic(), time.process_time())
        try:
            yield
        finally:
            _STARTED_AT.pack_into(self._page, 0, _IDLE, 0.0)

    @property
    def what(self) -> str:
        """The part that is running, or was running when the run ended; "" if none."""
        if _STARTED_AT.unpack_from(self._page, 0)[0] == _IDLE:
            return ""
        text = self._page[_STARTED_AT.size : _STARTED_AT.size + _TEXT_BYTES_MAX]
        return text.rstrip(b"\0").decode(errors="replace")

    def runs_s(self, cpu_s: float) -> tuple[float, float]:
        """Return for how long it has been running, in CPU seconds and in wall seconds.

        `cpu_s` is the CPU time of the run's process by now. Both are 0 if no author's code runs.
        """
        started_at, cpu_before_s = _STARTED_AT.unpack_from(self._page, 0)
        if started_at == _IDLE:
            return 0.0, 0.0
        return cpu_s - cpu_before_s, time.monotonic() - started_at


@dataclass(frozen=True)
class RunDirectory:
    """What a run finds prepared: its folders, its problem, a descriptor of its records folder.

    `out` and `mark` belong to the process of the run. `mark` shows the supervisor which part of the
    author's code is running. `submission` is visible to the worker; `scratch` holds the workers'
    own folders where no mount namespace gives them one. In a duel, `rival` is the directory of the
    second submission. Where a submission is timed alone, `yardstick` is that of the kernel that is
    timed beside it. `others` are the files of the submission beside its entry, relative to
    `submission`.
    """

    folder: Path
    problem: Problem
    submission: Path
    scratch: Path
    out: int
    mark: AuthorActivity
    rival: "RunDirectory | None" = None
    yardstick: "RunDirectory | None" = None
    others: tuple[str, ...] = ()

    @property
    def sources(self) -> dict[str, bytes]:
        """The files of the submission by name, the entry first."""
        names = (self.problem.submission, *self.others)
        return {name: (self.submission / name).read_bytes() for name in names}

    def keep(self, name: str, data: bytes) -> None:
        """Write one of the run's records, even if the folder's path is out of reach by now."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
        with os.fdopen(os.open(name, flags, 0o644, dir_fd=self.out), "wb") as file:
            file.write(data)

    def leave(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)
