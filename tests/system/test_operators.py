"""What operators decide, from the command line to what participants are shown."""

import csv
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest

from tests.support.platform import Running
from tests.support.waits import until
from tests.system.office import AGENT, GPU, SLUG, WHY, Office

pytestmark = [pytest.mark.platform, pytest.mark.long, pytest.mark.server]


@pytest.fixture(scope="module")
def office(platform: Running, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    """An operator with a problem and a no-op agent of their own."""
    office = Office(platform, tmp_path_factory.mktemp("office"))
    office.publish(1)
    agent = office.hire()
    try:
        yield office
    finally:
        agent.terminate()
        try:
            agent.wait(20)
        except subprocess.TimeoutExpired:
            agent.kill()
            agent.wait(20)


@pytest.fixture(scope="module")
def ranked(office: Office) -> dict[str, int]:
    """Two rivals' numbers, by their names, the best first."""
    numbers = {}
    for who in ("ada", "grace"):
        said = office.submit(who, "--json", mode="ranked")
        assert said.code == 0, said
        numbers[who] = said.json["submissions"][0]["number"]
    return {who: numbers[who] for who in until(office.board) if who in numbers}


@pytest.mark.feature("A1")
def test_a_paused_intake_says_why_until_it_is_resumed(office: Office) -> None:
    office.do("admin", "intake", "pause", "--reason", "a new disk")
    refused = office.submit("ada")
    assert (refused.code, "a new disk" in refused.err) == (2, True)
    assert "intake is paused: a new disk" in office.do("status").out
    office.admin("intake", "resume")
    assert office.submit("ada").code == 0


def test_a_class_is_created_once_with_a_link_for_each(office: Office, tmp_path: Path) -> None:
    roster, links = tmp_path / "class.csv", tmp_path / "links.csv"
    roster.write_text("name,role,limits\nc_ada,creator,\nC Grace,boss,ranked=often\nc_ada,,\n")
    command = ("admin", "participant", "invite", roster, "--limit", "ranked=3/day", *WHY)
    refused = office.say(*command, "--output", links)
    assert (refused.code, links.exists()) == (2, False)
    for wrong in ("line 3, name", "line 3, role", "line 3, limits", "line 4, name: 'c_ada'"):
        assert wrong in refused.err, refused.err
    roster.write_text("name,role,limits\nc_ada,creator,\nc_grace,,test=0/week\n")
    office.do(*command, "--output", links)
    assert links.stat().st_mode & 0o777 == 0o600
    rows = list(csv.DictReader(links.read_text().splitlines()))
    assert [(row["name"], row["role"], row["state"]) for row in rows] == [
        ("c_ada", "creator", "created"),
        ("c_grace", "participant", "created"),
    ]
    assert len({row["link"] for row in rows if httpx.get(row["link"]).status_code == 200}) == 2
    assert office.say(*command, "--output", links).code == 2, "it would overwrite the links"
    office.do(*command, "--output", tmp_path / "again.csv")
    again = list(csv.DictReader((tmp_path / "again.csv").read_text().splitlines()))
    assert [(row["state"], row["link"]) for row in again] == [("exists", "")] * 2
    shown = office.do("admin", "participant", "show", "c_ada").out
    assert "creator" in shown
    assert office.submit("c_grace").code == 4, "her limit of tests is 0"


def test_who_took_all_of_a_quota_is_told_by_exit_code_4(office: Office) -> None:
    limit = ("quota", "set", f"{SLUG}.{GPU}.test", "--participant", "carol", "--limit")
    office.admin(*limit, 1)
    first, second = office.submit("carol"), office.submit("carol")
    assert (first.code, second.code) == (0, 4)
    assert f"1 of 1 of {SLUG}.{GPU}.test are used" in second.err
    (left,) = office.do("submission", "quota", SLUG, "--gpu", GPU, "--as", "carol", "--json").json[
        "items"
    ]
    assert (left["used"], left["remaining"]) == (1, 0)
    office.admin(*limit, "none")
    assert office.submit("carol").code == 0


def test_a_cancelled_submission_gives_its_quota_back(office: Office) -> None:
    office.admin("quota", "set", f"{SLUG}.{GPU}.test", "--participant", "dave", "--limit", 1)
    office.do("admin", "pool", "pause", GPU, "--reason", "times drift")
    number = office.waiting("dave")
    until(lambda: "times drift" in office.do("submission", "show", number, "--as", "dave").out)
    assert (
        "SubmissionCancelRequested" in office.do("submission", "cancel", number, "--as", "dave").out
    )
    ended = until(lambda: (found := office.submission(number, "dave"))["is_over"] and found)
    assert (ended["outcome"], ended["code"]) == ("cancelled", "cancelled")
    office.admin("pool", "resume", GPU)
    until(lambda: office.submit("dave").code == 0)


def test_the_next_best_stands_while_the_best_is_disqualified(
    office: Office, ranked: dict[str, int]
) -> None:
    best, second = ranked
    office.admin("submission", "disqualify", ranked[best], "--rule", "no caching")
    until(lambda: office.board() == [second])
    moment = datetime.now(UTC).isoformat()
    assert "no caching" in office.do("admin", "moderation", "--all", "--wide").out
    shown = office.submission(ranked[best], best)["ranking"]
    assert (shown["status"], shown["reason"]) == ("removed", WHY[1])
    office.admin("submission", "restore", ranked[best])
    until(lambda: office.board() == [best, second])
    # The past is read from the archive, which may follow the leaderboard.
    until(lambda: office.board("--as-of", moment) == [second])


@pytest.mark.feature("N10")
def test_an_accepted_appeal_lifts_a_hold(office: Office, ranked: dict[str, int]) -> None:
    best, second = ranked
    number = ranked[best]
    office.admin("submission", "hold", number, "--rule", "no caching")
    until(lambda: office.board() == [second])
    assert office.say("submission", "appeal", number, "look again", "--as", second).code == 2
    office.do("submission", "appeal", number, "look again", "--as", best)
    until(lambda: "filed" in office.do("admin", "moderation").out)
    office.do("admin", "submission", "decide-appeal", number, "accept", *WHY)
    until(lambda: office.board() == [best, second])
    assert f"appeal accepted: {WHY[1]}" in office.do("submission", "show", number, "--as", best).out


@pytest.mark.feature("A4")
def test_who_is_banned_is_off_the_leaderboard_until_the_ban_ends(
    office: Office, ranked: dict[str, int]
) -> None:
    best, _ = ranked
    office.admin("participant", "ban", best, "--until", "2999-01-01T00:00:00Z")
    until(lambda: best not in office.board())
    refused = office.submit(best)
    assert (refused.code, WHY[1] in refused.err) == (2, True)
    office.admin("participant", "unban", best)
    until(lambda: best in office.board())
    assert office.submit(best).code == 0


@pytest.mark.parametrize(("act", "standing"), [("cordon", "cordoned"), ("drain", "drained")])
def test_who_waits_for_a_held_agent_is_told_so(office: Office, act: str, standing: str) -> None:
    office.do("agent", act, AGENT, "--reason", "its times drift")
    until(lambda: office.agent()["standing"] == standing)
    number = office.waiting("erin")
    until(lambda: standing in (office.submission(number, "erin")["queue"]["why"] or ""))
    until(lambda: standing in office.do("submission", "queue", "--gpu", GPU).out)
    assert f"agent {AGENT} is {standing}: its times drift" in office.do("status").out
    office.decide("agent", "release", AGENT)
    assert office.do("submission", "show", number, "--wait", "--as", "erin").code == 0


def test_a_pool_has_one_canary_that_has_passed(office: Office, ranked: dict[str, int]) -> None:
    canary = ("admin", "pool", "canary", GPU, "--submission")
    assert "CanaryChosen" in office.do(*canary, next(iter(ranked.values()))).out
    assert office.say(*canary, 999_999).code == 2
    office.admin("pool", "no-canary", GPU)


def test_a_collection_of_blobs_says_what_it_did(office: Office) -> None:
    assert office.do("server", "gc", "--json").json["is_trial"] is True
    done = office.do("server", "gc", "--apply", "--json", *WHY).json
    assert (done["is_trial"], done["removed"]) == (False, 0)


@pytest.mark.feature("N11")
def test_a_rejudge_is_seen_before_it_counts(office: Office, ranked: dict[str, int]) -> None:
    office.publish(2)
    until(lambda: office.board() == [])
    started = office.do("problem", "rejudge", "start", SLUG, "--json", *WHY).json
    assert (started["count"], started["to_version"]) == (2, 2)
    show = ("problem", "rejudge", "show", started["id"])
    until(lambda: office.do(*show, "--json").json["state"] == "previewed")
    page = office.do(*show).out
    assert "of 2 submissions change" in page
    assert all(str(number) in page for number in ranked.values())
    assert office.board() == []
    office.do("problem", "rejudge", "apply", started["id"], *WHY)
    until(lambda: office.board() == list(ranked))
    assert "applied" in office.do("problem", "rejudge", "list").out


def test_a_trace_names_who_did_what(office: Office, ranked: dict[str, int]) -> None:
    number = next(iter(ranked.values()))
    page = office.do("submission", "trace", number, "--operator", "olga").out
    for words in ("SubmissionReceived", "JobAssigned", "RunCompleted", "SubmissionRanked"):
        assert words in page
    for actor in ("service:scheduler", f"agent:{AGENT}", "service:ranker"):
        assert actor in page


def test_nothing_was_given_up(office: Office) -> None:
    assert office.do("admin", "deadletter", "list", "--json").json == {"items": []}
