"""An audit finds every change to a log, names the first bad event, and explains each row."""

from collections.abc import AsyncIterator, Callable, Sequence
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
from msgspec import structs

from ranker.audit.leaderboards import LiveLeaderboard, audit
from ranker.audit.report import report_lines
from ranker.domain.stored_log import PublishedSeal, StoredEvent
from shared import events, subjects
from shared.api.audits import AuditReport, AuditRequest, Finding
from shared.errors import Refused
from shared.signing import load_key
from shared.verdicts import verify_verdict
from tests.ranker.audit_platform import AuditPlatform, chain_events
from tests.support.lives import AGENT, T0, Life, problem

ADA = Life("s1", time_us=100.0)
GRACE = Life("s2", account="grace", time_us=50.0)


class OverLimitLife(Life):
    """A run with a metric that is out of bounds."""

    def completed(self) -> events.RunCompleted:
        """The verdict, with the metric."""
        return structs.replace(
            super().completed(), metrics={"peak_memory_mib": 600.0}, over_limit="peak_memory_mib"
        )


class WeightedLife(Life):
    """A run with a second timed case, which is three times as slow and has three times the weight.

    Its score by the mean is 250 µs for a first time of 100 µs; without the weights it were 200 µs.
    """

    def completed(self) -> events.RunCompleted:
        """The verdict, with two timed cases."""
        completed = super().completed()
        (case,) = completed.cases
        slow = structs.replace(
            case, name="size=2", time_us=300.0, interval_us=(270.0, 330.0), weight=3.0
        )
        return structs.replace(completed, cases=[case, slow])


class List:
    """An in-memory copy of the log."""

    def __init__(self, rows: Sequence[StoredEvent]) -> None:
        self.rows = rows

    def findings(self) -> Sequence[Finding]:
        """Always empty."""
        return []

    async def events(self) -> AsyncIterator[StoredEvent]:
        """Every row."""
        for row in self.rows:
            yield row


@pytest.fixture
async def platform(tmp_path: Path) -> AuditPlatform:
    platform = await AuditPlatform(tmp_path).found()
    await platform.live(ADA)
    await platform.seal()
    await platform.live(GRACE)
    return platform


async def run_audit(
    platform: AuditPlatform,
    rows: Sequence[StoredEvent] | None = None,
    live: LiveLeaderboard | None = None,
) -> AuditReport:
    request = AuditRequest("identity", "CPU", keys=[platform.seal_key])
    copy = List(platform.rows() if rows is None else rows)
    return await audit(request, copy, verify_verdict, live)


def seq_of(platform: AuditPlatform, kind: str, place: int = 0) -> int:
    seqs = [event.seq for event in platform.log.since(0) if event.envelope.type == kind]
    return seqs[place]


async def test_an_untouched_log_is_clean_and_every_row_is_explained(
    platform: AuditPlatform,
) -> None:
    report = await run_audit(platform)
    assert (report.findings, report.seals, report.verified_runs) == ([], 1, 2)
    first, second = report.rows
    assert [first.submission, second.submission] == ["s2", "s1"]
    assert [reason.type for reason in second.because] == [
        "ProblemPublished",
        "SubmissionReceived",
        "JobLeased",
        "RunCompleted",
        "SubmissionFinished",
    ]
    assert "it may be ranked: 100.000 us" in second.because[-1].sentence
    text = "\n".join(report_lines(report))
    assert "clean: the leaderboard is what the log says" in text
    assert f"{second.because[-1].seq} 2026-01-01T00:00:00+00:00 SubmissionFinished" in text


def flipped(row: StoredEvent) -> StoredEvent:
    body = bytearray(row.body)
    place = body.index(b"actor") + 12
    body[place] ^= 1
    return row._replace(body=bytes(body))


async def test_one_flipped_bit_of_an_archived_body_is_named(platform: AuditPlatform) -> None:
    rows = platform.rows()
    rows[3] = flipped(rows[3])
    report = await run_audit(platform, rows)
    assert [finding.seq for finding in report.findings] == [4]
    assert "hash chain breaks here" in report.findings[0].what
    assert "first at event 4" in "\n".join(report_lines(report))


def altered(rows: list[StoredEvent], seq: int, old: bytes, new: bytes) -> list[StoredEvent]:
    body = rows[seq - 1].body
    assert old in body
    rows[seq - 1] = rows[seq - 1]._replace(body=body.replace(old, new))
    return rows


async def test_a_changed_score_breaks_the_chain(platform: AuditPlatform) -> None:
    seq = seq_of(platform, "SubmissionFinished")
    report = await run_audit(
        platform, altered(platform.rows(), seq, b'"score_us":100.0', b'"score_us":1.0')
    )
    assert report.findings[0].seq == seq
    assert not report.is_clean


