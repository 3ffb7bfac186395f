"""The best experts of every token, their weights, and the order of the work."""

import torch
from task import input_t, output_t
from utils import get_device

NAMES = ("experts", "weights", "counts", "order")
# The logits are from -SPAN to SPAN.
SPAN = 4.0
# Of a softmax over few logits in float32; statement.md says why.
RTOL = 1e-5


def generate_input(tokens: int, experts: int, chosen: int, levels: int, seed: int) -> input_t:
    """Logits on so many levels, and four buffers; few levels make many ties."""
    device = get_device()
    generator = torch.Generator(device).manual_seed(seed)
    shape = (tokens, experts)
    steps = torch.randint(levels, shape, generator=generator, device=device, dtype=torch.int32)
    logits = steps.float() * (2 * SPAN / levels) - SPAN
    choices = torch.zeros(tokens, chosen, dtype=torch.int32, device=device)
    counts = torch.zeros(experts, dtype=torch.int32, device=device)
    order = torch.zeros(tokens * chosen, dtype=torch.int32, device=device)
    return logits, choices, choices.float(), counts, order


def ref_kernel(data: input_t) -> output_t:
    """By a stable sort of the logits of each token, and of the chosen experts."""
    logits, *buffers = data
    for buffer, answer in zip(buffers, expected(logits, buffers[0].shape[1]), strict=True):
        buffer.copy_(answer)
    experts, weights, counts, order = buffers
    return experts, weights, counts, order


def check_implementation(data: input_t, output: output_t) -> tuple[bool, str]:
    """Compares exactly, but for the weights: |got - want| <= RTOL * want."""
    logits, *buffers = data
    wanted = expected(logits, buffers[0].shape[1])
    for name, got, buffer, want in zip(NAMES, output, buffers, wanted, strict=True):
        if got.dtype != buffer.dtype or got.shape != buffer.shape:
            return False, f"{name}: got {got.dtype} {list(got.shape)}, expected {buffer.dtype}"
        # A NaN is not <= anything, so it counts as wrong.
        wrong = ~((got - want).abs() <= RTOL * want) if name == "weights" else got != want
        if count := int(wrong.sum()):
            place = tuple(wrong.nonzero()[0].tolist())
            pair = f"got {got[place].item()}, expected {want[place].item()}"
            where = f"the first at {list(place)}: {pair}"
            return False, f"{name}: {count} of {wrong.numel()} differ, {where}"
    return True, ""


def expected(logits: torch.Tensor, chosen: int) -> tuple[torch.Tensor, ...]:
    """The four answers; a stable sort leaves equal logits in the order of the experts."""
    values, experts = torch.sort(logits, dim=1, descending=True, stable=True)
    experts = experts[:, :chosen]
    weights = torch.softmax(values[:, :chosen].double(), dim=1)
    flat = experts.flatten()
    counts = torch.bincount(flat, minlength=logits.shape[1])
    return experts, weights, counts, torch.sort(flat, stable=True).indices
