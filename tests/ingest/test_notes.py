"""What participants say of their submissions for themselves: kept beside the log."""

import pytest

from tests.ingest.conftest import shares_a_door
from tests.support.door import ADA, KERNEL_FILE, Door
from tests.support.holders import code
from tests.support.memory_stores import MemoryAccountStore

KEYED = ADA | {"Idempotency-Key": "k1"}
GRACE = {"Warpboard-Participant": "grace"}


def notes(door: Door) -> list[tuple[str | None, str | None]]:
    assert isinstance(door.stores.people, MemoryAccountStore)
    return [(note.note, note.tag) for note in door.stores.people.notes.values()]


@pytest.mark.feature("P18", "N7")
async def test_a_note_is_stored_and_in_no_event(door: Door) -> None:
    answer = await door.submit(note="tiles of 64 x 64", tag="tiles")
    assert answer.status_code == 202, answer.text
    assert notes(door) == [("tiles of 64 x 64", "tiles")]
    assert "tiles" not in str(door.log.since(0))


async def test_every_submission_of_a_request_has_its_note(door: Door) -> None:
    fields: dict[str, str | list[str]] = {"gpu": ["CPU", "H100"], "tag": "both"}
    assert (await door.ask(fields)).status_code == 202
    assert notes(door) == [(None, "both")] * 2


async def test_a_repeat_keeps_a_changed_note(door: Door) -> None:
    first = await door.submit(headers=KEYED, note="one")
    path = first.json()["submissions"][0]["links"]["self"] + "/note"
    answer = await door.http.put(path, json={"note": "two", "tag": "v2"}, headers=ADA)
    assert answer.json()["note"] == "two"
    again = await door.submit(headers=KEYED, note="one")
    assert again.json()["replayed"] is True
    assert notes(door) == [("two", "v2")]


async def test_a_key_with_another_note_is_refused(door: Door) -> None:
    await door.submit(headers=KEYED, note="one")
    answer = await door.submit(headers=KEYED, note="two")
    assert code(answer) == (422, "idempotency_key_reused")


async def test_a_note_can_be_removed(door: Door) -> None:
    number = await door.number(note="one", tag="v1")
    answer = await door.http.put(f"/v1/submissions/{number}/note", json={}, headers=ADA)
    assert answer.json() == {"number": number, "note": None, "tag": None}
    assert notes(door) == [(None, None)]


async def test_nobody_writes_notes_on_submissions_of_others(door: Door) -> None:
    number = await door.number()
    body = {"note": "mine"}
    answer = await door.http.put(f"/v1/submissions/{number}/note", json=body, headers=GRACE)
    assert code(answer) == (403, "not_yours")
    assert notes(door) == []


@shares_a_door
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("note", "x" * 501),
        ("note", "two\nlines"),
        ("note", "\x1b[31mred"),
        ("note", "\u202egnippilf"),
        ("tag", "Upper"),
        ("tag", "-first"),
        ("tag", "x" * 33),
        ("tag", "two words"),
    ],
)
async def test_an_invalid_note_is_refused_by_field(
    shared_door: Door, field: str, value: str
) -> None:
    sent = await shared_door.http.post(
        "/v1/submissions",
        data={"problem": "copy", "mode": "test", "gpu": "CPU", field: value},
        files=KERNEL_FILE,
        headers=ADA,
    )
    number = await shared_door.number()
    path = f"/v1/submissions/{number}/note"
    answer_ = await shared_door.http.put(path, json={field: value}, headers=ADA)
    for answer in (sent, answer_):
        assert code(answer) == (422, "invalid_request")
        assert [error["field"] for error in answer.json()["errors"]] == [field]
