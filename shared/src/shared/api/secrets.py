"""Secrets in responses: how a field is marked as one, and which types have such fields."""

from collections.abc import Iterator
from functools import cache
from typing import Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints

from msgspec import Meta

MARK = "is_secret"

# What lets whoever reads it act as a participant or for the platform. It is shown once: a response
# that has one is never stored.
Secret = Annotated[
    str,
    Meta(
        description="A secret, shown once.",
        extra={MARK: True},
        extra_json_schema={"format": "password"},
    ),
]


class ResponseField(NamedTuple):
    """A field of a response, or of a type that the response contains."""

    model: str
    name: str
    annotation: Any

    @property
    def is_secret(self) -> bool:
        """Whether the field, or an item in it, is marked as a secret."""
        return any(
            isinstance(part, Meta) and (part.extra or {}).get(MARK, False)
            for part in parts(self.annotation)
        )


@cache
def response_fields(body: Any) -> tuple[ResponseField, ...]:
    """Return all fields of a response type: of API types, pydantic models and TypedDicts."""
    fields: list[ResponseField] = []
    pending, visited = [body], set()
    while pending:
        for model in map(_model, parts(pending.pop())):
            if model is None or model in visited:
                continue
            visited.add(model)
            for name, annotation in get_type_hints(model, include_extras=True).items():
                fields.append(ResponseField(model.__name__, name, annotation))
                pending.append(annotation)
    return tuple(fields)


def has_secret(body: Any) -> bool:
    """Return whether a response type has a field that is marked as a secret.

    >>> has_secret(list[dict[str, int]])
    False
    """
    return any(field.is_secret for field in response_fields(body))


def parts(annotation: Any) -> Iterator[Any]:
    """Yield a type and everything that it is made of, such as the type of a list's items."""
    yield annotation
    if get_origin(annotation) is not None:
        for part in get_args(annotation):
            yield from parts(part)


def _model(part: Any) -> type | None:
    """Return a type with named fields; None for any other."""
    is_model = isinstance(part, type) and bool(getattr(part, "__annotations__", None))
    return part if is_model else None
