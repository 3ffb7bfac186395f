"""How many passwords may be tried, without locking a participant out.

A known device, which is a browser that logged in before, has a limit of its own. Any other client
is limited by name and address, with a delay that grows; all of them together, by name, are only
slowed. Source: OWASP, "Slow Down Online Guessing Attacks with Device Cookies".
"""

import asyncio
import hashlib
import hmac
import math
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Generic, NamedTuple, TypeVar

from limits import parse

from ingest.http.attempts import AttemptLimiter
from ingest.identity.names import NAME_LENGTH_MAX
from shared.errors import Refused
from shared.presentation.units import about_text

Clock = Callable[[], datetime]
Value = TypeVar("Value")

DEVICE_S = 365 * 86_400
# Several participants may share a browser; it knows those who logged in last.
DEVICES_MAX = 5
DEVICE_KEY_PURPOSE = b"known devices"
DEVICE_ID_BYTES = 16
# Of each name and address, or name: about 10 MB in all.
ENTRIES_MAX = 50_000
# After this many attempts for a name from an address, each further one waits twice as long.
FREE_ATTEMPTS = 5
DELAY_S_MIN, DELAY_S_MAX = 10.0, 3_600.0
FORGOTTEN_AFTER_S = 86_400.0
# Every attempt for a name beyond its rate takes half a second longer than the one before.
SLOW_STEP_S, SLOW_S_MAX = 0.5, 10.0
SLOWED_MAX = 200


class _Device(NamedTuple):
    """A device as its cookie names it: for whom it is known, and until when."""

    name: str
    id: str
    expires: str

    @property
    def text(self) -> str:
        """Return the text that is signed."""
        return ".".join(self)


@dataclass(frozen=True)
class KnownDevices:
    """Signs and checks the cookies of browsers that a participant logged in with.

    All ingests of a platform have the same `secret`.
    """

    secret: str = field(repr=False)
    clock: Clock

    def find(self, cookie: str, name: str) -> str | None:
        """Return the id of the device if it is known for a participant, else None."""
        return next((device.id for device in self._devices(cookie) if device.name == name), None)

    def add(self, cookie: str, name: str) -> str:
        """Return the cookie of a browser with which this participant has just logged in."""
        expires_at = self.clock() + timedelta(seconds=DEVICE_S)
        device_id = secrets.token_urlsafe(DEVICE_ID_BYTES)
        added = _Device(name, device_id, str(int(expires_at.timestamp())))
        others = [device for device in self._devices(cookie) if device.name != name]
        devices = [added, *others][:DEVICES_MAX]
        return "|".join(f"{device.text}.{self._sign(device)}" for device in devices)

    def _devices(self, cookie: str) -> list[_Device]:
        """Return the devices in a cookie that we signed and that have not expired."""
        devices, at = [], self.clock().timestamp()
        for text in cookie.split("|")[:DEVICES_MAX]:
            *parts, signature = text.split(".")
            if len(parts) != len(_Device._fields):
                continue
            device = _Device(*parts)
            is_ours = hmac.compare_digest(signature.encode(), self._sign(device).encode())
            if is_ours and at < int(device.expires):
                devices.append(device)
        return devices

    def _sign(self, device: _Device) -> str:
        key = hmac.digest(self.secret.encode(), DEVICE_KEY_PURPOSE, hashlib.sha256)
        return hmac.new(key, device.text.encode(), hashlib.sha256).hexdigest()


class RecentEntries(OrderedDict[str, Value], Generic[Value]):
    """A dictionary that drops the entry that was set longest ago when it is full."""

    def __setitem__(self, key: str, value: Value) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        if len(self) > ENTRIES_MAX:
            self.popitem(last=False)


def delay_s(attempts: int) -> float:
    """Return how long to wait after this many attempts.

    >>> [delay_s(attempts) for attempts in (4, 5, 6, 9, 50)]
    [0.0, 10.0, 20.0, 160.0, 3600.0]
    """
    if attempts < FREE_ATTEMPTS:
        return 0.0
    return min(DELAY_S_MAX, DELAY_S_MIN * 2.0 ** min(attempts - FREE_ATTEMPTS, 32))


@dataclass
class GrowingDelay:
    """Refuses attempts of a key until a delay has passed, which doubles with each attempt."""

    clock: Clock
    _attempts: RecentEntries[tuple[int, datetime]] = field(default_factory=RecentEntries)

    def take(self, key: str) -> None:
        """Count an attempt. Raises `Refused` (`rate_limited`), which does not count."""
        at = self.clock()
        attempts, last_at = self._attempts.get(key, (0, at))
        passed_s = (at - last_at).total_seconds()
        if passed_s > FORGOTTEN_AFTER_S:
            attempts = 0
        wait_s = delay_s(attempts) - passed_s
        if attempts and wait_s > 0:
            message = (
                "too many passwords tried for this name from your network address; "
                f"try again in {about_text(math.ceil(wait_s))}"
            )
            raise Refused("rate_limited", message, retry_after_s=wait_s)
        self._attempts[key] = (attempts + 1, at)

    def forgive(self, key: str) -> None:
        """Forget the attempts of a key, after a successful one."""
        self._attempts.pop(key, None)


@dataclass
class Slowdown:
    """Lets attempts of a key beyond a rate such as `20/hour` wait, but refuses none of them."""

    rate: str
    clock: Clock
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    _levels: RecentEntries[tuple[float, datetime]] = field(default_factory=RecentEntries)
    _waiting: int = 0

    async def wait(self, key: str) -> None:
        """Count an attempt and wait, at most 10 s.

        Raises `Refused` (`rate_limited`) while attempts for all keys together are too many.
        """
        wait_s = self._count(key)
        if wait_s == 0.0:
            return
        if self._waiting >= SLOWED_MAX:
            message = "too many people are trying passwords at the moment; try again in 10 s"
            raise Refused("rate_limited", message, retry_after_s=SLOW_S_MAX)
        self._waiting += 1
        try:
            await self.sleep(wait_s)
        finally:
            self._waiting -= 1

    def _count(self, key: str) -> float:
        """Return how long the attempt has to wait: a leaky bucket of each key."""
        rate, at = parse(self.rate), self.clock()
        level, last_at = self._levels.get(key, (0.0, at))
        drained = (at - last_at).total_seconds() * rate.amount / rate.get_expiry()
        level = max(0.0, level - drained) + 1.0
        excess = min(level - rate.amount, SLOW_S_MAX / SLOW_STEP_S)
        self._levels[key] = (rate.amount + excess, at)
        return max(0.0, excess * SLOW_STEP_S)


@dataclass(frozen=True)
class PasswordAttempts:
    """Admits attempts to log in with a password."""

    per_device: AttemptLimiter
    per_address: AttemptLimiter
    per_name_and_address: GrowingDelay
    per_name: Slowdown

    async def admit(self, name: str, address: str, device: str | None) -> None:
        """Count an attempt; `device` is that of a browser known for this name.

        Raises `Refused` (`rate_limited`).
        """
        if device is not None:
            # After too many wrong passwords it counts as unknown.
            with suppress(Refused):
                self.per_device.take(device)
                return
        name = name[:NAME_LENGTH_MAX]
        self.per_address.take(address)
        self.per_name_and_address.take(f"{name} {address}")
        await self.per_name.wait(name)

    def forgive(self, name: str, address: str, device: str | None) -> None:
        """Forget the attempts of this device or address, after the right password."""
        if device is not None:
            self.per_device.forgive(device)
        self.per_name_and_address.forgive(f"{name} {address}")