async def test_whoever_chains_a_changed_score_anew_is_caught_by_the_seal(
    platform: AuditPlatform,
) -> None:
    seq = seq_of(platform, "SubmissionFinished")
    rows = altered(platform.rows(), seq, b'"score_us":100.0', b'"score_us":1.0')
    report = await run_audit(platform, chain_events(rows))
    sealed = seq_of(platform, "AuditSealed") - 1
    assert Finding(sealed, f"the chain is not the one that event {sealed + 1} sealed") in (
        report.findings
    )


async def test_a_score_after_the_last_seal_must_follow_from_its_signed_run(
    platform: AuditPlatform,
) -> None:
    seq = seq_of(platform, "SubmissionFinished", 1)
    rows = altered(platform.rows(), seq, b'"score_us":50.0', b'"score_us":1.0')
    report = await run_audit(platform, chain_events(rows))
    assert [finding.seq for finding in report.findings] == [seq]
    assert "does not follow from its run" in report.findings[0].what


@pytest.mark.feature("C9")
async def test_a_score_must_follow_from_the_weights_of_its_cases(platform: AuditPlatform) -> None:
    """The second implementation finds a score that ignores them."""
    version = structs.replace(problem(number=2), ranking_by="mean")
    await platform.tell(subjects.problem("identity"), version)
    life = WeightedLife("s3", "linus", problem_number=2)
    await platform.run(life)
    await platform.end(life, rule="mean")
    assert (await run_audit(platform)).findings == []
    seq = seq_of(platform, "SubmissionFinished", 2)
    rows = altered(platform.rows(), seq, b'"score_us":250.0', b'"score_us":200.0')
    report = await run_audit(platform, chain_events(rows))
    assert [finding.seq for finding in report.findings] == [seq]


@pytest.mark.parametrize(
    "changed",
    [
        (b'"delta":0.003', b'"delta":0.9'),
        (b'"freedom":0', b'"freedom":9'),
        (b'"error":null', b'"error":0.5'),
    ],
)
async def test_how_sure_a_score_is_must_follow_from_its_run_too(
    platform: AuditPlatform, changed: tuple[bytes, bytes]
) -> None:
    seq = seq_of(platform, "SubmissionFinished", 1)
    report = await run_audit(platform, chain_events(altered(platform.rows(), seq, *changed)))
    assert [finding.seq for finding in report.findings] == [seq]


async def test_what_counts_over_a_limit_of_its_problem_is_named(platform: AuditPlatform) -> None:
    await platform.live(OverLimitLife("s4", "linus"))
    report = await run_audit(platform)
    assert ["is over a limit" in finding.what for finding in report.findings] == [True]


async def test_a_submission_for_practice_that_counts_is_named(platform: AuditPlatform) -> None:
    await platform.live(Life("s4", "linus", is_practice=True))
    report = await run_audit(platform)
    assert ["for practice" in finding.what for finding in report.findings] == [True]


async def test_a_changed_verdict_has_no_signature(platform: AuditPlatform) -> None:
    seq = seq_of(platform, "RunCompleted", 1)
    rows = altered(platform.rows(), seq, b'"time_us":50.0', b'"time_us":10.0')
    report = await run_audit(platform, chain_events(rows))
    assert report.findings == [Finding(seq, f"the run's signature is not that of agent {AGENT}")]


@pytest.mark.parametrize(
    "chain_anew", [lambda rows: rows, chain_events], ids=["as is", "chained anew"]
)
async def test_a_dropped_event_is_named(
    platform: AuditPlatform, chain_anew: Callable[[list[StoredEvent]], list[StoredEvent]]
) -> None:
    rows = platform.rows()
    del rows[4]
    report = await run_audit(platform, chain_anew(rows))
    assert report.findings[0] == Finding(5, "the event is missing: after 4 comes 6")


async def test_a_run_signed_with_another_key_is_named(
    platform: AuditPlatform, tmp_path: Path
) -> None:
    thief = load_key(tmp_path / "thief.key")
    await platform.live(Life("s3", account="eve", time_us=1.0), key=thief)
    report = await run_audit(platform)
    seq = seq_of(platform, "RunCompleted", 2)
    assert report.findings == [Finding(seq, f"the run's signature is not that of agent {AGENT}")]


async def test_a_run_of_an_agent_that_was_revoked_is_named(platform: AuditPlatform) -> None:
    await platform.say(subjects.agent(AGENT), events.AgentRevoked(reason="stolen"))
    await platform.live(Life("s3", account="eve"))
    report = await run_audit(platform)
    assert [finding.what for finding in report.findings] == [
        f"agent {AGENT} is not enrolled or was revoked, so nobody vouches for its run"
    ]


async def test_a_result_without_any_run_is_named(platform: AuditPlatform) -> None:
    life = Life("s3", account="eve", time_us=1.0)
    await platform.say(*life.facts()[0])
    await platform.end(life)
    report = await run_audit(platform)
    assert [finding.what for finding in report.findings] == [
        "it counts, but no leased run run-s3 ended before it"
    ]


