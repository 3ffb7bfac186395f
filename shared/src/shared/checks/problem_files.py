"""The files of a problem, compiled, and the files that its author runs against it."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shared.errors import Refused

# The folder of a problem's own solutions, with the folders `correct` and `wrong`.
SOLUTIONS = "solutions"


@dataclass(frozen=True)
class Sample:
    """A file to submit; with `is_reference` the problem's own reference, which needs no source."""

    name: str
    source: bytes = b""
    is_reference: bool = False


@dataclass(frozen=True)
class Solutions:
    """A problem's own solutions: every one in `correct` passes, none in `wrong` does."""

    slug: str
    correct: tuple[Sample, ...]
    wrong: tuple[Sample, ...]


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

    >>> own, solutions = split_solutions("p", {"a.py": b"1", "solutions/correct/b.py": b"2"})
    >>> list(own), solutions.correct
    (['a.py'], (Sample(name='b.py', source=b'2', is_reference=False),))
    """
    samples: dict[str, list[Sample]] = {"correct": [], "wrong": []}
    own: dict[str, bytes] = {}
    for path, data in files.items():
        folder, _, name = path.rpartition("/")
        kind = folder.removeprefix(f"{SOLUTIONS}/")
        if kind in samples and folder != kind:
            samples[kind].append(Sample(name, data))
        elif not path.startswith(f"{SOLUTIONS}/"):
            own[path] = data
    return own, Solutions(slug, tuple(samples["correct"]), tuple(samples["wrong"]))
