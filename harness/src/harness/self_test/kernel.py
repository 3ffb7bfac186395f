"""The known kernel."""

from typing import Any


def custom_kernel(data: Any) -> Any:
    """Copy the values."""
    values, output = data
    output.copy_(values)
    return output
