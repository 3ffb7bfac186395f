"""How the platform is: its processes here, its agents and queues, and what is held back."""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from shared.errors import Refused
from warpboard.domain import review, tables
from warpboard.domain.answers import Agents, Answer, read
from warpboard.domain.ledgers import pools
from warpboard.domain.outcome import INFRASTRUCTURE, OK
from warpboard.domain.oversight import DeadLetters, Intake, Queues
from warpboard.domain.units import count_text
from warpboard.service.machine import Row
from warpboard.service.operating import plain, processes
from warpboard.service.ports import Api, Screen, Unavailable


@dataclass(frozen=True)
class Overview:
    """What the platform answered; None for what it does not tell just anybody."""

    agents: Answer
    queue: Answer
    intake: Answer
    dead_letters: Answer | None


async def status(
    connect: Callable[[], AbstractAsyncContextManager[Api]],
    screen: Screen,
    rows: Sequence[Row],
    *,
    as_json: bool,
) -> int:
    """The processes here, the agents and the queue; 3 if the platform does not answer."""
    if not as_json and rows:
        screen.table(processes(rows))
    local = [plain(row) for row in rows]
    try:
        async with connect() as api:
            found = await _asked(api)
    except Unavailable as trouble:
        if as_json:
            screen.json({"is_up": False, "reason": str(trouble), "processes": local})
        else:
            screen.say(str(trouble))
        return INFRASTRUCTURE
    if as_json:
        screen.json({"is_up": True, "processes": local, **_data(found)})
    else:
        _tell(screen, found)
    return OK


async def _asked(api: Api) -> Overview:
    return Overview(
        await api.get("agents"),
        await api.get("queue"),
        await api.get("intake"),
        await _letters(api),
    )


async def _letters(api: Api) -> Answer | None:
    """The dead letters, which operators alone are shown."""
    try:
        return await api.get("admin", "deadletters")
    except Refused:
        return None


def _data(found: Overview) -> Answer:
    letters = found.dead_letters
    return {
        "agents": found.agents["items"],
        "queue": found.queue["items"],
        "pools": found.queue.get("pools", []),
        "parked": found.queue.get("parked"),
        "intake_paused": found.intake["paused"],
        "dead_letters": None if letters is None else letters["items"],
    }


def _tell(screen: Screen, found: Overview) -> None:
    agents, queue = read(found.agents, Agents).items, read(found.queue, Queues)
    screen.table(tables.agents(agents))
    screen.table(pools(queue.pools))
    screen.table(tables.queue(queue.items))
    paused = read(found.intake, Intake).paused
    held = list(review.held(paused, queue.pools, agents, queue.parked))
    if found.dead_letters is not None:
        held += _given_up(read(found.dead_letters, DeadLetters))
    for line in held or ["nothing is held back"]:
        screen.say(line)


def _given_up(letters: DeadLetters) -> list[str]:
    if not letters.items:
        return []
    count = count_text(len(letters.items), "event")
    return [f"{count} given up by their consumers: warpboard deadletters list"]
