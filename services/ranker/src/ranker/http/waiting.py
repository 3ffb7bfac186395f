"""What a submission waits for, and what each GPU type's queue looks like."""

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI

from ranker.http.boards import standing
from ranker.service import Alive, News, Reads
from shared.events import FIRST_MODES

REASON_LENGTH_MAX = 1000
WAITING = ("received", "queued")
STANDINGS = ("revoked", "quarantined", "drained", "cordoned")

Row = dict[str, Any]


def waiting(app: FastAPI, reader: Reads, news: News, live: Alive) -> None:
    """The reads of agents and queues."""

    @app.get("/v1/agents")
    async def agents() -> dict[str, Any]:
        """Who registered, who of them is alive, and what was decided about them."""
        alive = live.alive()
        rows = await reader.rows("agents")
        items = [row | _offered(row, alive.get(row["id"])) for row in rows]
        return {"items": items, "as_of": news.seq}

    @app.get("/v1/queue")
    async def queue() -> dict[str, Any]:
        """What is not over yet, by GPU type and state, and how long each queue takes."""
        items = await reader.rows("waiting")
        paused = {row["gpu"]: row["paused"] for row in await reader.rows("pools")}
        gpus = sorted({row["gpu"] for row in items} | set(paused) | set(live.queues))
        pools = [_pool(gpu, items, paused.get(gpu), live) for gpu in gpus]
        await _number([job for pool in pools for job in pool["forecast"]], reader)
        return {"items": items, "pools": pools, "as_of": news.seq, "parked": standing(news)}


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


async def _number(jobs: list[Row], reader: Reads) -> None:
    """Say by which number people know the submissions that wait; never whose they are."""
    rows = await reader.rows("numbers", submissions=[job["submission"] for job in jobs])
    known = {row["id"]: row["number"] for row in rows}
    for job in jobs:
        job["number"] = known.get(job["submission"])


JOB = ("submission", "position", "eta_s", "eta_p90_s", "why")


async def expected(reader: Reads, live: Alive, row: Row) -> Row | None:
    """What a submission waits for: its place, how long, and why nobody takes it."""
    if row["state"] not in WAITING:
        return None
    forecast = _forecast(live, row["gpu"], row["id"])
    if "position" in forecast:
        ahead = max(0, forecast["position"] - 1)
    else:
        counted = await reader.rows("jobs_ahead", gpu=row["gpu"], number=row["number"])
        ahead = counted[0]["ahead"]
    online = _online(live, row["gpu"])
    fit = [offer for offer in online.values() if _refusal(offer, row["mode"]) is None]
    return {
        "state": "queued" if fit else "no_agent",
        "position": ahead + 1,
        "ahead": ahead,
        "eta_s": forecast.get("eta_s"),
        "eta_p90_s": forecast.get("eta_p90_s"),
        "why": forecast.get("why") or None,
        "agents_online": len(online),
        "agents_busy": sum(not offer.get("is_free") for offer in fit),
        "reason": None if fit else _nobody(online, row["gpu"], row["mode"]),
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
    if mode in said.get("modes", FIRST_MODES):
        return None
    return str(said.get("details", {}).get(f"{mode}_not_offered", "not offered"))
