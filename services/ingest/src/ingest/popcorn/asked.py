"""What requests of the client say; some are read by hand, for they are refused with 400."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict

TAG = "popcorn-cli"
NUMBER_MAX = 2**53 - 1
SOURCE: Mapping[str, Any] = {"type": "string", "format": "binary"}
TEXT: Mapping[str, Any] = {"type": "string"}
INDEX: Mapping[str, Any] = {"type": "string", "pattern": "^[0-9]{0,3}$"}


class Asked(BaseModel):
    """A body of the client's: each value of its kind, and what is not known is left alone."""

    model_config = ConfigDict(extra="ignore", strict=True)


def _form(needed: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """A body of multipart fields."""
    fields = {"type": "object", "required": [*needed], "properties": {**needed, **more}}
    content = {"multipart/form-data": {"schema": fields}}
    return {"requestBody": {"required": True, "content": content}}


def _numbers(**bounds: tuple[int, int, int]) -> list[dict[str, Any]]:
    """Whole numbers of the query: by name what is taken without them, the least and the most."""
    return [
        {
            "name": name,
            "in": "query",
            "schema": {"type": "integer", "default": usual, "minimum": low, "maximum": high},
        }
        for name, (usual, low, high) in bounds.items()
    ]


def file() -> dict[str, Any]:
    """One source file."""
    return _form({"file": SOURCE}, {})


def profile() -> dict[str, Any]:
    """A source file, and which leaderboard's cases it is profiled with."""
    return _form({"file": SOURCE, "leaderboard": TEXT}, {"benchmark_index": INDEX})


def page(usual: int, most: int, offset_max: int = NUMBER_MAX) -> dict[str, Any]:
    """Which part of a list is wanted."""
    return {"parameters": _numbers(limit=(usual, 1, most), offset=(0, 0, offset_max))}


def board() -> dict[str, Any]:
    """Of which leaderboard, by its name."""
    return {"name": "leaderboard", "in": "query", "schema": {"type": "string"}}


def numbered() -> dict[str, Any]:
    """Of which leaderboard, by its integer."""
    schema = {"type": "integer", "minimum": 1, "maximum": NUMBER_MAX}
    named = {"name": "leaderboard_id", "in": "query", "required": True, "schema": schema}
    return {"parameters": [named]}
