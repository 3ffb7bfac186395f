"""An audit finds every way to touch a log, names the first bad event, and explains each row."""

from collections.abc import AsyncIterator, Callable, Sequence
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from ranker.audit.auditing import Live, Question, audit
from ranker.domain.kept import Kept
from ranker.domain.report import Report
from ranker.domain.scrutiny import Finding, Published
from shared import events, subjects
from shared.errors import Refused
from shared.signing import load_key, verify
from tests.ranker.audited import Town, chained
from tests.support.lives import AGENT, T0, Life, ShortLife

ADA = Life("s1", time_us=100.0)
GRACE = ShortLife("s2", account="grace", time_us=50.0)


class List:
    """A copy of the log in memory."""

    def __init__(self, rows: Sequence[Kept]) -> None:
        self.rows = rows

    def findings(self) -> Sequence[Finding]:
        """A list is never damaged."""
        return []

    async def events(self) -> AsyncIterator[Kept]:
        """Every row."""
        for row in self.rows:
            yield row


@pytest.fixture
async def town(tmp_path: Path) -> Town:
    town = await Town(tmp_path).found()
    await town.live(ADA)
    await town.seal()
    await town.live(GRACE)
    return town


async def asked(town: Town, rows: Sequence[Kept] | None = None, live: Live | None = None) -> Report:
    question = Question("identity", "CPU", keys=[town.seal_key])
    copy = List(town.rows() if rows is None else rows)
    return await audit(question, copy, verify, live)


def seq_of(town: Town, kind: str, place: int = 0) -> int:
    found = [one.seq for one in town.log.since(0) if one.envelope.type == kind]
    return found[place]


async def test_an_untouched_log_is_clean_and_every_row_is_explained(town: Town) -> None:
    report = await asked(town)
    assert (report.findings, report.seals, report.verified) == ([], 1, 2)
    first, second = report.rows
    assert [first.row.submission, second.row.submission] == ["s2", "s1"]
    assert [one.type for one in second.reasons] == [
        "ProblemPublished",
        "SubmissionReceived",
        "JobLeased",
        "RunCompleted",
        "SubmissionFinished",
    ]
    assert "it may be ranked: 100.000 us" in second.reasons[-1].sentence
    text = "\n".join(report.lines())
    assert "clean: the leaderboard is what the log says" in text
    assert f"{second.reasons[-1].seq} 2026-01-01T00:00:00+00:00 SubmissionFinished" in text


def flipped(row: Kept) -> Kept:
    body = bytearray(row.body)
    place = body.index(b"actor") + 12
    body[place] ^= 1
    return row._replace(body=bytes(body))


async def test_one_flipped_bit_of_an_archived_body_is_named(town: Town) -> None:
    rows = town.rows()
    rows[3] = flipped(rows[3])
    report = await asked(town, rows)
    assert [one.seq for one in report.findings] == [4]
    assert "hash chain breaks here" in report.findings[0].what
    assert "first at event 4" in "\n".join(report.lines())


def altered(rows: list[Kept], seq: int, old: bytes, new: bytes) -> list[Kept]:
    body = rows[seq - 1].body
    assert old in body
    rows[seq - 1] = rows[seq - 1]._replace(body=body.replace(old, new))
    return rows


async def test_a_changed_score_breaks_the_chain(town: Town) -> None:
    seq = seq_of(town, "SubmissionFinished")
    report = await asked(town, altered(town.rows(), seq, b'"score_us":100.0', b'"score_us":1.0'))
    assert report.findings[0].seq == seq
    assert not report.is_clean


async def test_whoever_chains_a_changed_score_anew_is_caught_by_the_seal(town: Town) -> None:
    seq = seq_of(town, "SubmissionFinished")
    rows = altered(town.rows(), seq, b'"score_us":100.0', b'"score_us":1.0')
    report = await asked(town, chained(rows))
    sealed = seq_of(town, "AuditSealed") - 1
    assert Finding(sealed, f"the chain is not the one that event {sealed + 1} sealed") in (
        report.findings
    )


async def test_a_score_after_the_last_seal_must_follow_from_its_signed_run(town: Town) -> None:
    seq = seq_of(town, "SubmissionFinished", 1)
    rows = altered(town.rows(), seq, b'"score_us":50.0', b'"score_us":1.0')
    report = await asked(town, chained(rows))
    assert [one.seq for one in report.findings] == [seq]
    assert "does not follow from its run" in report.findings[0].what


@pytest.mark.parametrize(
    "changed",
    [
        (b'"delta":0.003', b'"delta":0.9'),
        (b'"freedom":0', b'"freedom":9'),
        (b'"error":null', b'"error":0.5'),
    ],
)
async def test_how_sure_a_score_is_must_follow_from_its_run_too(
    town: Town, changed: tuple[bytes, bytes]
) -> None:
    seq = seq_of(town, "SubmissionFinished", 1)
    report = await asked(town, chained(altered(town.rows(), seq, *changed)))
    assert [one.seq for one in report.findings] == [seq]


async def test_a_changed_verdict_has_no_signature(town: Town) -> None:
    seq = seq_of(town, "RunCompleted", 1)
    rows = altered(town.rows(), seq, b'"time_us":50.0', b'"time_us":10.0')
    report = await asked(town, chained(rows))
    assert report.findings == [Finding(seq, f"the run's signature is not that of agent {AGENT}")]


@pytest.mark.parametrize("chain_anew", [lambda rows: rows, chained], ids=["as is", "chained anew"])
async def test_a_dropped_event_is_named(
    town: Town, chain_anew: Callable[[list[Kept]], list[Kept]]
) -> None:
    rows = town.rows()
    del rows[4]
    report = await asked(town, chain_anew(rows))
    assert report.findings[0] == Finding(5, "the event is missing: after 4 comes 6")


