"""Objects of a problem's own classes are sent as their attributes, and nothing else."""

import pytest

from tests.support.harness import Host

REFERENCE = """
import dataclasses
import torch
@dataclasses.dataclass(frozen=True, slots=True)
class Config:
    scale: float
    kind: torch.dtype
    place: torch.device
    weight: torch.Tensor
class Tokens:
    def __init__(self, count, config):
        self.count, self.config, self.names = count, config, ["a", "b"]
    def secret(self):
        return 3
class Store(torch.nn.Module):
    def __init__(self, size, seed):
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.register_buffer("data", torch.rand(size, generator=generator))
        self.inner = torch.nn.Linear(2, 2, bias=False)
        self.used = size
    def forward(self, x):
        self.used += 1
        return self.data * x * self.inner.weight.sum()
def generate_input(size, seed):
    x = torch.rand(size, generator=torch.Generator().manual_seed(seed))
    config = Config(2.5, torch.float16, x.device, x + 1)
    return Tokens(size, config), Store(size, seed), x
def ref_kernel(data):
    tokens, store, x = data
    assert isinstance(tokens.config, Config) and isinstance(store.inner.weight, torch.nn.Parameter)
    assert store.used == x.numel(), "somebody has used it before"
    return (store(x) * tokens.config.scale + tokens.config.weight + tokens.secret()).detach()
def check_implementation(data, output):
    return torch.allclose(output, ref_kernel(data)), "other values"
"""
RIGHT = """
import torch
def custom_kernel(data):
    tokens, store, x = data
    config = tokens.config
    assert (type(config).__name__, tokens.names) == ("Config", ["a", "b"])
    assert config.kind is torch.float16 and config.place == x.device
    assert not hasattr(tokens, "secret") and not callable(store)
    mine = store.data * x * store.inner.weight.sum()
    return (mine * config.scale + config.weight + 3).detach()
"""


@pytest.fixture
def own(host: Host) -> Host:
    """A problem with its own classes."""
    host.files["reference.py"] = REFERENCE
    return host


def test_a_submission_is_given_the_attributes_and_the_author_the_objects(own: Host) -> None:
    report = own.run(RIGHT)
    assert report.verdict == "passed", (report.reason, report.log_tail)


def test_a_wrong_answer_to_objects_is_found(own: Host) -> None:
    report = own.run(RIGHT.replace("+ 3)", "+ 2)"))
    assert report.reason.endswith("other values")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('["a", "b"]', "open", "generate_input made an object of type"),
        ('["a", "b"]', "self", "contains itself"),
        (".detach()\ndef check", ", data[0]\ndef check", "ref_kernel must return a tensor"),
    ],
)
def test_what_is_no_data_is_a_fault_of_the_problem(
    own: Host, old: str, new: str, words: str
) -> None:
    own.files["reference.py"] = REFERENCE.replace(old, new)
    report = own.run(RIGHT)
    assert report.failure_code == "problem_fault"
    assert words in report.reason
