"""How many files and sockets this process may have open at once, and how they are shared out."""

import resource

from shared.errors import Refused

# NATS, Postgres, logs, the ops server, modules being imported, uploads on their way to disk.
FILES_RESERVED = 128
FILES_MIN = 512
CONNECTIONS_MAX = 8192
STREAMS_MAX = 1000


def raise_file_limit(files_min: int = FILES_MIN) -> int:
    """Raise the soft limit on open files to the hard one, and return it.

    Raises `Refused` if even the hard limit is below `files_min`.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if hard != resource.RLIM_INFINITY and hard < files_min:
        reason = (
            f"this process may open {hard} files at once, but needs at least {files_min}: raise "
            "the hard limit (`ulimit -Hn`, LimitNOFILE= in systemd, `ulimits: nofile:` in compose)"
        )
        raise Refused("bad_settings", reason)
    return file_limit()


def file_limit() -> int:
    """Return the number of files that this process may have open at once."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    # Unlimited is enough for every connection, and for what it needs behind it.
    most = 2 * CONNECTIONS_MAX + FILES_RESERVED
    return most if soft == resource.RLIM_INFINITY else soft


def connections_max(files: int) -> int:
    """Return how many clients may be connected; half of the files is for what they ask for.

    >>> connections_max(1024), connections_max(1_048_576)
    (448, 8192)
    """
    return min(CONNECTIONS_MAX, max(1, (files - FILES_RESERVED) // 2))


def streams_max(files: int) -> int:
    """Return how many live streams may be open: so many that other requests have room.

    >>> streams_max(1024), streams_max(20_000)
    (224, 1000)
    """
    return min(STREAMS_MAX, max(1, connections_max(files) // 2))
