"""Messages between two ends of a channel, up to the last one."""

from harness.sandbox import channel


def test_last_words_are_heard_over_a_question_left_unread() -> None:
    ours, theirs = channel.make_pair()
    with ours:
        channel.send_message(ours, {"usage": True})
        channel.send_message(theirs, {"over": True})
        theirs.close()

        assert channel.receive_message(ours) == ({"over": True}, [])
        assert channel.receive_message(ours) is None
