"""Baselines: what the platform runs itself, to say how fast a score is."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NoReturn

from pydantic import Field

from shared.errors import Refused
from shared.problems.directives import read_directives
from shared.problems.document import Document, Path, shown
from shared.problems.languages import suffixes, toolchains
from shared.problems.schema import Strict
from shared.problems.sources import UP, normal

BASELINES_MAX = 8
KEY = "baselines"

Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,39}$")]
Note = Annotated[str, Field(max_length=100, pattern=r"^[^\x00-\x1f]*$")]


class BaselineYml(Strict):
    """A file of the problem that is run as a submission is, and what it is called."""

    name: Name
    file: Annotated[str, Field(min_length=1, max_length=200)]
    note: Note = ""


@dataclass(frozen=True)
class Baseline:
    """A baseline of a problem version with its source; no `gpus` are all of the problem's.

    `toolchains` is what a machine must have to compile it.
    """

    name: str
    file: str
    note: str
    data: bytes
    gpus: tuple[str, ...] = ()
    toolchains: tuple[str, ...] = ()


@dataclass(frozen=True)
class Allowed:
    """Which files a problem takes as submissions. Units: bytes."""

    languages: Sequence[str]
    source_bytes_max: int


def baselines(
    document: Document,
    asked: Sequence[BaselineYml],
    files: Mapping[str, bytes],
    allowed: Allowed,
) -> tuple[Baseline, ...]:
    """The baselines that a `warpboard.yml` names, each fit to be submitted. Errors: Refused."""
    names = [one.name for one in asked]
    for index, name in enumerate(names):
        if name in names[:index]:
            what = f"two baselines are named {shown(name)}: give one of them another name"
            document.refuse((KEY, index, "name"), what)
    return tuple(
        _baseline(_Entry(document, (KEY, index, "file"), one), files, allowed)
        for index, one in enumerate(asked)
    )


def of_baselines(found: Sequence[Baseline]) -> dict[str, Any]:
    """What a manifest says of them; nothing where there are none.

    So the digest of a problem without any is what it was before there could be some.
    """
    said = [
        {
            "name": one.name,
            "file": one.file,
            "note": one.note,
            "digest": hashlib.sha256(one.data).hexdigest(),
        }
        for one in found
    ]
    return {KEY: said} if said else {}


@dataclass(frozen=True)
class _Entry:
    """One entry of the list, and where it is said."""

    document: Document
    path: Path
    said: BaselineYml

    def refuse(self, what: str) -> NoReturn:
        """Raises the refusal of this entry's file."""
        self.document.refuse(self.path, f"{shown(self.said.file)} {what}")


def _baseline(entry: _Entry, files: Mapping[str, bytes], allowed: Allowed) -> Baseline:
    said = entry.said
    place = normal(said.file) or ""
    if not place or place.startswith(UP):
        entry.refuse("leads out of the problem: put it into its folder")
    if place not in files:
        entry.refuse("is no file of the problem: add it, or mend the path")
    ends = suffixes(allowed.languages)
    if not place.endswith(ends):
        entry.refuse(f"does not end in {' or '.join(ends)}, as submissions here do")
    text = _text(entry, files[place], allowed.source_bytes_max)
    try:
        directives = read_directives(text)
    except Refused as refused:
        entry.refuse(f"cannot be submitted: {refused.reason}")
    return Baseline(
        name=said.name,
        file=place,
        note=said.note,
        data=files[place],
        gpus=directives.gpus,
        toolchains=tuple(toolchains(place, text)),
    )


def _text(entry: _Entry, data: bytes, bytes_max: int) -> str:
    if len(data) > bytes_max:
        entry.refuse(f"has {len(data):,} bytes: submissions here have at most {bytes_max:,}")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        entry.refuse(f"is not UTF-8 at byte {error.start}: save it so")
    if "\0" in text or not text.strip():
        entry.refuse("holds a NUL byte" if "\0" in text else "is empty: write what is run")
    return text
