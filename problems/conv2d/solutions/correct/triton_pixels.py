#!POPCORN leaderboard conv2d
#!POPCORN gpus H100 H200 B200 A100 L4 T4 MI300X
"""A tile of pixels for several filters: every pixel that is read is used for all of them."""

import triton
import triton.language as tl

PIXELS, FILTERS = 128, 16


@triton.jit
def convolve(
    image,
    taps,
    output,
    channels,
    filters,
    height,
    width,
    PIXELS: tl.constexpr,
    FILTERS: tl.constexpr,
):
    at = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS)
    f = tl.program_id(1) * FILTERS + tl.arange(0, FILTERS)
    i, j = at // width, at % width
    total = tl.zeros((FILTERS, PIXELS), tl.float32)
    for c in range(channels):
        for tap in tl.static_range(9):
            y, x = i + tap // 3 - 1, j + tap % 3 - 1
            inside = (y >= 0) & (y < height) & (x >= 0) & (x < width)
            pixels = tl.load(image + (c * height + y) * width + x, mask=inside, other=0.0)
            weights = tl.load(taps + (f * channels + c) * 9 + tap, mask=f < filters, other=0.0)
            total += weights[:, None] * pixels[None, :]
    kept = (f[:, None] < filters) & (at[None, :] < height * width)
    tl.store(output + f[:, None] * (height * width) + at[None, :], total, mask=kept)


def custom_kernel(data):
    image, taps, output = data
    filters, height, width = output.shape
    grid = (triton.cdiv(height * width, PIXELS), triton.cdiv(filters, FILTERS))
    sizes = (len(image), filters, height, width)
    convolve[grid](image, taps, output, *sizes, PIXELS=PIXELS, FILTERS=FILTERS)
    return output