async def test_what_does_not_count_needs_no_signature(
    platform: AuditPlatform, tmp_path: Path
) -> None:
    await platform.live(Life("s3", account="eve"), key=load_key(tmp_path / "thief.key"))
    await platform.say(
        subjects.moderation("s3"), events.SubmissionDisqualified(rule="forged", reason="a thief")
    )
    assert (await run_audit(platform)).is_clean


async def test_a_seal_with_another_key_is_named(platform: AuditPlatform, tmp_path: Path) -> None:
    await platform.seal(load_key(tmp_path / "thief.key"))
    report = await run_audit(platform)
    assert [finding.what for finding in report.findings] == [
        "the seal is not signed with a known key"
    ]


async def test_a_log_that_was_cut_short_is_caught_by_a_published_seal(
    platform: AuditPlatform,
) -> None:
    rows = platform.rows()
    last = rows[-1]
    assert last.h is not None
    published = PublishedSeal(last.seq, last.h.hex())
    question = AuditRequest("identity", "CPU")
    assert (await audit(question, List(rows), verify_verdict, published=[published])).is_clean
    report = await audit(question, List(rows[:-2]), verify_verdict, published=[published])
    assert [finding.seq for finding in report.findings] == [last.seq - 1]
    assert "the log ends" in report.findings[0].what
    other = [PublishedSeal(3, "00")]
    report = await audit(question, List(rows), verify_verdict, published=other)
    assert report.findings[0].seq == 3


async def test_an_event_that_was_moved_to_another_subject_is_named(platform: AuditPlatform) -> None:
    rows = platform.rows()
    rows[2] = rows[2]._replace(subject="events.submission.other")
    assert (await run_audit(platform, rows)).findings[0].seq == 3
    sealed = seq_of(platform, "AuditSealed") - 1
    assert (await run_audit(platform, chain_events(rows))).findings[0].seq == sealed


async def test_an_event_under_another_id_is_named(platform: AuditPlatform) -> None:
    rows = platform.rows()
    rows[-1] = rows[-1]._replace(id="other")
    (finding,) = (await run_audit(platform, chain_events(rows))).findings
    assert finding == Finding(len(rows), "its id is not the one in its body")


async def test_what_lies_among_the_seals_and_is_none_is_named(platform: AuditPlatform) -> None:
    seq = await platform.say("audit.seal", events.IntakePaused(reason="not here"))
    (finding,) = (await run_audit(platform)).findings
    assert finding == Finding(seq, "what lies among the seals is none")


async def test_what_is_shown_is_compared_with_what_the_log_says(platform: AuditPlatform) -> None:
    rows = (await run_audit(platform)).rows
    entries = [msgspec.structs.asdict(row) | {"pooled_over": list(row.pooled_over)} for row in rows]
    assert (await run_audit(platform, live=LiveLeaderboard(5, T0, entries))).is_clean
    entries[0]["score_us"] = 1.0
    entries[1]["account"] = "eve"
    report = await run_audit(platform, live=LiveLeaderboard(5, T0, entries))
    assert report.differences == [
        "ada is missing: the log gives submission 3",
        "eve is shown with submission 3: the log gives no entry",
        "grace: score_us is shown as 1.0, the log gives 50.0",
    ]


async def test_an_audit_of_a_past_moment_folds_what_had_happened(platform: AuditPlatform) -> None:
    seq = seq_of(platform, "SubmissionFinished")
    then = AuditRequest("identity", "CPU", as_of_seq=seq)
    report = await audit(then, List(platform.rows()), verify_verdict)
    assert [row.submission for row in report.rows] == ["s1"]
    assert (report.seq, report.events) == (seq, len(platform.rows()))
    early = AuditRequest("identity", "CPU", as_of=T0 - timedelta(seconds=1))
    with pytest.raises(Refused, match="there was no problem"):
        await audit(early, List(platform.rows()), verify_verdict)


async def test_the_report_is_plain_data(platform: AuditPlatform) -> None:
    data = msgspec.json.decode(msgspec.json.encode(await run_audit(platform)))
    assert data["is_clean"] is True
    assert data["rows"][0]["because"][0]["type"] == "ProblemPublished"


async def test_an_event_that_cannot_be_read_is_named_unless_it_was_skipped(
    platform: AuditPlatform,
) -> None:
    broken = msgspec.structs.replace(
        platform.envelope("moderation.s9", events.SubmissionReleased(reason="")),
        data=msgspec.Raw(b'{"reason":1}'),
    )
    seq = await platform.append(broken)
    (finding,) = (await run_audit(platform)).findings
    assert finding.seq == seq
    assert finding.what.startswith("the event cannot be folded")
    await platform.say(
        subjects.audit("skip"), events.EventSkipped(projection="ranker", seq=seq, reason="")
    )
    assert (await run_audit(platform)).is_clean


async def test_a_leaderboard_that_never_was_is_refused(platform: AuditPlatform) -> None:
    with pytest.raises(Refused, match="identity has no GPU type 'cpu': CPU"):
        await audit(AuditRequest("identity", "cpu"), List(platform.rows()), verify_verdict)
