"""An audit accepts seals by an older key only if a change that it can check names that key."""

from pathlib import Path

import msgspec
import pytest
from nacl.signing import SigningKey

from ranker.domain.stored_log import KEY_AGGREGATE, ChainVerifier
from shared.events import SealKeyChanged
from shared.signing import public_key, sign_verdict
from shared.verdicts import verify_verdict
from tests.ranker.audit_platform import AuditPlatform

FIRST, SECOND, THIRD = (SigningKey(bytes([number]) * 32) for number in (1, 2, 3))
UNKNOWN_SEAL = "the seal is not signed with a known key"
UNKNOWN_CHANGE = "the change of the seal key is not signed with a known key"


@pytest.fixture
async def platform(tmp_path: Path) -> AuditPlatform:
    """A log with one seal by the first key."""
    audited = await AuditPlatform(tmp_path).found()
    await audited.seal(FIRST)
    return audited


async def change(
    audited: AuditPlatform, old: SigningKey, new: SigningKey, signer: SigningKey | None = None
) -> None:
    """Record that the new key signs from here on."""
    seq = len(audited.rows())
    fact = SealKeyChanged(old_key=public_key(old), new_key=public_key(new), seq=seq)
    plain = audited.envelope(KEY_AGGREGATE, fact)
    sig = sign_verdict(signer or new, KEY_AGGREGATE, seq, bytes(plain.data))
    await audited.append(msgspec.structs.replace(plain, sig=sig))


def findings(audited: AuditPlatform, key: SigningKey) -> list[str]:
    """What an auditor who knows one key finds wrong."""
    verifier = ChainVerifier([public_key(key)], verify_verdict)
    for row in audited.rows():
        verifier.look(row)
    verifier.finish()
    return [finding.what for finding in verifier.findings]


async def test_the_newest_key_vouches_for_all_before_it(platform: AuditPlatform) -> None:
    await change(platform, FIRST, SECOND)
    await platform.seal(SECOND)
    await change(platform, SECOND, THIRD)
    await platform.seal(THIRD)
    assert findings(platform, THIRD) == []


async def test_without_a_change_an_older_key_is_unknown(platform: AuditPlatform) -> None:
    await platform.seal(SECOND)
    assert findings(platform, SECOND) == [UNKNOWN_SEAL]


async def test_a_change_that_its_new_key_did_not_sign_is_not_accepted(
    platform: AuditPlatform,
) -> None:
    await change(platform, FIRST, SECOND, signer=THIRD)
    assert findings(platform, SECOND) == [UNKNOWN_CHANGE, UNKNOWN_SEAL]


async def test_a_change_to_a_key_that_the_auditor_does_not_know_is_not_accepted(
    platform: AuditPlatform,
) -> None:
    await change(platform, FIRST, THIRD)
    assert findings(platform, SECOND) == [UNKNOWN_CHANGE, UNKNOWN_SEAL]


async def test_an_older_key_seals_nothing_after_the_change(platform: AuditPlatform) -> None:
    await change(platform, FIRST, SECOND)
    await platform.seal(FIRST)
    assert findings(platform, SECOND) == [UNKNOWN_SEAL]
