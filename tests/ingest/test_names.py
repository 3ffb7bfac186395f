"""What participants are called: an operator may change it, and a name keeps its account."""

import pytest

from tests.support.door import Door

pytestmark = pytest.mark.server


async def test_a_name_that_was_changed_leads_to_its_account_for_ever(door: Door) -> None:
    for name in ("ada", "grace"):
        await door.admin("POST", "participants", name=name, reason="known")
    listed = (await door.admin("GET", "participants")).json()
    ids = {one["name"]: one["participant_id"] for one in listed["items"]}
    assert listed["next_after"] is None
    said = {"name": "lovelace", "reason": "they asked for it"}
    answer = await door.admin("PUT", "participants/ada/name", **said)
    assert answer.json()["participant_id"] == ids["ada"], answer.text
    for name in ("ada", "lovelace"):
        seen = (await door.admin("GET", f"participants/{name}")).json()
        assert seen["participant_id"] == ids["ada"]
    known = await door.admin("POST", "participants", name="ada", reason="again")
    assert (known.status_code, known.json()["participant_id"]) == (200, ids["ada"])
    for taken in ("ada", "lovelace"):
        answer = await door.admin("PUT", "participants/grace/name", name=taken, reason="r")
        assert (answer.status_code, answer.json()["code"]) == (409, "name_taken")
    # What was one's own may be so again.
    answer = await door.admin("PUT", "participants/lovelace/name", **{**said, "name": "ada"})
    assert answer.status_code == 200, answer.text
    page = (await door.admin("GET", "participants?limit=1")).json()
    rest = (await door.admin("GET", f"participants?after={page['next_after']}")).json()
    named = {one["name"]: one["participant_id"] for one in page["items"] + rest["items"]}
    assert named == ids
    answer = await door.admin("PUT", "participants/nobody/name", **said)
    assert answer.status_code == 404
    answer = await door.admin("GET", "participants?after=%00")
    assert answer.status_code == 422, answer.text
    assert [one["field"] for one in answer.json()["errors"]] == ["after"]
