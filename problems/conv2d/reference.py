"""The cross-correlation of an image with filters of 3 x 3, taken in float64."""

import torch
from task import input_t, output_t
from utils import get_device

# Seventeen roundings' worth for each term; statement.md says why.
ATOL_PER_TERM = 1e-6
TAPS = 9


def generate_input(channels: int, filters: int, height: int, width: int, seed: int) -> input_t:
    """An image and filters of float32 from [-1, 1), and a buffer."""
    device = get_device()
    generator = torch.Generator(device).manual_seed(seed)
    image = torch.empty(channels, height, width, device=device)
    taps = torch.empty(filters, channels, 3, 3, device=device)
    output = torch.zeros(filters, height, width, device=device)
    image.uniform_(-1, 1, generator=generator)
    return image, taps.uniform_(-1, 1, generator=generator), output


def ref_kernel(data: input_t) -> output_t:
    """The sums in float64, rounded once."""
    image, filters, output = data
    return output.copy_(expected(image, filters))


def check_implementation(data: input_t, output: output_t) -> tuple[bool, str]:
    """Compares with float64; the bound grows with the number of terms."""
    image, filters, buffer = data
    if output.dtype != buffer.dtype or output.shape != buffer.shape:
        return False, f"got {output.dtype} {list(output.shape)}, expected {list(buffer.shape)}"
    want = expected(image, filters)
    atol = ATOL_PER_TERM * TAPS * len(image)
    # A NaN is not <= anything, so it counts as wrong.
    wrong = ~((output - want).abs() <= atol)
    count = int(wrong.sum())
    if count == 0:
        return True, ""
    place = tuple(wrong.nonzero()[0].tolist())
    pair = f"got {output[place].item()}, expected {want[place].item()} within {atol:.1e}"
    return False, f"{count} of {want.numel()} values differ, the first at {list(place)}: {pair}"


def expected(image: torch.Tensor, filters: torch.Tensor) -> torch.Tensor:
    """Nine products of matrices, one for each place of a filter."""
    channels, height, width = image.shape
    padded = torch.nn.functional.pad(image.double(), (1, 1, 1, 1))
    wide = filters.double()
    total = wide.new_zeros(len(filters), height * width)
    for i in range(3):
        for j in range(3):
            shifted = padded[:, i : i + height, j : j + width].reshape(channels, -1)
            total.addmm_(wide[:, :, i, j], shifted)
    return total.view(len(filters), height, width)
