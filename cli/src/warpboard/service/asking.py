"""What participants ask beside their verdicts: queues, quotas, histories, records, traces."""

from shared.errors import Refused
from warpboard.domain import ledgers, tables
from warpboard.domain.answers import Agents, Answer, Submission, read
from warpboard.domain.outcome import OK
from warpboard.domain.oversight import Balances, History, Queues, Records
from warpboard.domain.problems import Problem, Problems
from warpboard.service.identity import name
from warpboard.service.ports import Api, Screen
from warpboard.service.reading import Which, gpus, show


async def queue(api: Api, screen: Screen, gpu: str | None, *, as_json: bool) -> int:
    """Each GPU type's queue: who waits, how long and why. Errors: Refused for an unknown type."""
    answer = await api.get("queue")
    if gpu is not None:
        answer |= {part: _only(gpu, answer.get(part, [])) for part in ("items", "pools")}
        if not answer["pools"]:
            raise Refused("unknown_gpu", f"no pool has the GPU type {gpu!r}", "--gpu")
    pools = read(answer, Queues).pools
    waiting = [ledgers.expected(pool.gpu, pool.forecast) for pool in pools if pool.forecast]
    return show(screen, answer, ledgers.pools(pools), *waiting, as_json=as_json)


def _only(gpu: str, rows: list[Answer]) -> list[Answer]:
    return [row for row in rows if str(row["gpu"]).lower() == gpu.lower()]


async def agents(api: Api, screen: Screen, *, as_json: bool) -> int:
    """Every agent: alive or not, how it is held, and why."""
    answer = await api.get("agents")
    return show(screen, answer, tables.agents(read(answer, Agents).items), as_json=as_json)


async def quota(api: Api, screen: Screen, which: Which | None, *, as_json: bool) -> int:
    """What is left of one's quotas: of all, or of those of a problem."""
    answer = await api.get("quota") if which is None else await _quota(api, which)
    found = read(answer, Balances).items
    if not found and not as_json:
        screen.say("no limit holds for you" + (" there" if which else ""))
        return OK
    return show(screen, answer, ledgers.quotas(found), as_json=as_json)


async def _quota(api: Api, which: Which) -> Answer:
    answers = [
        await api.get("quota", problem=which.problem, gpu=gpu)
        for gpu in await gpus(api, which, are_open=True)
    ]
    return {"items": [item for answer in answers for item in answer["items"]]}


async def history(
    api: Api, screen: Screen, known: str | None, which: Which | None, *, as_json: bool
) -> int:
    """One's ranked submissions, on all leaderboards if no problem is named."""
    who = await name(api, known)
    slugs = [which.problem] if which else [one.slug for one in await _problems(api)]
    version = {"version": which.version} if which and which.version else {}
    answers = [
        await api.get("participants", who, "history", problem=slug, gpu=gpu, **version)
        for slug in slugs
        for gpu in await gpus(api, Which(slug))
    ]
    found = [read(answer, History) for answer in answers]
    shown = [ledgers.history(one) for one in found if one.items]
    if not shown and not as_json:
        screen.say(f"{who} has no ranked submission there that is over")
        return OK
    return show(screen, {"histories": answers}, *shown, as_json=as_json)


async def _problems(api: Api) -> list[Problem]:
    return read(await api.get("problems"), Problems).items


async def records(api: Api, screen: Screen, problem: str, gpu: str, *, as_json: bool) -> int:
    """The records of a leaderboard, newest first."""
    answer = await api.get("leaderboards", problem, gpu, "records")
    found = read(answer, Records).items
    return show(screen, answer, ledgers.records(problem, gpu, found), as_json=as_json)


async def trace(api: Api, screen: Screen, number: int, *, as_json: bool) -> int:
    """Every event of a submission, its jobs and its runs, with actors and times."""
    answer = await api.get("submissions", number)
    found = read(answer, Submission)
    said = {"number": number, "state": found.state, "items": answer["timeline"]}
    return show(screen, said, ledgers.trace(found), as_json=as_json)
