"""What a submission waits for, and what each GPU type's queue looks like."""

from collections.abc import Mapping
from typing import Any, cast

from fastapi import FastAPI

from ranker.http.access import Asker, Seen
from ranker.http.acts import check_staff
from ranker.http.boards import standing
from ranker.http.shapes import waiting as shapes
from ranker.service import Alive, News, Reads
from shared.clock import now
from shared.errors import Refused
from shared.events import FIRST_MODES

REASON_LENGTH_MAX = 1000
WAITING = ("received", "queued")
ANY_MODE = ""
STANDINGS = ("revoked", "quarantined", "drained", "cordoned")

Row = dict[str, Any]


def waiting(app: FastAPI, reader: Reads, news: News, live: Alive) -> None:
    """The reads of agents and queues."""

    @app.get("/v1/agents")
    async def agents() -> shapes.Agents:
        """Who registered, who of them is alive, and what was decided about them."""
        alive = live.alive()
        rows = await reader.rows("agents")
        items = [row | _offered(row, alive.get(row["id"])) for row in rows]
        return {"items": cast("list[shapes.Agent]", items), "as_of": news.seq}

    @app.get("/v1/admin/agents")
    async def agents_for_operators(who: Asker) -> shapes.Agents:
        """The same for operators, and a refusal for others."""
        check_staff(who)
        return await agents()

    @app.get("/v1/queue")
    async def queue(who: Asker) -> shapes.Queues:
        """What is not over yet, by GPU type and state, and how long each queue takes."""
        items = await reader.rows("waiting")
        paused = {row["gpu"]: row["paused"] for row in await reader.rows("pools")}
        gpus = sorted({row["gpu"] for row in items} | set(paused) | set(live.queues))
        pools = [_pool(gpu, items, paused.get(gpu), live) for gpu in gpus]
        await _number([job for pool in pools for job in pool["forecast"]], Seen(reader, who))
        return {
            "items": cast("list[shapes.Depth]", items),
            "pools": cast("list[shapes.Pool]", pools),
            "as_of": news.seq,
            "parked": standing(news),
        }

    @app.get("/v1/queue/{gpu}")
    async def of_gpu(gpu: str) -> shapes.QueueOfGpu:
        """What whoever submits for a GPU type now would wait for."""
        rows = {row["gpu"].lower(): row["gpu"] for row in await reader.rows("gpus")}
        if gpu.lower() not in rows:
            raise Refused("not_found", f"there is no GPU type {gpu!r} here", "gpu")
        name = rows[gpu.lower()]
        items = [row for row in await reader.rows("waiting") if row["gpu"] == name]
        depth = sum(row["submissions"] for row in items if row["state"] in WAITING)
        paused = [row["paused"] for row in await reader.rows("pools") if row["gpu"] == name]
        said = _queue(live, name, ANY_MODE, paused[0] if paused else None)
        whole = said | {"waiting": depth, "items": items}
        return cast("shapes.QueueOfGpu", whole)


def _offered(row: Row, offer: Row | None) -> Row:
    """Whether an agent lives and is free, and the gravest thing that was decided about it."""
    said = next((one for one in STANDINGS if row[one] is not None), None)
    return {
        "is_alive": offer is not None,
        "is_free": bool(offer and offer.get("is_free")),
        "standing": said or ("enrolled" if row["is_enrolled"] else "not_enrolled"),
        "standing_reason": row[said] if said else None,
    }


def _pool(gpu: str, items: list[Row], paused: str | None, live: Alive) -> Row:
    """One GPU type's queue: how deep, who works on it, and what scheduler expects."""
    said = live.queues.get(gpu, {})
    run_s = said.get("run_s") or {}
    depth = sum(
        row["submissions"] for row in items if row["gpu"] == gpu and row["state"] in WAITING
    )
    jobs = [dict(zip(JOB, job, strict=False)) for job in said.get("jobs", [])]
    return {
        "gpu": gpu,
        "depth": depth,
        "paused": said.get("paused") or paused,
        "agents_online": len(_online(live, gpu)),
        "agents_free": said.get("free"),
        "agents_busy": said.get("busy"),
        "run_s_p50": run_s.get("p50"),
        "run_s_p90": run_s.get("p90"),
        "forecast_at": said.get("at"),
        "forecast": jobs,
    }


