"""A published version says what its timed cases must do, and what nobody can be under."""

import pytest

from shared.events import ProblemPublished
from tests.support.door import FILES, Door


@pytest.mark.feature("C11")
async def test_a_version_is_published_with_the_floors_of_its_cases(door: Door) -> None:
    roofline = b"roofline: {bytes: 9.6e9, written: 0, flops: 1e6, dtype: fp32}\n"
    await door.publish(FILES | {"warpboard.yml": roofline})
    published = door.log.since(0)[-1].fact
    assert isinstance(published, ProblemPublished)
    (roof,) = published.roofs
    assert (roof.bytes, roof.flops, roof.dtype) == (9.6e9, 1e6, "fp32")
    # Five sixths of two milliseconds.
    assert roof.floors_us["H200"] == 1666.67
    assert "CPU" not in roof.floors_us
