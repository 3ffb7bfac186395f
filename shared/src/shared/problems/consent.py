"""What a participant accepts before they submit, and the licences of what is passed on."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from shared.problems.document import bad_problem, shown
from shared.problems.sources import Sources
from shared.problems.warpboard_yml import NAME, WarpboardYml

TEXT_BYTES_MAX = 100_000


def consented(sources: Sources, extras: WarpboardYml, files: Mapping[str, bytes]) -> Sources:
    """The files of a version, the text to accept among them. Errors: Refused `bad_problem`."""
    name = extras.consent
    if name is None:
        return sources
    if name not in files:
        raise bad_problem(f"{NAME}: consent {shown(name)} is no file beside it: add it", "consent")
    text = files[name]
    if name == sources.submission or sources.files.get(name, text) != text:
        what = f"{NAME}: consent {shown(name)} is there with another text: rename one of them"
        raise bad_problem(what, "consent")
    _check(name, text)
    return replace(sources, files={**sources.files, name: text})


def _check(name: str, text: bytes) -> None:
    if len(text) > TEXT_BYTES_MAX:
        what = f"{name} has {len(text):,} bytes: a text to accept has at most {TEXT_BYTES_MAX:,}"
        raise bad_problem(what, "consent")
    try:
        said = text.decode()
    except UnicodeDecodeError as error:
        raise bad_problem(f"{name} is not UTF-8 at byte {error.start}: save it so", name) from error
    if not said.strip():
        raise bad_problem(f"{name} is empty: write what is to be accepted", "consent")


def of_consent(extras: WarpboardYml) -> dict[str, Any]:
    """What a manifest says of it; nothing where there is nothing to accept.

    So the digest of a problem without it is what it was before there could be any.
    """
    found: dict[str, Any] = {} if extras.consent is None else {"consent": extras.consent}
    licence = extras.licence.model_dump(exclude_none=True)
    return found | ({"licence": licence} if licence else {})
