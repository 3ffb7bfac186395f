"""A document as a pydantic model, or the first thing wrong with it as a sentence."""

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any, NoReturn, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError

from shared.problems.document import Document, Path, shown

Model = TypeVar("Model", bound=BaseModel)


class Strict(BaseModel):
    """A map in a problem file: no key beyond its own, no value turned into another type."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def fitted(document: Document, model: type[Model]) -> Model:
    """The document as this model. Errors: Refused, with file, line, field and the mend."""
    value = {} if document.value is None else document.value
    if not isinstance(value, dict):
        document.refuse((), f"a {_kind(value)}: write keys, such as {_keys(model)[0]}: ...")
    try:
        return model.model_validate(value)
    except ValidationError as error:
        found = error.errors(include_url=False)
        # A mistyped key is also a missing one; the typing mistake is what can be mended.
        unknown = (one for one in found if one["type"] == "extra_forbidden")
        _refuse(document, model, next(unknown, found[0]))


def _refuse(document: Document, model: type[BaseModel], error: Mapping[str, Any]) -> NoReturn:
    path: Path = error["loc"]
    wording = _WORDINGS.get(error["type"])
    if wording is not None:
        document.refuse(path, wording(path, model, error))
    said = error["msg"].replace("Input should be", "must be").replace("String should", "should")
    document.refuse(path, f"{_place(path)} {said[:1].lower()}{said[1:]}, not {_given(error)}")


def _missing(path: Path, _model: type[BaseModel], _error: Mapping[str, Any]) -> str:
    return f"the key {shown(path[-1])} is missing{_of(path)}: write it"


def _unknown(path: Path, model: type[BaseModel], _error: Mapping[str, Any]) -> str:
    key, known = str(path[-1]), _keys(_model_at(model, path[:-1]))
    near = get_close_matches(key, known, 1)
    mend = f"did you mean {shown(near[0])}?" if near else f"there are {', '.join(known)}"
    return f"unknown key {shown(key)}{_of(path)}: {mend}"


def _no_map(path: Path, model: type[BaseModel], error: Mapping[str, Any]) -> str:
    first = _keys(_model_at(model, path))[:1]
    example = f", such as {first[0]}: ..." if first else ""
    return f"{_place(path)} must be a map{example}, not {_given(error)}"


def _wrong_count(path: Path, _model: type[BaseModel], error: Mapping[str, Any]) -> str:
    bounds = error["ctx"]
    least, most = bounds.get("min_length", 0), bounds.get("max_length")
    mend = f"at least {least}" if most is None else f"at most {most}"
    return f"{_place(path)} has a length of {len(error['input'])}: write {mend}"


_WORDINGS: Mapping[str, Callable[[Path, type[BaseModel], Mapping[str, Any]], str]] = {
    "missing": _missing,
    "extra_forbidden": _unknown,
    "model_type": _no_map,
    "dict_type": _no_map,
    "too_short": _wrong_count,
    "too_long": _wrong_count,
    "string_too_short": _wrong_count,
    "string_too_long": _wrong_count,
}


def _place(path: Path) -> str:
    return shown(".".join(str(part) for part in path if part != "[key]"))


def _of(path: Path) -> str:
    return f" in {_place(path[:-1])}" if path[:-1] else ""


def _given(error: Mapping[str, Any]) -> str:
    value = error["input"]
    return f"a {_kind(value)}" if isinstance(value, dict | list) else shown(value)


def _kind(value: object) -> str:
    if isinstance(value, dict):
        return "map"
    return "list" if isinstance(value, list) else "single value"


def _keys(model: type[BaseModel] | None) -> list[str]:
    return [] if model is None else list(model.model_fields)


def _model_at(model: type[BaseModel], path: Path) -> type[BaseModel] | None:
    """The model that a path leads to, through lists and optional fields."""
    here: type[BaseModel] | None = model
    for part in path:
        if isinstance(part, str):
            field = None if here is None else here.model_fields.get(part)
            here = None if field is None else _model_in(field.annotation)
    return here


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in get_args(annotation) if (found := _model_in(part))), None)
