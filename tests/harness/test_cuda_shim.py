"""Reference code for `cuda` computes on the processor if that is the device."""

from typing import Any

import pytest

from harness.check import processor
from tests.support.harness import Host

REFERENCE = """
import torch


def generate_input(size, seed):
    generator = torch.Generator(device="cuda").manual_seed(seed)
    x = torch.randn(size, device="cuda", generator=generator)
    scale = torch.tensor([2.0]).cuda()
    torch.cuda.synchronize()
    return x * scale.to("cuda:0"), torch.empty(size, device=torch.device("cuda"))


def ref_kernel(data):
    x, output = data
    layer = torch.nn.Identity().cuda()
    output.copy_(layer(x) + torch.zeros_like(x, device="cuda"))
    return output


def check_implementation(data, output):
    expected = ref_kernel(tuple(one.clone() for one in data))
    return bool(torch.equal(output, expected)), "other values"
"""
RIGHT = "def custom_kernel(data):\n    data[1].copy_(data[0])\n    return data[1]\n"


@pytest.mark.parametrize(("source", "verdict"), [(RIGHT, "passed"), ("", "wrong_answer")])
def test_a_reference_for_cuda_judges_on_the_processor(
    host: Host, source: str, verdict: str
) -> None:
    host.files["reference.py"] = REFERENCE
    wrong = RIGHT.replace("data[0])", "data[0] + 1)")
    report = host.run(source or wrong)
    assert (report.verdict, report.failure_code) == (verdict, ""), report.reason


def test_a_submission_is_given_no_cuda(host: Host) -> None:
    host.files["reference.py"] = REFERENCE
    report = host.run(RIGHT.replace("data[0])", "data[0].cuda())"))
    assert report.verdict == "crashed"


def test_outside_of_the_authors_code_nothing_is_changed(torch: Any) -> None:
    before = torch.Generator, torch.cuda.synchronize
    with processor.map_cuda_to_cpu()():
        assert str(torch.ones(2, device="cuda").device) == "cpu"
        kept = torch.ones(2)
        kept.to("cuda").zero_()
        assert kept.sum() == 2
    assert (torch.Generator, torch.cuda.synchronize) == before
    with pytest.raises((AssertionError, RuntimeError)):
        torch.ones(2, device="cuda:99")
