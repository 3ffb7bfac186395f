"""The types of the problem."""

from typing import Any

input_t = Any
output_t = Any
