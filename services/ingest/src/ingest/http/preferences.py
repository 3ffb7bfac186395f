"""How participants are told on Discord: their own choice, and what the edge is told of it."""

from collections.abc import Mapping
from typing import Annotated, Literal, cast

from fastapi import APIRouter, Depends, Query
from pydantic import Field
from typing_extensions import TypedDict

from ingest.domain.callers import Caller, check_unlimited
from ingest.http.bodies import Body, IdInPath
from ingest.http.who import Gate
from ingest.service import Ingest
from ingest.service.preferences import Addressee
from shared.answers import Documented

How = Literal["off", "thread", "dm"]
Switch = Literal["on", "off"]
Threads = Literal["default", "per_submission", "per_problem"]
Notice = Literal["overtaken", "run_finished", "deadline_near"]


class Chosen(Body):
    """What is to be otherwise; what is not said stays as it is."""

    overtaken: How | None = None
    run_finished: How | None = None
    deadline_near: How | None = None
    ranked_line: Switch | None = None
    threads: Threads | None = None


class Preferences(TypedDict):
    """How one is told of what happens, on Discord."""

    overtaken: How
    run_finished: How
    deadline_near: How
    ranked_line: Switch
    threads: Threads


class Person(TypedDict):
    """A participant, by their id on Discord, null for who is not there."""

    participant_id: str
    discord: str | None
    preferences: Preferences


class People(TypedDict):
    """Participants who want to be told."""

    items: list[Person]


class Owner(Person):
    """Whose a submission is, and what it was sent for."""

    number: int
    problem: str
    gpu: str
    mode: str
    baseline: str


class RejudgeTold(TypedDict):
    """What a rejudge is about."""

    problem: str
    from_version: int
    to_version: int
    submissions: Annotated[int, Field(description="How many were run again.")]
    changed: Annotated[int, Field(description="How many results are others.")]


def preferences(ingest: Ingest, gate: Gate) -> APIRouter:
    """The routes: one's own preferences, and what the edge alone asks."""
    router = APIRouter(prefix="/v1", route_class=Documented)
    _own(router, ingest, gate)
    _edges(router, ingest, gate)
    return router


def _own(router: APIRouter, ingest: Ingest, gate: Gate) -> None:
    @router.get("/me/preferences")
    async def chosen(caller: Annotated[Caller, Depends(gate.keeper())]) -> Preferences:
        """How one is told on Discord; nothing comes that was not asked for."""
        return _preferences(ingest.preferences.of(caller.account))

    @router.put("/me/preferences")
    async def choose(
        body: Chosen, caller: Annotated[Caller, Depends(gate.keeper())]
    ) -> Preferences:
        """Be told otherwise from now on: by letter, in the submission's thread, or not at all."""
        check_unlimited(caller)
        wanted = body.model_dump(exclude_none=True)
        return _preferences(await ingest.preferences.choose(caller, wanted))


def _edges(router: APIRouter, ingest: Ingest, gate: Gate) -> None:
    edge = [Depends(gate.edge)]

    @router.get("/edge/participants", dependencies=edge)
    async def wishing(wish: Annotated[Notice, Query()]) -> People:
        """Those who want to be told of something, for the Discord edge alone."""
        return {"items": [_person(one) for one in await ingest.preferences.wishing(wish)]}

    @router.get("/edge/participants/{id}", dependencies=edge)
    async def participant(id: IdInPath) -> Person:  # noqa: A002  (the contract's own word)
        """Who somebody is on Discord, for the Discord edge alone."""
        return _person(await ingest.preferences.addressee(id))

    @router.get("/edge/submissions/{id}", dependencies=edge)
    async def submission(id: IdInPath) -> Owner:  # noqa: A002  (the contract's own word)
        """Whose a submission is, by its id, for the Discord edge alone."""
        found = await ingest.preferences.owner(id)
        received = found.received
        return {
            **_person(found.owner),
            "number": found.number,
            "problem": received.problem,
            "gpu": received.gpu,
            "mode": received.mode,
            "baseline": received.baseline,
        }

    @router.get("/edge/rejudges/{id}", dependencies=edge)
    async def rejudge(id: IdInPath) -> RejudgeTold:  # noqa: A002  (the contract's own word)
        """What a rejudge is about, for the Discord edge alone."""
        requested, changed = await ingest.preferences.rejudge(id)
        return {
            "problem": requested.problem,
            "from_version": requested.from_number,
            "to_version": requested.to_number,
            "submissions": len(requested.items),
            "changed": changed,
        }


def _person(one: Addressee) -> Person:
    return {
        "participant_id": one.account,
        "discord": one.discord,
        "preferences": _preferences(one.preferences),
    }


def _preferences(said: Mapping[str, str]) -> Preferences:
    return cast("Preferences", dict(said))
