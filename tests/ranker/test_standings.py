"""Leaderboards folded in memory: what counts, what is kept off, and equality with SQL."""

from datetime import datetime, timedelta

import pytest

from ranker.domain.rows import LeaderboardKey
from ranker.domain.standings import Standings
from shared import events, subjects
from shared.api.audits import LeaderboardRow
from shared.event_log import RecordedEvent
from shared.events import Blob, Fact, SubmissionFinished
from shared.wire import EventMetadata, make_envelope
from tests.support.lives import T0

CPU = LeaderboardKey("identity", "CPU", 1)


def received(account: str, source: str) -> Fact:
    return events.SubmissionReceived(
        account=account,
        problem="identity",
        problem_number=1,
        problem_digest="d",
        gpu="CPU",
        mode="ranked",
        source=Blob(digest=source, bytes=1),
        name="k.py",
        deadline_at=T0,
        via="http",
    )


def ended(
    score_us: float | None, *process_us: float, is_eligible: bool = True, grade: str = ""
) -> Fact:
    return SubmissionFinished(
        outcome="passed",
        is_eligible=is_eligible,
        code="ranked",
        reason="",
        score_us=score_us,
        process_us=list(process_us),
        error=0.001,
        freedom=22,
        delta=0.003,
        grade=grade,
    )


class Story:
    """A sequence of events, and the leaderboard they make."""

    def __init__(self) -> None:
        self.standings = Standings()
        self.seq = 0

    def say(self, aggregate: str, fact: Fact) -> None:
        """Append an event."""
        self.seq += 1
        stamp = EventMetadata(f"e{self.seq}", T0, "service:test", "", "")
        self.standings.fold(RecordedEvent(self.seq, make_envelope(fact, aggregate, stamp)))

    def submit(self, name: str, account: str, fact: Fact, source: str = "") -> None:
        """Append a whole submission; by default with its own source."""
        aggregate = subjects.submission(name)
        self.say(aggregate, received(account, source or name))
        self.say(aggregate, fact)

    def about(self, name: str, fact: Fact) -> None:
        """Append a decision about a submission."""
        self.say(subjects.moderation(name), fact)

    def rows(self, at: datetime = T0, board: LeaderboardKey = CPU) -> list[LeaderboardRow]:
        """The leaderboard."""
        return self.standings.board(board, at)

    def submissions_on(self, at: datetime = T0, board: LeaderboardKey = CPU) -> list[str]:
        """The submissions on the leaderboard, best first."""
        return [row.submission for row in self.rows(at, board)]


@pytest.fixture
def story() -> Story:
    return Story()


def test_an_entry_is_the_best_of_an_account_and_the_earlier_of_equals(story: Story) -> None:
    for name, account, score in [
        ("slow", "ada", 300.0),
        ("best", "ada", 100.0),
        ("same", "ada", 100.0),
        ("other", "grace", 200.0),
    ]:
        story.submit(name, account, ended(score))
    assert story.submissions_on() == ["best", "other"]


def test_what_is_not_eligible_or_has_no_score_stands_nowhere(story: Story) -> None:
    story.submit("tested", "ada", ended(100.0, is_eligible=False))
    story.submit("unscored", "grace", ended(None))
    assert story.submissions_on() == []


def test_the_same_source_is_pooled_for_each_participant(story: Story) -> None:
    story.submit("mine", "ada", ended(100.0, 100.0, 100.0), source="x")
    story.submit("theirs", "grace", ended(121.0, 121.0, 121.0), source="x")
    story.submit("again", "ada", ended(121.0, 121.0, 121.0), source="x")
    first, second = story.rows()
    assert (first.submission, second.submission) == ("mine", "theirs")
    assert (first.score_us, second.score_us) == pytest.approx((110.0, 121.0))
    numbers = {name: known.number for name, known in story.standings.received.items()}
    assert first.pooled_over == (numbers["mine"], numbers["again"])
    assert second.pooled_over == (numbers["theirs"],)


def test_a_quiet_result_replaces_the_noisy_ones_of_its_source(story: Story) -> None:
    story.submit("busy", "a1", ended(9.0, 6.0, 12.0, 10.0, grade="noisy"), "x")
    story.submit("busier", "a1", ended(7.0, 4.0, 9.0, 8.0, grade="noisy"), "x")
    assert [(row.submission, row.score_us, row.pooled_over) for row in story.rows()] == [
        ("busy", 9.0, (1,))
    ]
    story.submit("quiet", "a1", ended(10.0, 10.0, 10.1, 9.9, grade="ok"), "x")
    assert [(row.submission, row.score_us, row.pooled_over) for row in story.rows()] == [
        ("quiet", 10.0, (5,))
    ]


