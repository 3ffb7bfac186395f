"""What participants are called: an operator may change it, and a name keeps its account."""

import pytest

from tests.support.door import Door

pytestmark = pytest.mark.server


async def test_a_former_name_still_leads_to_its_account(door: Door) -> None:
    for name in ("ada", "grace"):
        await door.admin("POST", "participants", name=name, reason="known")
    participants = (await door.admin("GET", "participants")).json()
    ids = {item["name"]: item["participant_id"] for item in participants["items"]}
    assert participants["next_after"] is None
    change = {"name": "lovelace", "reason": "they asked for it"}
    answer = await door.admin("PUT", "participants/ada/name", **change)
    assert answer.json()["participant_id"] == ids["ada"], answer.text
    for name in ("ada", "lovelace"):
        participant = (await door.admin("GET", f"participants/{name}")).json()
        assert participant["participant_id"] == ids["ada"]
    known = await door.admin("POST", "participants", name="ada", reason="again")
    assert (known.status_code, known.json()["participant_id"]) == (200, ids["ada"])
    for taken in ("ada", "lovelace"):
        answer = await door.admin("PUT", "participants/grace/name", name=taken, reason="r")
        assert (answer.status_code, answer.json()["code"]) == (409, "name_taken")
    # What was one's own may be so again.
    answer = await door.admin("PUT", "participants/lovelace/name", **{**change, "name": "ada"})
    assert answer.status_code == 200, answer.text
    page = (await door.admin("GET", "participants?limit=1")).json()
    next_page = (await door.admin("GET", f"participants?after={page['next_after']}")).json()
    named = {item["name"]: item["participant_id"] for item in page["items"] + next_page["items"]}
    assert named == ids
    answer = await door.admin("PUT", "participants/nobody/name", **change)
    assert answer.status_code == 404
    answer = await door.admin("GET", "participants?after=%00")
    assert answer.status_code == 422, answer.text
    assert [item["field"] for item in answer.json()["errors"]] == ["after"]
