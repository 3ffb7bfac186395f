"""The sequences that a process remembers of its own writes."""

from shared.nats.event_log import KnownSequences


def test_an_aggregate_reaches_the_newest_that_was_noted() -> None:
    reached = KnownSequences()
    reached.note("job.a", 7)
    reached.note("job.a", 3)
    assert (reached.of("job.a"), reached.of("job.b")) == (7, 0)


def test_what_was_written_to_longest_ago_is_forgotten() -> None:
    reached = KnownSequences(aggregates_max=2)
    for seq, aggregate in enumerate(["job.a", "job.b", "job.a", "job.c"], 1):
        reached.note(aggregate, seq)
    assert [reached.of(aggregate) for aggregate in ("job.a", "job.b", "job.c")] == [3, 0, 4]
