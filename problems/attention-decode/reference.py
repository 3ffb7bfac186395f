"""Attention of one new token for each sequence, taken in float64."""

import torch
from task import input_t, output_t
from utils import get_device

# One rounding of the result to bfloat16, and of the weights on the way; statement.md says more.
RTOL = 1.1 * 2.0**-8
WEIGHTS_RTOL = 2.0**-8


def generate_input(
    batch: int, heads: int, kv_heads: int, dim: int, context: int, scale: float, seed: int
) -> input_t:
    """Normal queries, keys and values, random lengths, and a buffer; what is unused is noise."""
    device = get_device()
    generator = torch.Generator(device).manual_seed(seed)
    cache = (batch, context, kv_heads, dim)
    q = torch.empty(batch, heads, dim, device=device).normal_(0, scale, generator=generator)
    keys = torch.empty(cache, device=device).normal_(0, 1, generator=generator)
    values = torch.empty(cache, device=device).normal_(0, 1, generator=generator)
    lengths = torch.randint(1, context + 1, (batch,), generator=generator, device=device)
    lengths[-1] = context
    q, keys, values = (tensor.to(torch.bfloat16) for tensor in (q, keys, values))
    return q, keys, values, lengths.int(), torch.zeros_like(q)


def ref_kernel(data: input_t) -> output_t:
    """Every sequence in float64, rounded once."""
    *_, output = data
    for sequence in range(len(output)):
        output[sequence] = expected(data, sequence)[0]
    return output


def check_implementation(data: input_t, output: output_t) -> tuple[bool, str]:
    """Compares with float64; the bound is statement.md's."""
    *_, buffer = data
    if output.dtype != buffer.dtype or output.shape != buffer.shape:
        return False, f"got {output.dtype} {list(output.shape)}, expected {list(buffer.shape)}"
    for sequence in range(len(output)):
        want, magnitude = expected(data, sequence)
        got = output[sequence].double()
        # A NaN is not <= anything, so it counts as wrong.
        wrong = ~((got - want).abs() <= RTOL * want.abs() + WEIGHTS_RTOL * magnitude)
        if count := int(wrong.sum()):
            head, column = wrong.nonzero()[0].tolist()
            pair = f"got {got[head, column].item()}, expected {want[head, column].item()}"
            where = f"the first at [{sequence}, {head}, {column}]: {pair}"
            return False, f"{count} of {wrong.numel()} values of a sequence differ, {where}"
    return True, ""


def expected(data: input_t, sequence: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A sequence's output [heads, dim] in float64, and the same of the values' magnitudes."""
    q, keys, values, lengths, _ = data
    length = int(lengths[sequence])
    kv_heads, dim = keys.shape[2:]
    query = q[sequence].double().view(kv_heads, -1, dim)
    key = keys[sequence, :length].double().permute(1, 2, 0)
    value = values[sequence, :length].double().transpose(0, 1)
    weights = torch.softmax(query @ key / dim**0.5, dim=2)
    return (weights @ value).view(-1, dim), (weights @ value.abs()).view(-1, dim)
