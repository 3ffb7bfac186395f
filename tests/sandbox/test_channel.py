"""What two ends of a channel hear of each other, to the last word."""

from harness.sandbox import channel


def test_last_words_are_heard_over_a_question_left_unread() -> None:
    ours, theirs = channel.pair()
    with ours:
        channel.tell(ours, {"usage": True})
        channel.tell(theirs, {"over": True})
        theirs.close()

        assert channel.hear(ours) == ({"over": True}, [])
        assert channel.hear(ours) is None
