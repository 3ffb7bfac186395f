"""V10 to V12: what a process leaves behind, how soon the device is well again, what a box needs."""

import ctypes
import importlib
import time
from functools import partial
from typing import Any

from bench.gpu.pair import GuestFailed, Pair
from bench.gpu.table import Bench, Found, alone
from harness.devices.cuda.device import CudaDevice
from harness.devices.cuda.host import gpu_requirements, list_gpu_paths, list_gpus
from harness.devices.cuda.memory import SharedMapping, tensor_at
from harness.devices.device import DeviceFault

MARK = 0xAB
LEFT_BYTES = 4 * 1024**3
LONG_NS = 10_000_000_000


def leftovers(bench: Bench) -> Found:
    """V10: memory of an ended process, as a new process gets it."""
    alone(partial(_leave, bench))
    marked, other = alone(partial(_look, bench))
    said = f"of {LEFT_BYTES >> 20} MiB: {marked} bytes marked, {other} neither marked nor zero"
    return Found(f"new memory that can be shared: {said}", marked == other == 0)


def recovery(bench: Bench) -> Found:
    """V11: a guest killed in a long kernel, and one that faults: until the next call is right."""
    found = {}
    for mode in ("honest", "fault"):
        try:
            alone(partial(_break, bench, mode), 30.0)
        except RuntimeError as error:
            found[f"{mode} said"] = str(error)[:120]
        began = time.monotonic()
        found[mode] = _until_well(bench, began)
    said = ", ".join(f"{mode}: {found[mode]}" for mode in ("honest", "fault"))
    return Found(said, all("well" in str(found[mode]) for mode in ("honest", "fault")), found)


def box(bench: Bench) -> Found:
    """V12: what the host has of what a box needs."""
    gpus = list_gpus() or [(0, bench.device().describe()["gpu_uuid"])]
    found = gpu_requirements(gpus[0], list_gpu_paths())
    said = f"nodes {len(found.devices)}: {' '.join(found.devices)}; missing: {found.missing}"
    return Found(said, not found.missing, {"read_only": found.read_only})


def _leave(bench: Bench) -> None:
    torch: Any = importlib.import_module("torch")
    device = bench.device(has_guest=False)
    kept = torch.full((LEFT_BYTES,), MARK, dtype=torch.uint8, device=device.place)
    mapping = SharedMapping(device.driver, 0, LEFT_BYTES)
    tensor_at(mapping.address, LEFT_BYTES, device.place).fill_(MARK)
    torch.cuda.synchronize()
    del kept


def _look(bench: Bench) -> tuple[int, int]:
    device = bench.device(has_guest=False)
    mapping = SharedMapping(device.driver, 0, LEFT_BYTES)
    seen = tensor_at(mapping.address, LEFT_BYTES, device.place)
    marked = other = 0
    for piece in seen.split(1 << 28):
        is_marked, is_zero = piece == MARK, piece == 0
        marked += int(is_marked.sum())
        other += int((~(is_marked | is_zero)).sum())
    return marked, other


def _break(bench: Bench, mode: str) -> str:
    """Begins a call that will not end well; leaving the pair kills the guest in the midst of it."""
    with Pair(mode, bench.mps) as pair:
        device = bench.device()
        pair.open(device, 4096)
        if mode == "fault":
            try:
                pair.call("strict")
            except (GuestFailed, DeviceFault) as error:
                return str(error)
            return "the faulting guest was answered"
        _begin(device, pair)
    return "killed in a long kernel"


def _begin(device: CudaDevice, pair: Pair) -> None:
    """Opens the gate of a call of ten seconds and does not wait for it."""
    pair.ready(ns=LONG_NS)
    pair.go()
    pair.armed(1.0)
    word = int.from_bytes(pair.nonce[:4], "little") | 1
    mailbox = pair.memories[0][0].mailbox  # type: ignore[attr-defined]  # of a GPU
    stream = device.driver.pointer("cuStreamCreate", 1)
    device.driver("cuStreamWriteValue32_v2", stream, mailbox, ctypes.c_uint(word).value, 0)
    time.sleep(0.5)


def _until_well(bench: Bench, began: float) -> str:
    last = ""
    while time.monotonic() - began < 20:
        try:
            if alone(partial(_is_well, bench), 20.0):
                return f"well after {time.monotonic() - began:.1f} s"
        except RuntimeError as error:
            last = str(error)[:100]
            time.sleep(0.2)
    return f"not in 20 s: {last}"


def _is_well(bench: Bench) -> bool:
    with Pair("honest", bench.mps) as pair:
        pair.open(bench.device(), 4096)
        return pair.call("strict").is_right
