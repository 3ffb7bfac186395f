"""Every event version that was ever in a log decodes for ever.

`tests/golden/<Type>.v<N>.json` are added, never edited; a new version brings a new file, and so
does a field added to a version: `<Type>.v<N>.2.json`, `.3.json`, each with every field of its day.
A log begins with what the first files hold: no older shape was ever released.
"""

import re
from pathlib import Path

import msgspec
import pytest

from shared.events import CATALOGUE
from shared.wire import decode, decode_fact
from tests.support.examples import example_event
from tests.support.releases import last_release, read_release

GOLDEN = Path(__file__).parent.parent / "golden"
FILES = sorted(GOLDEN.glob("*.json"))
NAME = re.compile(r"(?P<type>\w+)\.v(?P<v>\d+)(\.(?P<shape>\d+))?\.json\Z")


def holds(now: object, then: object) -> bool:
    """Return whether the new data contains all of the old data, at every depth."""
    if isinstance(then, dict) and isinstance(now, dict):
        return all(key in now and holds(now[key], value) for key, value in then.items())
    if isinstance(then, list) and isinstance(now, list):
        return len(now) == len(then) and all(map(holds, now, then))
    return now == then


def newest(name: str) -> Path:
    """Return the golden file of a type's newest version in its newest shape."""
    version = CATALOGUE[name].version
    files = [(NAME.match(path.name), path) for path in GOLDEN.glob(f"{name}.v{version}.*")]
    assert files, f"write tests/golden/{name}.v{version}.json, an event as the log stores it"
    return max((int(match["shape"] or 1), path) for match, path in files if match)[1]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_golden_event_still_says_what_it_said(path: Path) -> None:
    envelope = decode(path.read_bytes())
    match = NAME.match(path.name)
    assert match is not None
    assert (match["type"], int(match["v"])) == (envelope.type, envelope.v)
    now = msgspec.json.decode(msgspec.json.encode(decode_fact(envelope)))
    assert holds(now, msgspec.json.decode(envelope.data))


@pytest.mark.parametrize("name", sorted(CATALOGUE))
def test_the_newest_golden_file_holds_every_field(name: str) -> None:
    envelope = decode(newest(name).read_bytes())
    assert decode_fact(envelope) == example_event(CATALOGUE[name])


def test_the_events_of_the_last_release_keep_their_meaning() -> None:
    with read_release(last_release(), "tests/golden") as archive:
        files = [member for member in archive if member.isfile()]
        assert files
        for member in files:
            stored = archive.extractfile(member)
            assert stored is not None
            assert (GOLDEN / Path(member.name).name).read_bytes() == stored.read(), member.name
