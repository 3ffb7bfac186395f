"""An operator: enrols the agents, sets limits, and goes on with the work whatever dies."""

import asyncio
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import httpx
from bench.noop_agent import enrolment, names

from tests.system.chaos.asking import Asked, Asker, client
from tests.system.chaos.plan import LIMITS, Act
from tests.system.chaos.town import NOOPS

LOOK_S = 1.0
REASON = {"reason": "chaos"}


@dataclass
class Operator:
    """One who may use /v1/admin; `quarantined` is what the log says of the agents."""

    url: str
    token: str
    quarantined: set[str]
    asked: Asked = field(default_factory=Asked)

    async def prepare(self) -> None:
        """Enrol every no-op agent, and limit some participants."""
        async with client(self.url) as http:
            asker = Asker(http, self.asked)
            for name in self._agents():
                await self._do(asker, "POST", f"agents/{name}/enroll", enrolment(name))
            for limit in LIMITS:
                await self._do(asker, "PUT", "quota", limit._asdict() | REASON)

    def _agents(self) -> Iterable[str]:
        return (name for process, (_, count) in NOOPS.items() for name in names(process, count))

    async def work(self, acts: list[Act]) -> None:
        """Every act at its time, and whoever is in quarantine released."""
        began = time.monotonic()
        async with client(self.url) as http:
            asker = Asker(http, self.asked)
            releasing = asyncio.create_task(self._release(asker))
            try:
                for act in acts:
                    await asyncio.sleep(max(0.0, began + act.at_s - time.monotonic()))
                    await self._do(asker, "POST", act.path, REASON)
            finally:
                releasing.cancel()
                await asyncio.gather(releasing, return_exceptions=True)

    async def release_all(self) -> None:
        """Let every agent work again."""
        async with client(self.url) as http:
            asker = Asker(http, self.asked)
            for name in list(self.quarantined):
                await self._do(asker, "POST", f"agents/{name}/release", REASON)

    async def _release(self, asker: Asker) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            for name in list(self.quarantined):
                await self._do(asker, "POST", f"agents/{name}/release", REASON)

    async def _do(self, asker: Asker, method: str, path: str, body: Mapping[str, object]) -> None:
        headers = {"Authorization": f"Bearer {self.token}", "Warpboard-Operator": "chaos"}
        url = f"{self.url}/v1/admin/{path}"
        verb = path.rpartition("/")[2]
        await asker.ask(verb, httpx.Request(method, url, json=dict(body), headers=headers))