async def test_a_run_signed_with_another_key_is_named(town: Town, tmp_path: Path) -> None:
    thief = load_key(tmp_path / "thief.key")
    await town.live(Life("s3", account="eve", time_us=1.0), key=thief)
    report = await asked(town)
    seq = seq_of(town, "RunCompleted", 2)
    assert report.findings == [Finding(seq, f"the run's signature is not that of agent {AGENT}")]


async def test_a_run_of_an_agent_that_was_revoked_is_named(town: Town) -> None:
    await town.say(subjects.agent(AGENT), events.AgentRevoked(reason="stolen"))
    await town.live(Life("s3", account="eve"))
    report = await asked(town)
    assert [one.what for one in report.findings] == [
        f"agent {AGENT} is not enrolled or was revoked, so nobody vouches for its run"
    ]


async def test_a_result_without_any_run_is_named(town: Town) -> None:
    life = Life("s3", account="eve", time_us=1.0)
    await town.say(*life.facts()[0])
    await town.end(life)
    report = await asked(town)
    assert [one.what for one in report.findings] == [
        "it counts, but no leased run run-s3 ended before it"
    ]


async def test_what_does_not_count_needs_no_signature(town: Town, tmp_path: Path) -> None:
    await town.live(Life("s3", account="eve"), key=load_key(tmp_path / "thief.key"))
    await town.say(
        subjects.moderation("s3"), events.SubmissionDisqualified(rule="forged", reason="a thief")
    )
    assert (await asked(town)).is_clean


async def test_a_seal_with_another_key_is_named(town: Town, tmp_path: Path) -> None:
    await town.seal(load_key(tmp_path / "thief.key"))
    report = await asked(town)
    assert [one.what for one in report.findings] == ["the seal is not signed with a known key"]


async def test_a_log_that_was_cut_short_is_caught_by_a_published_seal(town: Town) -> None:
    rows = town.rows()
    last = rows[-1]
    assert last.h is not None
    published = Published(last.seq, last.h.hex())
    question = Question("identity", "CPU", published=[published])
    assert (await audit(question, List(rows), verify)).is_clean
    report = await audit(question, List(rows[:-2]), verify)
    assert [one.seq for one in report.findings] == [last.seq - 1]
    assert "the log ends" in report.findings[0].what
    other = Question("identity", "CPU", published=[Published(3, "00")])
    assert (await audit(other, List(rows), verify)).findings[0].seq == 3


async def test_an_event_that_was_moved_to_another_subject_is_named(town: Town) -> None:
    rows = town.rows()
    rows[2] = rows[2]._replace(subject="events.submission.other")
    assert (await asked(town, rows)).findings[0].seq == 3
    sealed = seq_of(town, "AuditSealed") - 1
    assert (await asked(town, chained(rows))).findings[0].seq == sealed


async def test_an_event_under_another_id_is_named(town: Town) -> None:
    rows = town.rows()
    rows[-1] = rows[-1]._replace(id="other")
    (finding,) = (await asked(town, chained(rows))).findings
    assert finding == Finding(len(rows), "its id is not the one in its body")


async def test_what_lies_among_the_seals_and_is_none_is_named(town: Town) -> None:
    seq = await town.say("audit.seal", events.IntakePaused(reason="not here"))
    (finding,) = (await asked(town)).findings
    assert finding == Finding(seq, "what lies among the seals is none")


async def test_what_is_shown_is_compared_with_what_the_log_says(town: Town) -> None:
    rows = [one.row for one in (await asked(town)).rows]
    entries = [row._asdict() | {"pooled_over": list(row.pooled_over)} for row in rows]
    assert (await asked(town, live=Live(5, T0, entries))).is_clean
    entries[0]["score_us"] = 1.0
    entries[1]["account"] = "eve"
    report = await asked(town, live=Live(5, T0, entries))
    assert report.differences == [
        "ada is missing: the log gives submission 3",
        "eve is shown with submission 3: the log gives no entry",
        "grace: score_us is shown as 1.0, the log gives 50.0",
    ]


async def test_an_audit_of_a_past_moment_folds_what_had_happened(town: Town) -> None:
    seq = seq_of(town, "SubmissionFinished")
    then = Question("identity", "CPU", as_of_seq=seq)
    report = await audit(then, List(town.rows()), verify)
    assert [one.row.submission for one in report.rows] == ["s1"]
    assert (report.seq, report.events) == (seq, len(town.rows()))
    early = Question("identity", "CPU", as_of=T0 - timedelta(seconds=1))
    with pytest.raises(Refused, match="there was no problem"):
        await audit(early, List(town.rows()), verify)


async def test_the_report_is_plain_data(town: Town) -> None:
    data = msgspec.json.decode(msgspec.json.encode((await asked(town)).data()))
    assert data["is_clean"] is True
    assert data["rows"][0]["because"][0]["type"] == "ProblemPublished"


async def test_an_event_that_cannot_be_read_is_named_unless_it_was_skipped(town: Town) -> None:
    broken = msgspec.structs.replace(
        town.envelope("submission.s9", events.SubmissionRejected(code="", reason="")),
        data=msgspec.Raw(b'{"code":1}'),
    )
    seq = await town.append(broken)
    (finding,) = (await asked(town)).findings
    assert finding.seq == seq
    assert finding.what.startswith("the event cannot be folded")
    await town.say(
        subjects.audit("skip"), events.EventSkipped(projection="ranker", seq=seq, reason="")
    )
    assert (await asked(town)).is_clean


async def test_a_leaderboard_that_never_was_is_refused(town: Town) -> None:
    with pytest.raises(Refused, match="identity has no GPU type 'cpu': CPU"):
        await audit(Question("identity", "cpu"), List(town.rows()), verify)
