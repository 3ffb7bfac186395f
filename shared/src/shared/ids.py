"""Ids, and how one id is derived from another."""

import hashlib

# The account of baselines; it cannot be a participant's, since those are UUIDs.
BASELINE_ACCOUNT = "platform:baseline"
NAMESPACE = bytes.fromhex("5b1d8f0a6c1f5f6e9d3a7c2b4e8f1a60")


def derive_id(cause: str, effect: str) -> str:
    """Return the id of what `cause` leads to: a UUIDv5, so a decision made twice has one id.

    >>> derive_id("a", "JobQueued") == derive_id("a", "JobQueued")
    True
    >>> derive_id("a", "JobQueued")
    '4a11262f-f93e-5dab-9db4-7bce4627bf5e'
    """
    digest = bytearray(hashlib.sha1(NAMESPACE + f"{cause}/{effect}".encode()).digest()[:16])  # noqa: S324
    digest[6] = digest[6] & 0x0F | 0x50
    digest[8] = digest[8] & 0x3F | 0x80
    text = digest.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def submission_job_id(submission: str) -> str:
    """Return the id of a submission's job."""
    return derive_id(submission, "job")


def duel_job_id(duel: str) -> str:
    """Return the id of a duel's job."""
    return derive_id(duel, "job")


def confirmation_job_id(confirmation: str) -> str:
    """Return the id of a confirmation's job."""
    return derive_id(confirmation, "job")


def run_confirmation_id(run: str) -> str:
    """Return the id of a run's confirmation."""
    return derive_id(run, "confirmation")


def podium_duel_id(problem: str, number: int, gpu: str, sources: tuple[str, str]) -> str:
    """Return the id of the automatic duel between two sources on a leaderboard.

    `number` is the problem version's; `sources` are digests, in either order.

    >>> podium_duel_id("p", 1, "CPU", ("a", "b")) == podium_duel_id("p", 1, "CPU", ("b", "a"))
    True
    """
    first, second = sorted(sources)
    return derive_id(f"{problem}/{number}/{gpu}", f"duel/{first}/{second}")
