"""The health of the log: the rule for missing events, and the names of the parts in /healthz."""

import msgspec

# The /healthz parts for the log, in every service that reads it or appends to it.
LOG_PART = "log"
LOG_STORE_PART = "log store"

PAGE = "docs/operating/log-damaged.md"


class StreamState(msgspec.Struct):
    """The state of a stream: its first and last sequence, the number of messages, and the size."""

    first_seq: int
    last_seq: int
    messages: int
    num_deleted: int = 0
    bytes: int = 0


def count_missing(state: StreamState, known_seq: int = 0) -> int:
    """Count the events missing from the log; `known_seq` is the last sequence it ever had.

    Nothing is ever deleted from the log, so it has every sequence from 1 on.

    >>> count_missing(StreamState(first_seq=1, last_seq=10, messages=8, num_deleted=2))
    2
    >>> count_missing(StreamState(first_seq=1, last_seq=10, messages=10), known_seq=12)
    2
    """
    return max(state.last_seq, known_seq) - state.messages


def describe_failed_write(state: StreamState, whole_seq: int) -> str:
    """Name the event that the server failed to write, of a log that was complete up to a sequence.

    A server counts an event that it failed to write as the first of a new file. Nobody was told
    that it is stored, and it disappears when the server is killed and restarted; but an orderly
    stop makes it a permanent hole. "" if something else is missing.

    >>> describe_failed_write(StreamState(1, 84, messages=83, num_deleted=1), 80)
    'event 84 was not written'
    >>> describe_failed_write(StreamState(1, 84, messages=83, num_deleted=1), 84)
    ''
    """
    if state.last_seq == state.messages + 1 and state.messages >= whole_seq:
        return f"event {state.last_seq} was not written"
    return ""


def describe_damage(state: StreamState, known_seq: int = 0) -> str:
    """Explain in one sentence why the log must not be served; "" if it is complete.

    >>> describe_damage(StreamState(first_seq=1, last_seq=10, messages=10))
    ''
    >>> describe_damage(StreamState(first_seq=1, last_seq=10, messages=8, num_deleted=2))
    'the log is damaged: 2 of its 10 events are missing; see docs/operating/log-damaged.md'
    """
    missing = count_missing(state, known_seq)
    if missing <= 0 and not state.num_deleted:
        return ""
    expected = max(state.last_seq, known_seq)
    return f"the log is damaged: {missing} of its {expected} events are missing; see {PAGE}"
