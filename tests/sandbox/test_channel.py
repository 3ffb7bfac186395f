"""Messages between two ends of a channel, up to the last one."""

from harness.sandbox.box import make_channel, receive_message, send_message


def test_last_words_are_heard_over_a_question_left_unread() -> None:
    ours, theirs = make_channel()
    with ours:
        send_message(ours, {"usage": True})
        send_message(theirs, {"over": True})
        theirs.close()

        assert receive_message(ours) == ({"over": True}, [])
        assert receive_message(ours) is None
