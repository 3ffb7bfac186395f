"""Response types: declared by annotation, sent as they are."""

from typing import Annotated

import httpx
from fastapi import APIRouter, FastAPI
from pydantic import WithJsonSchema
from typing_extensions import TypedDict

from shared.http import (
    SCHEMA_KEY,
    DocumentedRoute,
    LiveResponse,
    TypedResponse,
    build_schemas,
    iter_routes,
)


class Inner(TypedDict):
    """A nested type."""

    count: int


class Outer(TypedDict):
    """A type with one field whose type is another service's."""

    inner: Inner | None
    other: Annotated[Inner, WithJsonSchema({SCHEMA_KEY: "Other"})]


def application() -> FastAPI:
    app, router = FastAPI(), APIRouter(prefix="/inner", route_class=DocumentedRoute)

    @router.get("/plain")
    async def plain() -> Outer:
        return {"inner": None, "other": "no part at all"}  # type: ignore[typeddict-item]

    @router.get("/made")
    async def made() -> TypedResponse[list[Inner]] | LiveResponse:
        return TypedResponse(b"[]", 200)

    @router.get("/bare", include_in_schema=False)
    async def bare() -> TypedResponse[Inner]:
        return TypedResponse(b"{}", 200)

    app.include_router(router)
    return app


def test_a_body_is_told_by_the_annotation_with_every_field_and_no_other() -> None:
    schemas = build_schemas(application().routes)
    assert schemas.bodies["GET", "/inner/plain"] == {"$ref": "#/components/schemas/Outer"}
    assert schemas.bodies["GET", "/inner/made"]["items"] == {"$ref": "#/components/schemas/Inner"}
    assert schemas.shared["Outer"]["additionalProperties"] is False
    assert schemas.shared["Outer"]["properties"]["other"] == {"$ref": "#/components/schemas/Other"}
    assert schemas.shared["Inner"]["required"] == ["count"]


def test_every_route_is_found_in_whichever_router() -> None:
    routes = {(method, path) for method, path, _ in iter_routes(application().routes)}
    assert {("GET", f"/inner/{name}") for name in ("plain", "made", "bare")} <= routes


async def test_what_is_returned_is_sent_unchecked() -> None:
    transport = httpx.ASGITransport(application())
    async with httpx.AsyncClient(transport=transport, base_url="http://here") as http:
        answer = await http.get("/inner/plain")
    assert answer.json() == {"inner": None, "other": "no part at all"}
