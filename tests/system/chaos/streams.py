"""Live streams of submissions, and whether they told each event once."""

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import httpx

from tests.system.chaos.asking import Asker, client

PAUSE_S = 0.5


@dataclass
class Streams:
    """The places of the events that each followed submission was told, in order."""

    places: dict[int, list[int]] = field(default_factory=dict)

    async def follow(self, url: str, headers: Mapping[str, str], number: int) -> None:
        """Follow a submission to its end; a stream that is cut is taken up again."""
        places = self.places.setdefault(number, [])
        async with client(url) as http:
            while True:
                try:
                    if await self._read(http, dict(headers), number, places):
                        return
                except httpx.HTTPError:
                    pass
                await asyncio.sleep(PAUSE_S)

    async def _read(
        self, http: httpx.AsyncClient, headers: dict[str, str], number: int, places: list[int]
    ) -> bool:
        """One connection; whether the submission's end was told."""
        if places:
            headers["Last-Event-ID"] = str(places[-1])
        path = f"/v1/submissions/{number}/events"
        # The server says that it is there every fifteen seconds.
        async with http.stream("GET", path, headers=headers, timeout=20.0) as answer:
            async for line in answer.aiter_lines():
                name, _, value = line.partition(": ")
                if name == "id":
                    places.append(int(value))
                elif line == "event: end":
                    return True
        return False


async def wrong_streams(asker: Asker, streams: Streams) -> list[str]:
    """Streams that told something twice, out of order or not at all."""
    found: list[str] = []
    for number, places in streams.places.items():
        path = f"/v1/submissions/{number}/events"
        request = asker.http.build_request("GET", path, headers={"Accept": "application/json"})
        answer = await asker.ask("read", request)
        history = [line["id"] for line in answer.json()] if answer is not None else []
        found += _wrong_places(number, places, history)
    return found


def _wrong_places(number: int, places: list[int], history: list[int]) -> Iterator[str]:
    if places != sorted(set(places)):
        yield f"the stream of submission {number} repeated itself: {places}"
    elif places != [place for place in history if place <= max(places, default=0)]:
        yield f"the stream of submission {number} told {places}, its history is {history}"
    elif not places:
        yield f"the stream of submission {number} told nothing"
