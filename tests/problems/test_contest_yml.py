"""A contest.yml becomes a definition, or one error that names the field and the fix."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from shared.contests.definition import (
    find_moved_times,
    is_registration_open,
    may_change_team,
    next_phase,
    phase_at,
    phase_names,
    round_at,
)
from shared.errors import Refused
from shared.problems.contest_yml import ContestFile, read_contest_yml

CONTESTS = Path(__file__).parent / "contests"
TERMS = {"terms.md": b"Be fair.\n"}


def contest_fields() -> dict[str, Any]:
    """Return a contest of teams with a qualifier and finals, as its file has it."""
    return {
        "slug": "winter-cup",
        "title": "Winter cup",
        "terms": "terms.md",
        "organisers": ["ada"],
        "zone": "Europe/Berlin",
        "teams": {"size_max": 3, "changes_until": "2027-03-05 18:00"},
        "divisions": [
            {"slug": "assisted", "title": "Assisted", "declare": ["model", "tools"]},
            {"slug": "alone", "title": "By hand"},
        ],
        "phases": [
            {"kind": "registration", "starts": "2027-03-01 09:00", "ends": "2027-03-03 09:00"},
            {
                "kind": "qualifier",
                "starts": "2027-03-04 09:00",
                "modes": ["test", "ranked"],
                "quotas": {"test": 100, "ranked": 10},
            },
            {"kind": "freeze", "starts": "2027-03-06 09:00", "ranks": "frozen"},
            {"kind": "finals", "starts": "2027-03-07 09:00", "ends": "2027-03-08 09:00"},
            {"kind": "review", "starts": "2027-03-08 09:00"},
            {"kind": "archive", "starts": "2027-03-12T09:00+00:00", "sources": "public"},
        ],
        "problems": [
            {"slug": "matmul", "weight": 2.0},
            {"slug": "sort", "ends": "2027-03-05 09:00"},
            {
                "slug": "last",
                "round": "finals",
                "scoring": {"by": "expression", "expression": "100 * best_us / time_us"},
            },
        ],
        "finalists": 10,
    }


def read(fields: Mapping[str, Any]) -> ContestFile:
    """Read a contest.yml with these fields."""
    return read_contest_yml(json.dumps(fields).encode(), TERMS)


def test_times_are_in_the_zone_of_the_file_and_windows_are_those_of_the_round() -> None:
    contest = read(contest_fields()).contest
    assert contest.starts_at == datetime(2027, 3, 1, 8, tzinfo=UTC)
    assert contest.register_until_at == datetime(2027, 3, 3, 8, tzinfo=UTC)
    matmul, sort, last = contest.problems
    assert matmul.starts_at == sort.starts_at == datetime(2027, 3, 4, 8, tzinfo=UTC)
    assert matmul.ends_at == datetime(2027, 3, 7, 8, tzinfo=UTC), "a freeze extends the round"
    assert sort.ends_at == datetime(2027, 3, 5, 8, tzinfo=UTC)
    assert last.round == "finals"
    assert matmul.scoring.points[:2] == [25, 18]


def test_a_definition_survives_the_log() -> None:
    contest = read(contest_fields()).contest
    assert msgspec.json.decode(msgspec.json.encode(contest), type=type(contest)) == contest


def test_a_phase_includes_its_start_and_excludes_its_end() -> None:
    contest = read(contest_fields()).contest
    tick = timedelta(microseconds=1)
    for phase, following in zip(contest.phases, [*contest.phases[1:], None], strict=True):
        before = phase_at(contest, phase.starts_at - tick)
        assert before is None or before.kind != phase.kind
        assert phase_at(contest, phase.starts_at) == phase
        if phase.ends_at is not None:
            assert phase_at(contest, phase.ends_at - tick) == phase
            assert phase_at(contest, phase.ends_at) != phase
        assert next_phase(contest, phase.starts_at) == following
    assert phase_at(contest, datetime(2027, 3, 3, 12, tzinfo=UTC)) is None
    assert phase_at(contest, datetime(2099, 1, 1, tzinfo=UTC)) == contest.phases[-1]


def test_a_freeze_belongs_to_the_round_before_it() -> None:
    contest = read(contest_fields()).contest
    assert phase_names(contest)[2] == "freeze-qualifier"
    assert [round_at(contest, phase.starts_at) for phase in contest.phases] == [
        None,
        "qualifier",
        "qualifier",
        "finals",
        None,
        None,
    ]


def test_registration_and_changes_of_teams_end_when_the_file_says() -> None:
    contest = read(contest_fields()).contest
    for is_open, until_at in (
        (is_registration_open, contest.register_until_at),
        (may_change_team, datetime(2027, 3, 5, 17, tzinfo=UTC)),
    ):
        assert is_open(contest, contest.starts_at)
        assert not is_open(contest, contest.starts_at - timedelta(microseconds=1))
        assert is_open(contest, until_at - timedelta(microseconds=1))
        assert not is_open(contest, until_at)


def test_moved_times_are_named_as_in_the_file() -> None:
    fields = contest_fields()
    before = read(fields).contest
    fields["phases"][2]["starts"] = "2027-03-06 12:00"
    fields["phases"][1]["ends"] = "2027-03-06 09:00"
    moved = find_moved_times(before, read(fields).contest)
    assert [(item.name, item.from_at, item.to_at) for item in moved] == [
        (
            "phases.freeze-qualifier.starts",
            datetime(2027, 3, 6, 8, tzinfo=UTC),
            datetime(2027, 3, 6, 11, tzinfo=UTC),
        )
    ]
    assert find_moved_times(before, before) == []


def change(path: str, value: object) -> dict[str, Any]:
    """Return the fields of the contest with one of them changed; None removes it."""
    fields: Any = contest_fields()
    *parents, last = path.split(".")
    place = fields
    for part in parents:
        place = place[int(part) if part.isdigit() else part]
    if value is None:
        del place[last]
    else:
        place[int(last) if last.isdigit() else last] = value
    return dict(fields)


@pytest.mark.parametrize(
    ("path", "value", "field", "text"),
    [
        ("slug", "Winter Cup", "slug", "pattern"),
        ("title", None, "title", "add it"),
        ("title", "Cup \u202egniw", "title", "pattern"),
        ("prices", "a mug", "prices", "did you mean 'prizes'"),
        ("terms", "rules.md", "terms", "write the terms beside contest.yml"),
        ("organisers", [], "organisers", "at least 1"),
        ("organisers", ["ada", "Ada"], "organisers.1", "remove or rename"),
        ("zone", "Europe/Berlim", "zone", "write one such as Europe/Berlin"),
        ("zone", "../etc/passwd", "zone", "write one such as Europe/Berlin"),
        ("phases.0.starts", "1 March", "phases.0.starts", "write YYYY-MM-DD HH:MM"),
        ("phases.0.starts", "2027-03-01T18:00:00.5Z", "phases.0.starts", "fraction of a second"),
        ("phases.0.starts", "2027-02-30 09:00", "phases.0.starts", "day is out of range"),
        ("phases.0.starts", "2027-03-28 02:30", "phases.0.starts", "does not exist"),
        ("phases.0.starts", "2027-10-31 02:30", "phases.0.starts", "occurs twice"),
        ("phases.0.starts", "0001-01-01T00:00+14:00", "phases.0.starts", "write YYYY-MM-DD"),
        ("phases.0.starts", "2027-03-03 09:00", "phases.0.ends", "not after its start"),
        ("phases.0.ends", "2027-03-04 10:00", "phases.1.starts", "move one of them"),
        ("phases.0.kind", "practice", "phases.0.kind", "must be the registration"),
        ("phases.1.kind", "archive", "phases.2.kind", "a freeze follows one of"),
        ("phases.4.kind", "practice", "phases.4.kind", "the order is"),
        ("phases.1.modes", ["fast"], "phases.1.modes.0", "must be 'test'"),
        ("phases.1.quotas", {"fast": 1}, "phases.1.quotas.fast.[key]", "must be 'test'"),
        ("phases.1.ranks", "secret", "phases.1.ranks", "must be 'live'"),
        ("problems.1.slug", "matmul", "problems.1.slug", "remove or rename"),
        ("problems.0.round", "main", "problems.0.round", "there is no phase main"),
        ("problems.2.round", "qualifier", "problems", "the phase finals has no problem"),
        ("problems.1.ends", "2027-03-09 09:00", "problems.1.ends", "outside of the phase"),
        ("problems.1.starts", "2027-03-01 09:00", "problems.1.starts", "outside of the phase"),
        ("problems.1.weight", 0, "problems.1.weight", "greater than 0"),
        (
            "problems.2.scoring",
            {"by": "expression", "expression": "open(1)"},
            "problems.2.scoring.expression",
            "calls 'open'",
        ),
        (
            "problems.2.scoring",
            {"by": "expression", "expression": "100 - rank"},
            "problems.2.scoring.expression",
            "names 'rank'",
        ),
        ("scoring", {"by": "places", "points": [1, 2]}, "scoring.points", "sort them"),
        ("scoring", {"by": "places"}, "scoring.points", "write them"),
        ("divisions.1.slug", "assisted", "divisions.1.slug", "remove or rename"),
        ("teams.size_max", 1, "teams.changes_until", "there are no teams"),
        ("teams.changes_until", "2026-03-05 18:00", "teams.changes_until", "move it"),
        ("register_until", "2026-03-05 18:00", "register_until", "move it"),
        ("finalists", 0, "finalists", "how many are admitted"),
        ("phases.1.kind", "main", "phases", "finals need a qualifier"),
        ("best_of", 4, "best_of", "at most 3"),
        ("ties", ["shared", "shared"], "ties.1", "remove or rename"),
        ("problems", [], "problems", "at least 1"),
    ],
)
def test_a_fault_gets_one_error_with_the_field_and_the_fix(
    path: str, value: object, field: str, text: str
) -> None:
    with pytest.raises(Refused) as refused:
        read(change(path, value))
    assert (refused.value.code, refused.value.field) == ("bad_contest", field)
    assert refused.value.reason.startswith("contest.yml")
    assert text in refused.value.reason


@pytest.mark.parametrize("data", [b"", b"- 1", b"slug: [", b"\xff", b"a: &x 1\nb: *x"])
def test_any_bytes_are_refused_with_a_reason(data: bytes) -> None:
    with pytest.raises(Refused) as refused:
        read_contest_yml(data, TERMS)
    assert refused.value.code == "bad_contest"


def test_terms_must_be_text() -> None:
    for terms in (b"", b"  \n", b"\xff", b"a\0b"):
        with pytest.raises(Refused, match=r"terms\.md"):
            read_contest_yml(json.dumps(contest_fields()).encode(), {"terms.md": terms})


@pytest.mark.parametrize("path", sorted(CONTESTS.glob("*.yml")), ids=lambda path: path.stem)
def test_contests_in_the_shape_of_real_ones_are_valid(path: Path) -> None:
    contest = read_contest_yml(path.read_bytes(), TERMS).contest
    for problem in contest.problems:
        assert round_at(contest, problem.starts_at) == problem.round
        assert round_at(contest, problem.ends_at - timedelta(microseconds=1)) == problem.round
