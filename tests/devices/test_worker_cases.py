"""Which kind of case a worker makes of a layout."""

import json
import os
from typing import Any

from harness.devices.device import SharedMemory
from harness.worker.memory import SharedCase
from harness.worker.server import open_case

LAYOUT: dict[str, Any] = {
    "inputs": [[0, 16, "float32", [4], [1]]],
    "outputs": [[0, 16, "float32", [4], [1]]],
    "data": ["tensor", 0],
    "answer": ["tensor", 0],
}


def test_a_layout_that_names_no_device_is_one_of_the_processor() -> None:
    memories = [SharedMemory(4096), SharedMemory(4096)]
    said: dict[str, Any]
    for said in ({}, {"memories": [{}, {}]}):
        descriptors = [os.dup(memory.descriptor) for memory in memories]
        case = open_case(json.dumps(LAYOUT | said).encode(), descriptors)
        assert type(case) is SharedCase
    for memory in memories:
        memory.close()
