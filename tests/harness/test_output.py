"""A worker's output is kept at both ends and counted in between."""

from harness.output import KEPT_BYTES, OUTPUT_BYTES_MAX, REPORTED_BYTES, OutputLog


def _log(*chunks: bytes) -> OutputLog:
    log = OutputLog()
    for chunk in chunks:
        log.add(chunk)
    return log


def test_a_short_output_is_kept_whole_and_told_once() -> None:
    log = _log(b"one\n", b"two\n")
    assert log.whole() == "one\ntwo\n"
    assert log.ends() == ("one\ntwo\n", "")


def test_an_output_of_middle_size_is_told_in_two_parts_that_do_not_overlap() -> None:
    text = "".join(chr(97 + index % 26) for index in range(REPORTED_BYTES + 100))
    head, tail = _log(text.encode()).ends()
    assert head + tail == text


def test_a_long_output_keeps_head_and_tail_and_says_what_is_missing() -> None:
    log = _log(b"a" * KEPT_BYTES, b"b" * 5000, b"c" * KEPT_BYTES)
    whole = log.whole()
    assert whole.startswith("a" * KEPT_BYTES + "\n[5000 bytes are left out here]\n")
    assert whole.endswith("c" * KEPT_BYTES)
    assert log.ends() == ("a" * REPORTED_BYTES, "c" * REPORTED_BYTES)


def test_more_than_a_mebibyte_is_too_much() -> None:
    log = _log(b"x" * OUTPUT_BYTES_MAX)
    assert not log.is_over
    log.add(b"x")
    assert log.is_over


def test_bytes_that_are_no_text_are_shown_as_such() -> None:
    assert _log(b"\xff\xfe").whole() == "��"
