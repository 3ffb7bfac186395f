"""The adapters with the real frameworks: each page's example runs as it is written.

The frameworks are in an environment of their own, .venv/agents, which `make test-agents` makes.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agents.scripted_model import ScriptedModel, scripted_model
from tests.docs.test_transcripts import FRAMEWORKS
from tests.docs.transcripts import ROOT, Reader, copy_clone

AGENTS = Path(sys.prefix) / "agents" / "bin"
RIGHT = """Better:

```python
import torch


def custom_kernel(data):
    a, b, output = data
    return torch.add(a, b, out=output)
```
"""
WRONG = "```python\ndef custom_kernel(data):\n    return data[2]\n```\n"
# No framework may look for a model, or tell anybody what it does.
OFFLINE = {"HF_HUB_OFFLINE": "1", "TRL_EXPERIMENTAL_SILENCE": "1", "OMP_NUM_THREADS": "1"}
pytestmark = [
    # Kernels are timed: a busy machine could not judge them.
    pytest.mark.alone,
    pytest.mark.box,
    pytest.mark.timeout(600),
    pytest.mark.skipif(
        not (AGENTS / "python").exists(),
        reason="OpenEnv, verifiers, TRL and OpenEvolve are not installed: run make test-agents",
    ),
]


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    """A model that writes a right kernel, then a wrong one."""
    with scripted_model(RIGHT, WRONG) as running:
        yield running


@pytest.mark.parametrize("page", FRAMEWORKS)
def test_the_example_of_a_framework_runs_as_written(
    tmp_path: Path, model: ScriptedModel, page: str
) -> None:
    path = f"{AGENTS}{os.pathsep}{os.environ['PATH']}"
    environ = OFFLINE | {"PATH": path, "MODEL_URL": model.url}
    with Reader(copy_clone(tmp_path / "warpboard"), tmp_path / "home", environ) as reader:
        reader.follow(ROOT / page)
    asks_a_model = "MODEL_URL" in (ROOT / page).read_text()
    assert bool(model.prompts) is asks_a_model
    assert all("custom_kernel" in prompt for prompt in model.prompts)
