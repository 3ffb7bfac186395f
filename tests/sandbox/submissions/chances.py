"""A submission that prints what would make it predictable: generators and addresses."""

import json
import random
import sys
import uuid
from typing import Any


def custom_kernel(data: object) -> object:
    """An honest submission."""
    return data


torch: Any = sys.modules["torch"]
place = torch.empty(1 << 20).data_ptr()
chances = [random.random(), float(torch.rand(1)), place, uuid.uuid4().hex]
sys.stdout.write(json.dumps(chances))