async def _number(jobs: list[Row], seen: Seen) -> None:
    """Say by which number people know what waits; of others' nothing but that it waits."""
    rows = await seen.rows("numbers", submissions=[job["submission"] for job in jobs])
    known = {row["id"]: row["number"] for row in rows if seen.owns(row)}
    for job in jobs:
        job["number"] = known.get(job["submission"])
        if job["number"] is None:
            job["submission"] = None


JOB = ("submission", "position", "eta_s", "eta_p90_s", "why")


def expected(live: Alive, row: Row) -> Row | None:
    """What a submission waits for: its place, how long, and why nobody takes it.

    Its place is what the scheduler forecasts. Until it is in the forecast nobody knows it: the
    order is not that of arrival.
    """
    if row["state"] not in WAITING:
        return None
    forecast = _forecast(live, row["gpu"], row["id"])
    position = forecast.get("position")
    eta_s, eta_p90_s = forecast.get("eta_s"), forecast.get("eta_p90_s")
    return _queue(live, row["gpu"], row["mode"], None) | {
        "position": position,
        "ahead": None if position is None else max(0, position - 1),
        "eta_s": eta_s,
        "eta_p90_s": eta_p90_s,
        "wait_s": None if eta_s is None else {"p50": eta_s, "p90": eta_p90_s},
        "why": forecast.get("why") or None,
    }


def _queue(live: Alive, gpu: str, mode: str, paused: str | None) -> Row:
    """A GPU type's queue as who waits in it with a mode sees it; nobody's place."""
    said = live.queues.get(gpu, {})
    online = _online(live, gpu)
    fit = [offer for offer in online.values() if _refusal(offer, mode) is None]
    paused = paused or said.get("paused")
    reason = None if fit else _nobody(online, gpu, mode)
    run_s = said.get("run_s") or None
    return {
        "gpu": gpu,
        "pool": gpu,
        "state": "paused" if paused else "queued" if fit else "no_agent",
        "position": None,
        "ahead": None,
        "wait_s": None,
        "run_s": run_s and {"p50": run_s.get("p50"), "p90": run_s.get("p90")},
        "agents_online": len(online),
        "agents_busy": sum(not offer.get("is_free") for offer in fit),
        "reason": f"paused: {paused}" if paused else reason,
        "as_of": said.get("at") or now(),
    }


def _forecast(live: Alive, gpu: str, submission: str) -> Row:
    """What scheduler last said of a waiting submission; empty if it said nothing."""
    for job in live.queues.get(gpu, {}).get("jobs", []):
        if job[0] == submission:
            return dict(zip(JOB, job, strict=False))
    return {}


def _online(live: Alive, gpu: str) -> dict[str, Row]:
    return {
        name: offer
        for name, offer in live.alive().items()
        if offer.get("registration", {}).get("gpu") == gpu
    }


def _nobody(online: Mapping[str, Row], gpu: str, mode: str) -> str:
    """Why no agent may take a job."""
    if not online:
        return f"no agent with {gpu} is alive"
    why = "; ".join(f"agent {name}: {_refusal(offer, mode)}" for name, offer in online.items())
    return f"no living agent with {gpu} takes mode {mode}: {why}"[:REASON_LENGTH_MAX]


def _refusal(offer: Row, mode: str) -> str | None:
    """Why an agent does not take a mode, None if it does."""
    said = offer["registration"]
    if said.get("quarantine"):
        return f"in quarantine: {said['quarantine']}"
    if mode == ANY_MODE or mode in said.get("modes", FIRST_MODES):
        return None
    return str(said.get("details", {}).get(f"{mode}_not_offered", "not offered"))
