"""What routes answer: told by their annotation, sent as it is."""

from typing import Annotated

import httpx
from fastapi import APIRouter, FastAPI
from pydantic import WithJsonSchema
from typing_extensions import TypedDict

from shared.answers import ELSEWHERE, Answer, Documented, every, schemas
from shared.http import Live


class Inner(TypedDict):
    """A part."""

    count: int


class Outer(TypedDict):
    """A whole, one part of which another service has a type of."""

    inner: Inner | None
    other: Annotated[Inner, WithJsonSchema({ELSEWHERE: "Other"})]


def application() -> FastAPI:
    app, router = FastAPI(), APIRouter(prefix="/inner", route_class=Documented)

    @router.get("/plain")
    async def plain() -> Outer:
        return {"inner": None, "other": "no part at all"}  # type: ignore[typeddict-item]

    @router.get("/made")
    async def made() -> Answer[list[Inner]] | Live:
        return Answer(b"[]", 200)

    @router.get("/bare", include_in_schema=False)
    async def bare() -> Answer[Inner]:
        return Answer(b"{}", 200)

    app.include_router(router)
    return app


def test_a_body_is_told_by_the_annotation_with_every_field_and_no_other() -> None:
    told = schemas(application().routes)
    assert told.bodies["GET", "/inner/plain"] == {"$ref": "#/components/schemas/Outer"}
    assert told.bodies["GET", "/inner/made"]["items"] == {"$ref": "#/components/schemas/Inner"}
    assert told.shared["Outer"]["additionalProperties"] is False
    assert told.shared["Outer"]["properties"]["other"] == {"$ref": "#/components/schemas/Other"}
    assert told.shared["Inner"]["required"] == ["count"]


def test_every_route_is_found_in_whichever_router() -> None:
    found = {(method, path) for method, path, _ in every(application().routes)}
    assert {("GET", f"/inner/{name}") for name in ("plain", "made", "bare")} <= found


async def test_what_is_returned_is_sent_unchecked() -> None:
    transport = httpx.ASGITransport(application())
    async with httpx.AsyncClient(transport=transport, base_url="http://here") as http:
        answer = await http.get("/inner/plain")
    assert answer.json() == {"inner": None, "other": "no part at all"}
