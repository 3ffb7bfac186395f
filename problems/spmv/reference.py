"""A sparse matrix times a vector, taken in float64."""

import torch
from task import input_t, output_t
from utils import get_device

# Sixteen roundings' worth of all the terms of a row; statement.md says why.
RTOL = 1e-6
# Of so many rows one has nothing and one has LONG times the mean.
PERIOD = 16
LONG = 8


def generate_input(rows: int, cols: int, mean: int, seed: int) -> input_t:
    """Rows of uneven lengths in random order, random entries, a vector, and a buffer."""
    device = get_device()
    generator = torch.Generator(device).manual_seed(seed)
    order = torch.randperm(rows, generator=generator, device=device)
    starts = torch.zeros(rows + 1, dtype=torch.int64, device=device)
    torch.cumsum(lengths(rows, mean, device)[order], 0, out=starts[1:])
    entries = total(rows, mean)
    columns = torch.empty(entries, dtype=torch.int32, device=device)
    columns.random_(0, cols, generator=generator)
    values = torch.empty(entries, device=device).uniform_(-1, 1, generator=generator)
    x = torch.empty(cols, device=device).uniform_(-1, 1, generator=generator)
    return starts.int(), columns, values, x, torch.zeros(rows, device=device)


def lengths(rows: int, mean: int, device: torch.device) -> torch.Tensor:
    """How many entries the rows have, before they are shuffled: the same for every seed."""
    place = torch.arange(rows, device=device) % PERIOD
    usual = 1 + place * (mean - 1) // PERIOD
    return torch.where(place == 1, mean * LONG, torch.where(place == 2, 0, usual))


def total(rows: int, mean: int) -> int:
    """How many entries there are."""
    return int(lengths(rows, mean, torch.device("cpu")).sum())


def ref_kernel(data: input_t) -> output_t:
    """The product in float64, rounded once."""
    *_, output = data
    return output.copy_(sums(data)[0])


def check_implementation(data: input_t, output: output_t) -> tuple[bool, str]:
    """Compares with float64: |y - want| <= RTOL * the sum of the terms' magnitudes."""
    buffer = data[-1]
    if output.dtype != buffer.dtype or output.shape != buffer.shape:
        return False, f"got {output.dtype} {list(output.shape)}, expected {list(buffer.shape)}"
    want, magnitude = sums(data)
    # A NaN is not <= anything, so it counts as wrong.
    wrong = ~((output - want).abs() <= RTOL * magnitude)
    count = int(wrong.sum())
    if count == 0:
        return True, ""
    row = int(wrong.to(torch.uint8).argmax())
    pair = f"got {output[row].item()}, expected {want[row].item()}"
    return False, f"{count} of {len(wrong)} rows differ, the first is {row}: {pair}"


def sums(data: input_t) -> tuple[torch.Tensor, torch.Tensor]:
    """For each row the sum of its terms and of their magnitudes, as float64."""
    starts, columns, values, x, output = data
    terms = values.double() * x[columns].double()
    rows = torch.repeat_interleave((starts[1:] - starts[:-1]).long(), output_size=len(terms))
    empty = torch.zeros(len(output), dtype=torch.float64, device=output.device)
    return empty.index_add(0, rows, terms), empty.index_add(0, rows, terms.abs())
