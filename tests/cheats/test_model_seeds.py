"""A model's submission cannot compute the inputs of a call from the seeds that it is shown.

On a GPU the seed of the forward pass arrives before the inputs do: whoever can compute the seed of
the inputs from it has the answer before the clock starts.
"""

from pathlib import Path

import pytest

from tests.support.harness import Host, Warm

pytestmark = pytest.mark.box

PROBLEM = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return x * 2
def get_inputs():
    return [torch.rand(64)]
def get_init_inputs():
    return []
"""
# The steps that a random number generator, a hash table or a quick author would take.
ATTACK = (
    PROBLEM.replace("class Model(", "class ModelNew(").replace("return x * 2", "return attack(x)")
    + """
import sys

BITS = 1 << 63
FACTORS = (1, 0x9E3779B97F4A7C15, 6364136223846793005, 0x5DEECE66D, 1103515245, 69069, 48271)
STEPS = (0, 1, -1, 11, 12345, 1442695040888963407, 0x9E3779B97F4A7C15)
calls = []

def shown_seeds():
    frame = sys._getframe()
    while frame and not isinstance(frame.f_locals.get("data"), dict):
        frame = frame.f_back
    data = frame.f_locals["data"]
    return {data["seed"], data["model"], torch.initial_seed(), *calls}

def candidates():
    for seed in shown_seeds():
        for factor in FACTORS:
            inverse = pow(factor, -1, BITS)
            for step in STEPS:
                yield (seed - step) * inverse % BITS
                yield (seed * factor + step) % BITS

def attack(x):
    for seed in candidates():
        torch.manual_seed(seed)
        if torch.equal(get_inputs()[0], x):
            raise RuntimeError("the inputs are known before they are shown")
    calls.append(torch.initial_seed())
    return x * 2
"""
)


@pytest.mark.feature("P16")
def test_no_shown_seed_of_a_model_reveals_its_inputs(tmp_path: Path, warm: Warm) -> None:
    host = Host(tmp_path, warm)
    cases = [{"name": "case", "args": {}}]
    host.told_besides = {"tests": cases, "benchmarks": cases, "form": "kernelbench", "calls": 3}
    host.files["reference.py"] = PROBLEM
    report = host.run(ATTACK)
    assert (report.verdict, report.failure_code) == ("passed", ""), report.reason
