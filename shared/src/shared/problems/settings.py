"""What is said of a problem when it is published, written into its files: another version, then."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shared.problems.document import read_document
from shared.problems.warpboard_yml import NAME, read_warpboard

CONSENT = "CONSENT.md"


@dataclass(frozen=True)
class Settings:
    """Keys of warpboard.yml that are said beside the files; None leaves the files' own.

    `consent` is the text itself. All of it is part of a version, so whoever checks and whoever
    publishes must write in the same.
    """

    title: str | None = None
    ranking_by: str | None = None
    source_visible: str | None = None
    publish: str | None = None
    licence: Mapping[str, str] | None = None
    consent: bytes | None = None

    @property
    def keys(self) -> dict[str, Any]:
        """What they say in a warpboard.yml."""
        consent = None if self.consent is None else CONSENT
        licence = dict(self.licence) if self.licence else None
        said = {
            "title": self.title,
            "ranking_by": self.ranking_by,
            "source_visible": self.source_visible,
            "publish": self.publish,
            "licence": licence,
            "consent": consent,
        }
        return {name: value for name, value in said.items() if value is not None}


UNSAID = Settings()


def with_settings(files: Mapping[str, bytes], said: Settings) -> dict[str, bytes]:
    """A problem's files with the settings in them; the same files where nothing is said.

    Errors: Refused `bad_problem` for a warpboard.yml that is none.

    >>> with_settings({}, Settings(title="Copy"))
    {'warpboard.yml': b'{"title": "Copy"}\\n'}
    """
    if not said.keys:
        return dict(files)
    own: Any = {}
    if NAME in files:
        document = read_document(NAME, files[NAME])
        # What is wrong in it is said by its own lines, which are gone hereafter.
        read_warpboard(document)
        own = document.value or {}
    merged = own | said.keys
    if isinstance(own.get("licence"), dict) and "licence" in said.keys:
        merged["licence"] = own["licence"] | said.keys["licence"]
    # JSON is YAML.
    written = {NAME: json.dumps(merged, ensure_ascii=False).encode() + b"\n"}
    text = {} if said.consent is None else {CONSENT: said.consent}
    return {**files, **text, **written}
