"""The adapters with the real frameworks: each page's example runs as written, and on a platform.

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
from tests.support.people import Person, add_problem
from tests.support.platform import Running

AGENTS = Path(sys.prefix) / "agents" / "bin"
RIGHT = """Better:

```python
import torch


def custom_kernel(data):
    a, b, output = data
    return torch.add(a, b, out=output)
```
"""
# What a page's example is changed to, so that a platform evaluates.
PLATFORM = 'Platform(os.environ["WARPBOARD_URL"], os.environ["WARPBOARD_TOKEN"], "CPU")'
IMPORTS = "import os\nfrom warpboard_agents.kernels import Platform\n"
ON_A_PLATFORM = {
    "python -m warpboard_agents.openenv problems/vectoradd": (
        "python -m warpboard_agents.openenv vectoradd --url $WARPBOARD_URL --gpu CPU"
    ),
    "'[\"problems/vectoradd\"]'": (
        "'[\"vectoradd\"]' --env.taskset.url $WARPBOARD_URL --env.taskset.gpu CPU"
    ),
    'KernelReward("problems/vectoradd", bonus=0.1)': (
        f'KernelReward("vectoradd", bonus=0.1, platform={PLATFORM})'
    ),
    'Stages("problems/vectoradd")': f'Stages("vectoradd", platform={PLATFORM})',
    "from datasets import Dataset\n": f"{IMPORTS}from datasets import Dataset\n",
    "from warpboard_agents.openevolve import Stages\n\nstages": (
        f"{IMPORTS}from warpboard_agents.openevolve import Stages\n\nstages"
    ),
}
WRONG = "```python\ndef custom_kernel(data):\n    return data[2]\n```\n"
# The fewest that a page's example evaluates.
KERNELS = 2
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


@pytest.fixture(scope="module")
def evaluating_platform(platform: Running) -> Running:
    """A platform with the problem of the pages."""
    add_problem(platform.url, ROOT / "problems" / "vectoradd")
    return platform


def follow(page: Path, folder: Path, model: ScriptedModel, environ: dict[str, str]) -> None:
    """Do what a page says, and require that the model was asked for kernels if it says so."""
    path = f"{AGENTS}{os.pathsep}{os.environ['PATH']}"
    environ = OFFLINE | environ | {"PATH": path, "MODEL_URL": model.url}
    with Reader(copy_clone(folder / "warpboard"), folder / "home", environ) as reader:
        reader.follow(page)
    asks_a_model = "MODEL_URL" in page.read_text()
    assert bool(model.prompts) is asks_a_model
    assert all("custom_kernel" in prompt for prompt in model.prompts)


@pytest.mark.parametrize("page", FRAMEWORKS)
def test_the_example_of_a_framework_runs_as_written(
    tmp_path: Path, model: ScriptedModel, page: str
) -> None:
    follow(ROOT / page, tmp_path, model, {})


@pytest.mark.platform
@pytest.mark.server
@pytest.mark.parametrize("page", FRAMEWORKS)
def test_a_platform_evaluates_what_a_framework_wants(
    tmp_path: Path, model: ScriptedModel, evaluating_platform: Running, page: str
) -> None:
    text = (ROOT / page).read_text()
    for local, remote in ON_A_PLATFORM.items():
        text = text.replace(local, remote)
    assert "problems/vectoradd" not in text
    changed = tmp_path / Path(page).name
    changed.write_text(text)
    who = changed.stem
    authorization = evaluating_platform.token(who, "submit", "read:own")["Authorization"]
    token = authorization.removeprefix("Bearer ")
    environ = {"WARPBOARD_URL": evaluating_platform.url, "WARPBOARD_TOKEN": token}
    follow(changed, tmp_path, model, environ)
    with Person(evaluating_platform.url, who) as person:
        listed = person.http.get("/v1/evaluations").json()["items"]
    assert {evaluation["problem"] for evaluation in listed} == {"vectoradd"}
    assert sum(evaluation["completed"] for evaluation in listed) >= KERNELS
