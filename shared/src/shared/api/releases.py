"""Releases of the kernel archive: their files, and what changed since the one before."""

from datetime import datetime
from typing import Annotated

from msgspec import Meta

from shared.api.fields import ApiModel


class ReleaseFile(ApiModel, frozen=True, kw_only=True):
    """A file of a release; `table` is "" for pages and exchange formats."""

    path: Annotated[str, Meta(description="Below the folder of the data set.")]
    table: str
    split: str
    rows: int
    bytes: int
    sha256: str


class TableChange(ApiModel, frozen=True, kw_only=True):
    """How many rows a table has, and how many joined and left with the release."""

    rows: int
    added: int
    removed: int


class Release(ApiModel, frozen=True, kw_only=True):
    """A state of the data set: the log up to an event, and all files with their SHA-256.

    Files that an earlier release lists and this one does not had rows that were withdrawn.
    """

    format: str
    number: int
    previous: int | None
    seq: Annotated[int, Meta(description="The last event of the log in it.")]
    event: Annotated[str, Meta(description="The SHA-256 of that event.")]
    at: Annotated[datetime | None, Meta(description="When that event happened; decides embargoes.")]
    licence: Annotated[
        str, Meta(description="Of sources whose authors chose that of the platform;  for none.")
    ]
    tables: dict[str, TableChange]
    files: list[ReleaseFile]
    added: Annotated[list[str], Meta(description="Paths that the release before did not have.")]
    removed: Annotated[list[str], Meta(description="Paths that only the release before had.")]


class ReleaseSummary(ApiModel, frozen=True, kw_only=True):
    """A release in the list."""

    number: int
    seq: int
    at: datetime | None
    licence: str
    bytes: int
    files: int
    tables: dict[str, TableChange]


class ReleaseList(ApiModel, frozen=True, kw_only=True):
    """All releases, the newest first."""

    items: list[ReleaseSummary]
