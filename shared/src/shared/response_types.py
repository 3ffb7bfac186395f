"""Response types of routes: checked by mypy and shown in the API document.

A route declares the type of its body in its annotation: a type of `shared.api`, a union of such
types, or a TypedDict of the public client's API, which is sent as it is. The tests in
`tests/contract_openapi` check the bodies against the document.
"""

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, Generic, NamedTuple, TypeVar, get_args, get_origin

import msgspec
from fastapi import Response
from fastapi.routing import APIRoute, iter_route_contexts
from pydantic import Field, TypeAdapter, WithJsonSchema
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode
from starlette.routing import BaseRoute

from shared.api.fields import ApiModel

Body = TypeVar("Body")
Schema = dict[str, Any]

Seconds = Annotated[float, Field(description="Seconds.")]
# An instant that the body already holds as text.
TimestampText = Annotated[
    str,
    WithJsonSchema({"type": "string", "format": "date-time", "description": "An instant, in UTC."}),
]
SubmissionNumber = Annotated[int, Field(description="The number of a submission.", ge=1)]
SCHEMA_REF = "#/components/schemas/{model}"
# The key that names a schema of another service.
SCHEMA_KEY = "x-schema"


class TypedResponse(Response, Generic[Body]):
    """A response with a known body type, for routes that also set headers or a status."""


class DocumentedRoute(APIRoute):
    """A route documented by its annotation, which sends what it returns without validation."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **more: Any) -> None:
        body = body_type(endpoint)
        if body is not None:
            more["response_model"] = Any
        if _struct_types(body):
            endpoint = _return_builtins(endpoint)
        super().__init__(path, endpoint, **more)


def _return_builtins(endpoint: Callable[..., Any]) -> Callable[..., Any]:
    """Make an endpoint return plain dicts in place of API types, which FastAPI cannot encode."""
    assert inspect.iscoroutinefunction(endpoint), f"{endpoint.__qualname__} is not async"

    @functools.wraps(endpoint)
    async def respond_with_builtins(*args: Any, **kwargs: Any) -> Any:
        body = await endpoint(*args, **kwargs)
        return body if isinstance(body, Response) else msgspec.to_builtins(body)

    return respond_with_builtins


def _struct_types(body: Any) -> list[type[msgspec.Struct]]:
    """Return the API types that a body, or an item of a list, may have; else an empty list."""
    if get_origin(body) is list:
        body = get_args(body)[0]
    types = list(get_args(body)) or [body]
    are_structs = all(isinstance(kind, type) and issubclass(kind, msgspec.Struct) for kind in types)
    return types if are_structs else []


class Schemas(NamedTuple):
    """The schema of each route's body, by method and path, and the schemas they refer to."""

    bodies: dict[tuple[str, str], Schema]
    shared: dict[str, Schema]


class _UntitledSchema(GenerateJsonSchema):
    """Generates schemas without field titles, which would only repeat the names."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002  (pydantic's own)
        """Return whether a field has a title: never."""
        return False


def body_type(endpoint: Callable[..., Any]) -> Any | None:
    """Return the body type of a route from its annotation; None if it declares none."""
    annotation = endpoint.__annotations__.get("return")
    for part in (annotation, *get_args(annotation)):
        if get_origin(part) is TypedResponse:
            return get_args(part)[0]
    is_response = isinstance(annotation, type) and issubclass(annotation, Response)
    return None if is_response else annotation


def iter_routes(routes: Iterable[BaseRoute]) -> Iterator[tuple[str, str, BaseRoute]]:
    """Yield every route with its method and full path, including routes of nested routers."""
    for route in iter_route_contexts(list(routes)):
        for method in sorted(route.methods or ()):
            yield method, route.path or "", route.original_route


def build_schemas(routes: Iterable[BaseRoute], beside: Iterable[type] = ()) -> Schemas:
    """Build the schemas of the routes' bodies and of other types; no object is open."""
    declared_types = {
        (method, path): body_type(route.endpoint)
        for method, path, route in iter_routes(routes)
        if isinstance(route, DocumentedRoute)
    } | {("", model.__name__): model for model in beside}
    body_types = {key: model for key, model in declared_types.items() if model is not None}
    struct_types = {key: _struct_types(model) for key, model in body_types.items()}
    inputs: list[tuple[tuple[str, str], JsonSchemaMode, TypeAdapter[Any]]] = [
        (key, "serialization", TypeAdapter(model))
        for key, model in body_types.items()
        if not struct_types[key]
    ]
    by_key, defined = TypeAdapter.json_schemas(
        inputs, ref_template=SCHEMA_REF, schema_generator=_UntitledSchema
    )
    all_structs = sorted({kind for kinds in struct_types.values() for kind in kinds}, key=str)
    _, struct_schemas = msgspec.json.schema_components(
        all_structs, ref_template=SCHEMA_REF.format(model="{name}")
    )
    # Every field is always sent, unless its type omits fields that have their default value.
    pending: list[type[msgspec.Struct]] = [ApiModel]
    while pending:
        model = pending.pop()
        pending += model.__subclasses__()
        if model.__name__ in struct_schemas and not model.__struct_config__.omit_defaults:
            fields = struct_schemas[model.__name__]
            fields["required"] = list(fields["properties"])
    shared = defined.get("$defs", {}) | struct_schemas
    _forbid_other_fields([*by_key.values(), *shared.values()])
    bodies = {key: schema for (key, _), schema in by_key.items()}
    for key, kinds in struct_types.items():
        references = [{"$ref": SCHEMA_REF.format(model=kind.__name__)} for kind in kinds]
        if kinds:
            schema: Schema = references[0] if len(references) == 1 else {"anyOf": references}
            is_list = get_origin(body_types[key]) is list
            bodies[key] = {"type": "array", "items": schema} if is_list else schema
    return Schemas(bodies, shared)


def _forbid_other_fields(schema: Any) -> None:
    """Forbid additional properties in objects with named fields, so that no field is forgotten."""
    if isinstance(schema, list):
        for item in schema:
            _forbid_other_fields(item)
    elif isinstance(schema, dict):
        if SCHEMA_KEY in schema:
            schema["$ref"] = SCHEMA_REF.format(model=schema.pop(SCHEMA_KEY))
        if isinstance(schema.get("properties"), dict):
            schema.setdefault("additionalProperties", False)
        for value in schema.values():
            _forbid_other_fields(value)
