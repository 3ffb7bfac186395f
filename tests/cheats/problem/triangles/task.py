"""The types of the problem."""

from typing import Any

input_t = tuple[Any, Any, Any]
output_t = Any
