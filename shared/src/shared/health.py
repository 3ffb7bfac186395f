"""When the log is healthy: the rule for missing events, and the parts that /healthz names."""

import msgspec

# The parts under which every service that reads or appends to the log reports it on /healthz.
LOG = "log"
LOG_STORE = "log store"

PAGE = "docs/operating/log-damaged.md"


class StreamState(msgspec.Struct):
    """What a stream says of itself: its first and last sequence, and what lies between them."""

    first_seq: int
    last_seq: int
    messages: int
    num_deleted: int = 0


def count_missing(state: StreamState, known_seq: int = 0) -> int:
    """How many events the log should have and has not; `known_seq` is the last it ever had.

    Nothing is ever deleted from the log, so it has every sequence from 1 on.

    >>> count_missing(StreamState(first_seq=1, last_seq=10, messages=8, num_deleted=2))
    2
    >>> count_missing(StreamState(first_seq=1, last_seq=10, messages=10), known_seq=12)
    2
    """
    return max(state.last_seq, known_seq) - state.messages


def describe_failed_write(state: StreamState, whole_seq: int) -> str:
    """Which event the server could not write, of a log that was whole up to a sequence.

    A server counts the event that it failed to write as the first of a new file. Nobody was told
    that it is stored, and it is gone when the server is killed and started; but an orderly stop
    makes it a hole for ever. "" if that is not what is missing.

    >>> describe_failed_write(StreamState(1, 84, messages=83, num_deleted=1), 80)
    'event 84 was not written'
    >>> describe_failed_write(StreamState(1, 84, messages=83, num_deleted=1), 84)
    ''
    """
    if state.last_seq == state.messages + 1 and state.messages >= whole_seq:
        return f"event {state.last_seq} was not written"
    return ""


def describe_damage(state: StreamState, known_seq: int = 0) -> str:
    """Why the log must not be served, in one sentence; "" if it has all its events.

    >>> describe_damage(StreamState(first_seq=1, last_seq=10, messages=10))
    ''
    >>> describe_damage(StreamState(first_seq=1, last_seq=10, messages=8, num_deleted=2))
    'the log is damaged: 2 of its 10 events are missing; see docs/operating/log-damaged.md'
    """
    missing = count_missing(state, known_seq)
    if missing <= 0 and not state.num_deleted:
        return ""
    known = max(state.last_seq, known_seq)
    return f"the log is damaged: {missing} of its {known} events are missing; see {PAGE}"
