"""The key of the seals on a restore: the old one from its file, or a recorded change to a new one.

A backup has no key. Without the old one, the new platform seals with a key of its own, and an audit
could not tell the old seals from forged ones. So the change is an event, signed with the new key.
"""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from ranker.archive.archiver import read_own_key
from ranker.domain.stored_log import KEY_AGGREGATE
from ranker.settings import Settings
from shared.clock import now
from shared.errors import Refused
from shared.event_log import EventLog, NewEvent
from shared.events import SealKeyChanged
from shared.private_files import create_private_folder, open_private
from shared.signing import load_key, public_key, sign_verdict
from shared.subjects import derive_id
from shared.wire import EventMetadata, make_envelope


@dataclass(frozen=True)
class SealKeyPlan:
    """What happens to the seal key: `old_key` is public, of the backup's seals, "" for none.

    `given` is the file of the old key, if the operator named it; `target` is where this platform
    has its key, None if it seals nothing. `own_key` is the public key there, None before the first
    start. `old_path` is where the backup's platform had its key.
    """

    old_key: str
    target: Path | None
    own_key: str | None
    given: Path | None = None
    old_path: str = ""

    @property
    def is_change(self) -> bool:
        """Whether this platform will seal with another key than the backup's."""
        has_both = bool(self.old_key and self.target)
        return has_both and self.given is None and self.own_key != self.old_key

    def install(self) -> None:
        """Put the given key where this platform reads its own; harmless to repeat."""
        if self.given is None or self.target is None or self.target.exists():
            return
        create_private_folder(self.target.parent)
        part = self.target.with_name(f"{self.target.name}.part")
        with open_private(part) as file:
            file.write(self.given.read_bytes())
        part.replace(self.target)

    async def make_event(self, log: EventLog, actor: str, count: int) -> NewEvent | None:
        """The change to this platform's own key after `count` restored events, if there is one."""
        if not self.is_change or self.target is None:
            return None
        key = await asyncio.to_thread(load_key, self.target)
        fact = SealKeyChanged(old_key=self.old_key, new_key=public_key(key), seq=count)
        id_ = derive_id(f"{fact.old_key}.{fact.new_key}.{count}", "SealKeyChanged")
        unsigned = make_envelope(fact, KEY_AGGREGATE, EventMetadata(id_, now(), actor, "", ""))
        sig = sign_verdict(key, KEY_AGGREGATE, count, bytes(unsigned.data))
        history = await log.history(KEY_AGGREGATE)
        return NewEvent(replace(unsigned, sig=sig), history[-1].seq if history else 0)

    def summary(self) -> dict[str, Any] | None:
        """The old and the new key for a command's answer; None if nothing had to be done."""
        if self.target is None or not (self.given or self.is_change):
            return None
        return {
            "is_change": self.is_change,
            "old_key": self.old_key,
            "new_key": public_key(load_key(self.target)),
            "old_path": str(self.given or self.old_path),
            "file": str(self.target),
        }


def describe_key_file(settings: Settings) -> str:
    """Where this platform has the key of its seals; "" if it has none."""
    path = settings.seal_key
    return str(path.absolute()) if path is not None and path.exists() else ""


def plan_seal_key(
    settings: Settings, old_key: str | None, old_path: str, given: Path | None
) -> SealKeyPlan:
    """Decide what happens to the seal key, before anything is changed.

    Raises Refused if the given file is not the key of the backup's seals, or this platform has
    another key already.
    """
    target, own_key = settings.seal_key, read_own_key(settings)
    plan = SealKeyPlan(old_key or "", target, own_key, given, old_path)
    if given is None:
        return plan
    if target is None:
        reason = "this platform seals nothing: set WARPBOARD_RANKER_SEAL_KEY to where its key goes"
        raise Refused("bad_settings", reason, "seal_key")
    if not given.is_file():
        raise Refused("no_file", f"there is no file {given}", "seal_key")
    given_key = public_key(load_key(given))
    if given_key != old_key:
        expected = f"the backup's seals were made with {old_key or 'no known key'}"
        raise Refused(
            "wrong_key", f"{given} has the public key {given_key}: {expected}", "seal_key"
        )
    if own_key not in (None, given_key):
        reason = f"{target} is another key, {own_key}: move it away to use {given}"
        raise Refused("other_key", reason, "seal_key")
    return plan
