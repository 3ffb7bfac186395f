"""Whether a verdict is what the agent that was given the run vouches for.

This is the one check of a verdict's origin: ranker makes it before it decides on a submission, and
an audit makes it again.
"""

import hashlib
from collections.abc import Mapping
from typing import NamedTuple

from ranker.domain.seals import Verify
from shared import subjects
from shared.events import HARNESS_CODE
from shared.wire import Envelope, forgery

RUN_KEY_BYTES = 32
DIGEST_SHOWN = 12
NOT_ENROLLED = "agent_not_enrolled"


class Origin(NamedTuple):
    """What the log says of a run up to its verdict.

    `token` is the sequence of its order, `sign_key` what its agent is enrolled with, None if it is
    not or was revoked; `key_commit` is that of its RunStarted; `harness_code` is the digest in its
    agent's newest registration, "" if that names none.
    """

    agent: str
    run: str
    token: int
    sign_key: str | None
    key_commit: str | None
    harness_code: str


class Fault(NamedTuple):
    """Why a verdict does not count: a code for programs, a reason for people."""

    code: str
    reason: str


def find_fault(
    envelope: Envelope, key: str, environment: Mapping[str, str], origin: Origin, verify: Verify
) -> Fault | None:
    """Why a RunCompleted with this key and environment does not count, None if it does."""
    return (
        _wrong_writer(envelope, origin)
        or _bad_signature(envelope, origin, verify)
        or _bad_key(key, origin)
        or _unknown_harness(environment, origin)
    )


def _wrong_writer(envelope: Envelope, origin: Origin) -> Fault | None:
    reason = forgery(envelope)
    if not reason and subjects.history_of(envelope.agg) != subjects.run(origin.agent, origin.run):
        reason = f"run {origin.run} was given to agent {origin.agent}, not to {envelope.agg}"
    return Fault("wrong_writer", f"the verdict is forged: {reason}") if reason else None


def _bad_signature(envelope: Envelope, origin: Origin, verify: Verify) -> Fault | None:
    agent = origin.agent
    if origin.sign_key is None:
        what = f"agent {agent} is not enrolled or was revoked, so nobody vouches for its run"
        return Fault(NOT_ENROLLED, what)
    if envelope.sig is None:
        return Fault("bad_signature", f"the run is not signed by agent {agent}")
    agg = subjects.run(agent, origin.run)
    if not verify(origin.sign_key, agg, origin.token, bytes(envelope.data), envelope.sig):
        return Fault("bad_signature", f"the run's signature is not that of agent {agent}")
    return None


def _bad_key(key: str, origin: Origin) -> Fault | None:
    """All inputs follow from the key, so it must be the one that was committed to at the start."""
    try:
        drawn = bytes.fromhex(key)
    except ValueError:
        drawn = b""
    if len(drawn) != RUN_KEY_BYTES or not any(drawn):
        return Fault("bad_key", f"the run's key is not {RUN_KEY_BYTES} drawn bytes in hexadecimal")
    if hashlib.sha256(drawn).hexdigest() != origin.key_commit:
        return Fault("bad_key", "the run's key is not the one that RunStarted committed to")
    return None


def _unknown_harness(environment: Mapping[str, str], origin: Origin) -> Fault | None:
    """An operator lets an agent in with the harness code that it registers; it may run no other."""
    code = environment.get(HARNESS_CODE, "")
    if code == origin.harness_code:
        return None
    ran, registered = (one[:DIGEST_SHOWN] or "no code" for one in (code, origin.harness_code))
    reason = f"the run was judged by harness code {ran}, but agent {origin.agent} registered"
    return Fault("unknown_harness", f"{reason} {registered}")
