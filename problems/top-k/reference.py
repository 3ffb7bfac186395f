"""The largest logits of every row, in descending order, and where they stand."""

import torch
from task import input_t, output_t
from utils import get_device


def generate_input(rows: int, vocab: int, k: int, seed: int) -> input_t:
    """Normal logits, which in bfloat16 have many equals, and two buffers."""
    device = get_device()
    generator = torch.Generator(device).manual_seed(seed)
    logits = torch.empty(rows, vocab, device=device).normal_(0, 2, generator=generator)
    places = torch.zeros(rows, k, dtype=torch.int32, device=device)
    return logits.to(torch.bfloat16), places.to(torch.bfloat16), places


def ref_kernel(data: input_t) -> output_t:
    """By a stable sort of each row."""
    logits, values, places = data
    found, where = expected(logits, values.shape[1])
    return values.copy_(found), places.copy_(where)


def check_implementation(data: input_t, output: output_t) -> tuple[bool, str]:
    """Compares exactly: nothing is computed, and the order of equals is given."""
    logits, *buffers = data
    wanted = expected(logits, buffers[0].shape[1])
    for name, got, buffer, want in zip(("values", "places"), output, buffers, wanted, strict=True):
        if got.dtype != buffer.dtype or got.shape != buffer.shape:
            return False, f"{name}: got {got.dtype} {list(got.shape)}, expected {buffer.dtype}"
        wrong = got != want
        if count := int(wrong.sum()):
            row, rank = wrong.nonzero()[0].tolist()
            pair = f"got {got[row, rank].item()}, expected {want[row, rank].item()}"
            where = f"the first at [{row}, {rank}]: {pair}"
            return False, f"{name}: {count} of {wrong.numel()} differ, {where}"
    return True, ""


def expected(logits: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Values and places; a stable sort leaves equals in the order of their places."""
    values, places = torch.sort(logits, dim=1, descending=True, stable=True)
    return values[:, :k], places[:, :k]
