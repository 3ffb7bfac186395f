"""Applications of FastAPI in half the time."""

from typing import Any

from fastapi._compat import v2
from pydantic import TypeAdapter


def share_type_adapters() -> None:
    """Let all routes with the same parameter share one validator of pydantic.

    FastAPI makes one for each parameter of each route, which is half of what an application costs.
    Tests make hundreds of applications of the same routes.
    """
    adapters: dict[tuple[Any, str, str], TypeAdapter[Any]] = {}

    def share(annotated: Any, *, config: Any = None) -> TypeAdapter[Any]:
        # The texts name a function by its address. An adapter keeps the function alive.
        key = (annotated.__origin__, repr(annotated.__metadata__), repr(config))
        if key not in adapters:
            adapters[key] = TypeAdapter(annotated, config=config)
        return adapters[key]

    v2.TypeAdapter = share  # type: ignore[assignment,attr-defined]