def test_past_300_processes_nothing_is_pooled(story: Story) -> None:
    story.submit("first", "ada", ended(100.0, *[100.0] * 300), source="x")
    story.submit("late", "ada", ended(1.0, 1.0), source="x")
    assert {len(row.pooled_over) for row in story.rows()} == {1}


@pytest.mark.parametrize(
    ("off", "on"),
    [
        (events.SubmissionHeld(rule="r", reason=""), events.SubmissionReleased(reason="")),
        (events.SubmissionDisqualified(rule="r", reason=""), events.SubmissionRestored(reason="")),
        (
            events.SubmissionDisqualified(rule="r", reason=""),
            events.AppealDecided(is_accepted=True, reason=""),
        ),
    ],
)
def test_what_is_kept_off_comes_back_when_that_is_taken_back(
    story: Story, off: Fact, on: Fact
) -> None:
    story.submit("s1", "ada", ended(100.0))
    story.submit("s2", "ada", ended(200.0))
    story.about("s1", off)
    assert story.submissions_on() == ["s2"]
    story.about("s1", on)
    assert story.submissions_on() == ["s1"]


@pytest.mark.parametrize(
    "back",
    [
        events.SubmissionReleased(reason=""),
        events.SubmissionRestored(reason=""),
        events.AppealDecided(is_accepted=True, reason=""),
    ],
)
def test_nothing_brings_back_what_was_withdrawn(story: Story, back: Fact) -> None:
    story.submit("s1", "ada", ended(100.0))
    story.about("s1", events.SubmissionWithdrawn(reason="mine"))
    story.about("s1", back)
    assert story.submissions_on() == []


def test_a_refused_appeal_changes_nothing(story: Story) -> None:
    story.submit("s1", "ada", ended(100.0))
    story.about("s1", events.SubmissionDisqualified(rule="r", reason=""))
    story.about("s1", events.AppealDecided(is_accepted=False, reason=""))
    assert story.submissions_on() == []


def test_a_ban_ends_at_its_instant_or_when_it_is_lifted(story: Story) -> None:
    story.submit("s1", "ada", ended(100.0))
    until_at = T0 + timedelta(hours=1)
    story.say(subjects.account("ada"), events.AccountBanned(reason="", until_at=until_at))
    assert (story.submissions_on(T0), story.submissions_on(until_at)) == ([], ["s1"])
    story.say(subjects.account("ada"), events.AccountBanned(reason=""))
    assert story.submissions_on(until_at) == []
    story.say(subjects.account("ada"), events.AccountUnbanned(reason=""))
    assert story.submissions_on() == ["s1"]


def rejudged(story: Story, end: Fact) -> None:
    aggregate = subjects.rejudge("r1")
    requested = events.RejudgeRequested(
        problem="identity",
        from_number=1,
        to_number=2,
        to_digest="d",
        select="all",
        reason="",
        items=[
            events.RejudgeItem(
                submission="s1",
                account="ada",
                gpu="CPU",
                source=Blob(digest="s1", bytes=1),
                name="k.py",
            )
        ],
    )
    result = ended(50.0)
    assert isinstance(result, SubmissionFinished)
    story.say(aggregate, requested)
    story.say(aggregate, events.RejudgeJudged(submission="s1", result=result))
    story.say(aggregate, end)


def test_a_rejudge_counts_under_the_new_version_once_it_is_applied(story: Story) -> None:
    story.submit("s1", "ada", ended(100.0))
    rejudged(story, events.RejudgeApplied(reason=""))
    (row,) = story.rows(board=CPU._replace(problem_number=2))
    assert (row.submission, row.score_us) == ("s1", 50.0)
    assert story.submissions_on() == ["s1"]


def test_a_discarded_rejudge_counts_nowhere(story: Story) -> None:
    story.submit("s1", "ada", ended(100.0))
    rejudged(story, events.RejudgeDiscarded(reason=""))
    assert story.submissions_on(board=CPU._replace(problem_number=2)) == []
