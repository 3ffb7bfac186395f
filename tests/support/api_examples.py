"""Minimal values of the API's types, for tests that need only a few of their fields."""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from typing import Any, TypeVar

import msgspec
from msgspec import inspect

Model = TypeVar("Model", bound=msgspec.Struct)
# It takes milliseconds for a large type.
type_info = cache(inspect.type_info)
EMPTY: dict[type[inspect.Type], Callable[[Any], Any]] = {
    inspect.NoneType: lambda _: None,
    inspect.BoolType: lambda _: False,
    inspect.IntType: lambda kind: kind.ge or 0,
    inspect.FloatType: lambda _: 0.0,
    # The only pattern is that of a digest.
    inspect.StrType: lambda kind: "0" * (64 if kind.pattern else kind.min_length or 0),
    inspect.LiteralType: lambda kind: kind.values[0],
    inspect.DateTimeType: lambda _: datetime(2026, 1, 1, tzinfo=UTC),
    inspect.ListType: lambda kind: [_empty(kind.item_type)] * (kind.min_length or 0),
    inspect.VarTupleType: lambda _: [],
    inspect.DictType: lambda _: {},
    inspect.AnyType: lambda _: {},
    inspect.TupleType: lambda kind: [_empty(item) for item in kind.item_types],
    inspect.StructType: lambda kind: _complete(kind, {}),
}


def make_example(model: type[Model], **fields: Any) -> Model:
    """Make an API value: required fields that are not given are empty, zero or null.

    `fields` may hold nested dicts; they are completed in the same way, and checked as if they came
    over HTTP.
    """
    return msgspec.convert(make_document(model, fields), model)


def make_document(model: type[msgspec.Struct], fields: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON document of an API value of which only some fields are given."""
    document: dict[str, Any] = _complete(type_info(model), msgspec.to_builtins(fields))
    return document


def _complete(kind: inspect.Type, value: Any) -> Any:
    """Add the required fields that a value and the values in it lack."""
    if isinstance(kind, inspect.Metadata):
        return _complete(kind.type, value)
    if isinstance(kind, inspect.UnionType):
        kinds = [option for option in kind.types if not isinstance(option, inspect.NoneType)]
        return value if value is None or len(kinds) > 1 else _complete(kinds[0], value)
    if isinstance(kind, inspect.ListType) and isinstance(value, list):
        return [_complete(kind.item_type, item) for item in value]
    if not isinstance(kind, inspect.StructType) or not isinstance(value, dict):
        return value
    known = {field.encode_name: field for field in kind.fields}
    given = {
        name: _complete(known[name].type, item) if name in known else item
        for name, item in value.items()
    }
    lacking = [field for field in kind.fields if field.required and field.encode_name not in given]
    return given | {field.encode_name: msgspec.to_builtins(_empty(field.type)) for field in lacking}


def _empty(kind: inspect.Type) -> Any:
    """Return the smallest valid value of a type."""
    if isinstance(kind, inspect.Metadata):
        return _empty(kind.type)
    if isinstance(kind, inspect.UnionType):
        return None if kind.includes_none else _empty(kind.types[0])
    return EMPTY[type(kind)](kind)
