"""The public history of a submission."""

from msgspec import structs

from ranker.domain.history import OWNER_FIELDS, PUBLIC_FIELDS, make_public_history
from shared import events, subjects
from shared.event_log import RecordedEvent
from shared.events import CATALOGUE, Fact, SubmissionFinished
from shared.wire import EventMetadata, make_envelope
from tests.support.lives import T0, Life


def recorded(*facts: tuple[str, Fact]) -> list[RecordedEvent]:
    stamp = EventMetadata("e", T0, "service:test", "s1", "")
    return [
        RecordedEvent(seq, make_envelope(fact, aggregate, stamp))
        for seq, (aggregate, fact) in enumerate(facts, 1)
    ]


def ended(**fields: object) -> list[RecordedEvent]:
    plain: dict[str, object] = {"outcome": "passed", "is_eligible": True, "code": "ranked"}
    fact = SubmissionFinished(**(plain | {"reason": "", "score_us": 5.0} | fields))  # type: ignore[arg-type]
    return recorded((subjects.submission("s1"), fact))


def name(mode: str = "ranked", **fields: object) -> str:
    (event,) = make_public_history(ended(**fields), mode, is_own=True)
    return str(event["type"])


def test_what_is_told_has_its_place_in_the_log_and_holes_never_shift() -> None:
    history = recorded(*Life("s1").facts())
    own = make_public_history(history, "ranked", is_own=True)
    others = make_public_history(history, "ranked", is_own=False)
    assert [item["id"] for item in own] == [1, 2, 4, 5]
    places = {item["id"]: item["type"] for item in own}
    assert {other["id"]: other["type"] for other in others}.items() <= places.items()
    assert {"SubmissionReceived", "JobAssigned", "RunCompleted"} <= set(places.values())


def test_the_owner_is_told_the_stages_with_the_verdict() -> None:
    history = recorded(*Life("s1").facts())
    (own,) = [
        o
        for o in make_public_history(history, "ranked", is_own=True)
        if o["type"] == "RunCompleted"
    ]
    assert [(stage.stage, stage.verdict) for stage in own["stages"]] == [("check", "passed")]
    (others,) = [
        o
        for o in make_public_history(history, "ranked", is_own=False)
        if o["type"] == "RunCompleted"
    ]
    assert "stages" not in others


def test_an_end_is_named_by_what_was_decided() -> None:
    assert name() == "SubmissionRanked"
    assert name(is_eligible=False, code="check_failed") == "SubmissionNotRanked"
    assert name(is_held=True) == "SubmissionHeld"
    assert name(outcome="cancelled", is_eligible=False) == "SubmissionCancelled"
    assert name("test", is_eligible=False) == "SubmissionEnded"


def test_an_end_says_so_with_its_score_in_seconds() -> None:
    (event,) = make_public_history(ended(), "ranked", is_own=False)
    assert (event["is_over"], event["is_eligible"], event["score_us"]) == (True, True, 5.0)


def test_others_are_told_no_more_than_the_owner_and_no_texts() -> None:
    for type_, names in PUBLIC_FIELDS.items():
        assert set(names) <= set(OWNER_FIELDS[type_])
        assert not {"reason", "rule", "name", "agent"} & set(names)


def test_every_field_that_is_told_is_one_of_its_event() -> None:
    for type_, names in OWNER_FIELDS.items():
        assert set(names) <= set(CATALOGUE[type_].__struct_fields__), type_


def test_no_key_source_or_case_of_a_run_is_told() -> None:
    text = str(make_public_history(recorded(*Life("s1").facts()), "ranked", is_own=True))
    assert "size=1" not in text
    assert "'key'" not in text
    assert "digest" not in text


def test_an_event_that_nobody_can_read_is_told_to_nobody() -> None:
    (event,) = recorded((subjects.submission("s1"), events.SubmissionCancelRequested(reason="")))
    broken = structs.replace(event.envelope, v=99)
    assert make_public_history([event._replace(envelope=broken)], "ranked", is_own=True) == []
