"""Names of things, and how one name follows from another."""

import hashlib

# Whose submissions baselines are: no participant's, for those are UUIDs.
BASELINE_ACCOUNT = "platform:baseline"
NAMESPACE = bytes.fromhex("5b1d8f0a6c1f5f6e9d3a7c2b4e8f1a60")


def derived(cause: str, effect: str) -> str:
    """The id of what `cause` leads to: a UUIDv5, so a decision made twice has one id.

    >>> derived("a", "JobQueued") == derived("a", "JobQueued")
    True
    >>> derived("a", "JobQueued")
    '4a11262f-f93e-5dab-9db4-7bce4627bf5e'
    """
    digest = bytearray(hashlib.sha1(NAMESPACE + f"{cause}/{effect}".encode()).digest()[:16])  # noqa: S324
    digest[6] = digest[6] & 0x0F | 0x50
    digest[8] = digest[8] & 0x3F | 0x80
    text = digest.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def submission_job(submission: str) -> str:
    """The id of a submission's one job."""
    return derived(submission, "job")


def duel_job(duel: str) -> str:
    """The id of a duel's one job."""
    return derived(duel, "job")


def confirmation_job(confirmation: str) -> str:
    """The id of a confirmation's one job."""
    return derived(confirmation, "job")


def run_confirmation(run: str) -> str:
    """The id of the one confirmation of a run."""
    return derived(run, "confirmation")


def podium_duel(problem: str, number: int, gpu: str, sources: tuple[str, str]) -> str:
    """The id of the one duel of two sources on a leaderboard that nobody asks for.

    `number` is the problem version's; `sources` are digests, in either order.

    >>> podium_duel("p", 1, "CPU", ("a", "b")) == podium_duel("p", 1, "CPU", ("b", "a"))
    True
    """
    first, second = sorted(sources)
    return derived(f"{problem}/{number}/{gpu}", f"duel/{first}/{second}")
