"""Reporting done early gains nothing, however large the answer is."""

import re

import pytest

from harness.entry import Started
from tests.support.harness import Host

# 16 MiB of output, so that a copy lasts some hundred sweeps.
SIDE = 2048
TRIES_MAX = 8
REFERENCE = """
import torch
def generate_input(size, seed):
    return torch.rand(size, size), torch.empty(size, size)
def ref_kernel(data):
    return data[1].copy_(data[0])
def check_implementation(data, output):
    return f"{len(output.flatten()[::1024].unique())} marks"
"""
# Each call ends the sweeps of the one before it, which would leave marks of their own.
SWEEPS = """
import threading
running = []
def sweep(marks, stop):
    for sweeps in range(10**9):
        if stop.is_set():
            return
        marks.fill_(sweeps)
def custom_kernel(data):
    while running:
        stop, thread = running.pop()
        stop.set()
        thread.join()
    marks = data[1].zero_().flatten()[::1024]
    stop = threading.Event()
    thread = threading.Thread(target=sweep, args=(marks, stop), daemon=True)
    running.append((stop, thread))
    thread.start()
    return data[1]
"""


def test_an_answer_stands_still_while_it_is_copied(host: Host) -> None:
    host.files, host.more = {"reference.py": REFERENCE}, {"size": SIDE}
    # Now and then it is told at once that it still writes.
    told = (host.run(SWEEPS).reason for _ in range(TRIES_MAX))
    reason = next(one for one in told if "late_write" not in one)
    (started, *_) = (one for one in host.messages if isinstance(one, Started))
    if started.tier != "C1":
        pytest.skip("no freezer, so nothing stands still")
    found = re.search(r"(\d+) marks", reason)
    assert found is not None, reason
    assert int(found[1]) <= 2
