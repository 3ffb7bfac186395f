"""Checks that a verdict comes from the agent that was given the run.

This is the only check of a verdict's origin: ranker makes it before it decides on a submission, and
an audit repeats it.
"""

import hashlib
from collections.abc import Mapping
from typing import NamedTuple

from ranker.domain.stored_log import Verify
from shared import subjects
from shared.events import HARNESS_CODE
from shared.wire import Envelope, forgery_reason

RUN_KEY_BYTES = 32
DIGEST_SHOWN = 12
NOT_ENROLLED = "agent_not_enrolled"


class RunOrigin(NamedTuple):
    """What the log says about a run before its verdict.

    `token` is the sequence of its order. `sign_key` is the agent's enrolled key, None if the agent
    is not enrolled or was revoked. `key_commit` comes from RunStarted. `harness_code` is the digest
    in the agent's newest registration, "" if there is none.
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
    envelope: Envelope, key: str, environment: Mapping[str, str], origin: RunOrigin, verify: Verify
) -> Fault | None:
    """Return why a RunCompleted with this key and environment does not count, None if it does."""
    return (
        _check_writer(envelope, origin)
        or _check_signature(envelope, origin, verify)
        or _check_key(key, origin)
        or _check_harness(environment, origin)
    )


def _check_writer(envelope: Envelope, origin: RunOrigin) -> Fault | None:
    reason = forgery_reason(envelope)
    if not reason and subjects.history_of(envelope.agg) != subjects.run(origin.agent, origin.run):
        reason = f"run {origin.run} was given to agent {origin.agent}, not to {envelope.agg}"
    return Fault("wrong_writer", f"the verdict is forged: {reason}") if reason else None


def _check_signature(envelope: Envelope, origin: RunOrigin, verify: Verify) -> Fault | None:
    agent = origin.agent
    if origin.sign_key is None:
        reason = f"agent {agent} is not enrolled or was revoked, so nobody vouches for its run"
        return Fault(NOT_ENROLLED, reason)
    if envelope.sig is None:
        return Fault("bad_signature", f"the run is not signed by agent {agent}")
    agg = subjects.run(agent, origin.run)
    if not verify(origin.sign_key, agg, origin.token, bytes(envelope.data), envelope.sig):
        return Fault("bad_signature", f"the run's signature is not that of agent {agent}")
    return None


def _check_key(key: str, origin: RunOrigin) -> Fault | None:
    """All inputs are derived from the key, so it must be the one that RunStarted committed to."""
    try:
        key_bytes = bytes.fromhex(key)
    except ValueError:
        key_bytes = b""
    if len(key_bytes) != RUN_KEY_BYTES or not any(key_bytes):
        return Fault("bad_key", f"the run's key is not {RUN_KEY_BYTES} drawn bytes in hexadecimal")
    if hashlib.sha256(key_bytes).hexdigest() != origin.key_commit:
        return Fault("bad_key", "the run's key is not the one that RunStarted committed to")
    return None


def _check_harness(environment: Mapping[str, str], origin: RunOrigin) -> Fault | None:
    """An agent is admitted with the harness code that it registered and may run no other."""
    code = environment.get(HARNESS_CODE, "")
    if code == origin.harness_code:
        return None
    ran, registered = (digest[:DIGEST_SHOWN] or "no code" for digest in (code, origin.harness_code))
    reason = f"the run was judged by harness code {ran}, but agent {origin.agent} registered"
    return Fault("unknown_harness", f"{reason} {registered}")
