"""The files of a problem, compiled, and the files that its author runs against it."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shared.errors import Refused
from shared.source_files import ENTRY_SUFFIXES, OTHER_SUFFIXES, SourceFile, choose_entry

# The folder of a problem's own solutions, with a folder for each kind.
SOLUTIONS = "solutions"
KINDS = ("correct", "wrong")


@dataclass(frozen=True)
class Sample:
    """A file to submit, with those beside it.

    With `is_reference` it is the problem's own reference, which needs no source. The entry of
    several files has the name of their folder in its own, such as `tiled/kernel.py`.
    """

    name: str
    source: bytes = b""
    is_reference: bool = False
    others: tuple[SourceFile, ...] = ()

    @property
    def files(self) -> Mapping[str, bytes]:
        """All its files by path, relative to the folder of its kind."""
        folder = self.name.rpartition("/")[0]
        return {self.name: self.source} | {f"{folder}/{it.name}": it.data for it in self.others}


@dataclass(frozen=True)
class Solutions:
    """A problem's own solutions: every one in `correct` passes, none in `wrong` does."""

    slug: str
    correct: tuple[Sample, ...]
    wrong: tuple[Sample, ...]

    @property
    def files(self) -> Mapping[str, bytes]:
        """All their files by path, relative to the problem's folder."""
        kinds = zip(KINDS, (self.correct, self.wrong), strict=True)
        return {
            f"{SOLUTIONS}/{kind}/{path}": data
            for kind, samples in kinds
            for sample in samples
            for path, data in sample.files.items()
        }


@dataclass(frozen=True)
class ProblemFiles:
    """A problem directory that compiles: the files to send, and the compiled version.

    `gpus` are the GPU types of its leaderboards, by default those of the version.
    """

    slug: str
    files: Mapping[str, bytes]
    manifest: bytes
    version_files: Mapping[str, bytes]
    ranking_by: str
    gpus: tuple[str, ...]
    warnings: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """The digest that names the version."""
        return hashlib.sha256(self.manifest).hexdigest()

    def parse_manifest(self) -> Any:
        """Return the manifest as a JSON document."""
        return json.loads(self.manifest)


def compile_files(slug: str, files: Mapping[str, bytes], gpus: Sequence[str] = ()) -> ProblemFiles:
    """Compile the files of a problem; `gpus` apply if they name none. Raises Refused."""
    from shared.problems.compilation import compile_problem

    version = compile_problem(slug, files, gpus)
    return ProblemFiles(
        *(slug, files, version.manifest, version.files, version.ranking_by, version.gpus),
        tuple(version.warnings),
    )


def add_statement(files: Mapping[str, bytes], text: str) -> dict[str, bytes]:
    r"""Return the files of a problem with a statement. Raises Refused if they have one.

    >>> add_statement({"a.py": b""}, "Copy it. ")
    {'a.py': b'', 'statement.md': b'Copy it.\n'}
    """
    from shared.problems.sources import STATEMENT

    if STATEMENT in files:
        reason = f"the files already have a {STATEMENT}: change it, or leave `description` out"
        raise Refused("invalid_request", reason, "description")
    return {**files, STATEMENT: f"{text.strip()}\n".encode()}


def split_solutions(slug: str, files: Mapping[str, bytes]) -> tuple[dict[str, bytes], Solutions]:
    """Return the files of a problem without its solutions, and the solutions.

    Each file of a kind is a solution, and each folder one of several files. Raises Refused for a
    folder without one entry.

    >>> own, solutions = split_solutions("p", {"a.py": b"1", "solutions/correct/b.py": b"2"})
    >>> list(own), solutions.correct[0].name, solutions.correct[0].source
    (['a.py'], 'b.py', b'2')
    """
    own = {path: data for path, data in files.items() if not path.startswith(f"{SOLUTIONS}/")}
    solutions = {path: data for path, data in files.items() if is_solution(path)}
    correct, wrong = (_make_samples(f"{SOLUTIONS}/{kind}/", solutions) for kind in KINDS)
    return own, Solutions(slug, correct, wrong)


def is_solution(path: str) -> bool:
    """Return whether a path relative to a problem's folder is that of a file of a solution.

    >>> is_solution("solutions/wrong/tiled/lib/a.cuh"), is_solution("solutions/wrong/README.md")
    (True, False)
    """
    kind, _, name = path.removeprefix(f"{SOLUTIONS}/").partition("/")
    if not path.startswith(f"{SOLUTIONS}/") or kind not in KINDS:
        return False
    is_hidden = any(part.startswith((".", "__pycache__")) for part in name.split("/"))
    return not is_hidden and name.endswith(OTHER_SUFFIXES if "/" in name else ENTRY_SUFFIXES)


def _make_samples(start: str, files: Mapping[str, bytes]) -> tuple[Sample, ...]:
    """Return the solutions in the folder of a kind, whose path with a slash is `start`."""
    paths = sorted(path.removeprefix(start) for path in files if path.startswith(start))
    folders = dict.fromkeys(path.partition("/")[0] for path in paths if "/" in path)
    samples = [Sample(path, files[start + path]) for path in paths if "/" not in path]
    for folder in folders:
        names = [path.partition("/")[2] for path in paths if path.startswith(f"{folder}/")]
        entry = choose_entry(f"{start}{folder}", names)
        others = tuple(
            SourceFile(name, files[f"{start}{folder}/{name}"]) for name in names if name != entry
        )
        path = f"{folder}/{entry}"
        samples.append(Sample(path, files[start + path], others=others))
    return tuple(samples)
