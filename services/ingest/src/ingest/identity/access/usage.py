"""When each token was last used."""

import asyncio
import logging
from dataclasses import dataclass, field
from datetime import datetime

from ingest.ports import AccountStore
from shared.errors import Failed

STORE_EVERY_S = 60.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TokenUsage:
    """Remembers when tokens are used, and stores it once a minute."""

    store: AccountStore
    _used_at: dict[str, datetime] = field(default_factory=dict)

    def record(self, token: str, at: datetime) -> None:
        """Remember that a token was used; it is stored within a minute."""
        self._used_at[token] = at

    async def save(self) -> None:
        """Store which tokens were used since the last call. Raises `Failed`."""
        if self._used_at:
            used_at = self._used_at.copy()
            await self.store.record_usage(used_at)
            for token, at in used_at.items():
                if self._used_at[token] == at:
                    del self._used_at[token]

    async def save_forever(self) -> None:
        """Store once a minute which tokens were used; never returns."""
        while True:
            await asyncio.sleep(STORE_EVERY_S)
            try:
                await self.save()
            except Failed as failed:
                _log.warning("cannot store when tokens were used: %s", failed)
