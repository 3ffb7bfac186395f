"""Every event version ever published decodes for ever.

`tests/golden/<Type>.v<N>.json` are added, never edited; a new version brings a new file.
"""

from pathlib import Path

import msgspec
import pytest

from shared.events import CATALOGUE
from shared.testing import example
from shared.wire import decode, fact_of

GOLDEN = Path(__file__).parent.parent / "golden"
FILES = sorted(GOLDEN.glob("*.json"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_golden_event_still_says_what_it_said(path: Path) -> None:
    envelope = decode(path.read_bytes())
    said = fact_of(envelope)
    assert path.stem == f"{envelope.type}.v{envelope.v}"
    now = msgspec.json.decode(msgspec.json.encode(said))
    assert now.items() >= msgspec.json.decode(envelope.data).items()


@pytest.mark.parametrize("name", sorted(CATALOGUE))
def test_every_event_has_a_golden_file_of_each_version(name: str) -> None:
    kind = CATALOGUE[name]
    missing = [
        f"{name}.v{v}"
        for v in range(1, kind.version + 1)
        if not (GOLDEN / f"{name}.v{v}.json").exists()
    ]
    assert not missing


@pytest.mark.parametrize("name", sorted(CATALOGUE))
def test_the_newest_golden_file_holds_every_field(name: str) -> None:
    kind = CATALOGUE[name]
    envelope = decode((GOLDEN / f"{name}.v{kind.version}.json").read_bytes())
    filled = {field.name for field in msgspec.structs.fields(kind) if field.required}
    assert filled <= msgspec.json.decode(envelope.data).keys()
    assert fact_of(envelope) == example(kind)
