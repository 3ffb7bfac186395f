"""What routes answer, as types: mypy reads them, the document shows them, no request pays for them.

A route says the type of its body in its annotation. It is a TypedDict, so the body is a plain dict
and is sent as it is; that it has this shape is checked where it is made, by mypy, and against the
document, by the tests in `tests/contract_openapi`.
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Annotated, Any, Generic, Literal, NamedTuple, TypeVar, get_args, get_origin

from fastapi import Response
from fastapi.routing import APIRoute, iter_route_contexts
from pydantic import Field, TypeAdapter, WithJsonSchema
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode
from starlette.routing import BaseRoute

Body = TypeVar("Body")
Schema = dict[str, Any]

Us = Annotated[float, Field(description="Microseconds.")]
Seconds = Annotated[float, Field(description="Seconds.")]
At = Annotated[datetime, Field(description="An instant, in UTC.")]
# The same where a body holds it as text already.
AtText = Annotated[
    str,
    WithJsonSchema({"type": "string", "format": "date-time", "description": "An instant, in UTC."}),
]
Seq = Annotated[int, Field(description="The sequence of an event in the log.", ge=0)]
Number = Annotated[int, Field(description="The number of a submission.", ge=1)]
RunUs = Annotated[
    float | None, Field(description="What the submission's own run measured, microseconds.")
]
PooledOver = Annotated[
    list[Number],
    Field(
        description="The participant's submissions of this source whose runs make the score; empty"
        " where it is the submission's own run alone."
    ),
]
Digest = Annotated[str, Field(description="SHA-256, hex.", pattern="^[0-9a-f]{64}$")]
Mode = Literal["test", "benchmark", "ranked", "profile"]
Visibility = Literal["public", "closed"]

REF = "#/components/schemas/{model}"
# Names a schema whose type is another service's.
ELSEWHERE = "x-schema"


class Answer(Response, Generic[Body]):
    """An answer whose body is known, beside what it is sent with."""


class Documented(APIRoute):
    """A route that is documented by its annotation, and sends what it returns unchecked."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **more: Any) -> None:
        if body_of(endpoint) is not None:
            more["response_model"] = Any
        super().__init__(path, endpoint, **more)


class Schemas(NamedTuple):
    """The schema of each route's body, by method and path, and the schemas that they refer to."""

    bodies: dict[tuple[str, str], Schema]
    shared: dict[str, Schema]


class _Plain(GenerateJsonSchema):
    """Schemas without a title for each field, which would only say its name again."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002  (pydantic's own)
        """Whether a field is titled: never."""
        return False


def body_of(endpoint: Callable[..., Any]) -> Any | None:
    """What a route answers, by its annotation; None if that does not say."""
    said = endpoint.__annotations__.get("return")
    for one in (said, *get_args(said)):
        if get_origin(one) is Answer:
            return get_args(one)[0]
    is_response = isinstance(said, type) and issubclass(said, Response)
    return None if is_response else said


def every(routes: Iterable[BaseRoute]) -> Iterator[tuple[str, str, BaseRoute]]:
    """Every route by method and whole path, those of included routers too."""
    for route in iter_route_contexts(list(routes)):
        for method in sorted(route.methods or ()):
            yield method, route.path or "", route.original_route


def schemas(routes: Iterable[BaseRoute], beside: Iterable[type] = ()) -> Schemas:
    """The schemas of what routes answer, and of what else they tell of; no object is open."""
    found = {
        (method, path): body_of(route.endpoint)
        for method, path, route in every(routes)
        if isinstance(route, Documented)
    } | {("", kind.__name__): kind for kind in beside}
    kinds = {key: kind for key, kind in found.items() if kind is not None}
    inputs: list[tuple[tuple[str, str], JsonSchemaMode, TypeAdapter[Any]]] = [
        (key, "serialization", TypeAdapter(kind)) for key, kind in kinds.items()
    ]
    by_key, defined = TypeAdapter.json_schemas(inputs, ref_template=REF, schema_generator=_Plain)
    shared = defined.get("$defs", {})
    _close([*by_key.values(), *shared.values()])
    return Schemas({key: by_key[key, "serialization"] for key in kinds}, shared)


def _close(said: Any) -> None:
    """Let objects whose fields are named have no others, so that none is forgotten here."""
    if isinstance(said, list):
        for one in said:
            _close(one)
    elif isinstance(said, dict):
        if ELSEWHERE in said:
            said["$ref"] = REF.format(model=said.pop(ELSEWHERE))
        if isinstance(said.get("properties"), dict):
            said.setdefault("additionalProperties", False)
        for one in said.values():
            _close(one)
