#!POPCORN leaderboard life
#!POPCORN gpus H100 H200 B200 A100 L4 T4 MI300X
"""A launch for each generation, a block of cells for each program."""

import torch
import triton
import triton.language as tl

BLOCK = 256


@triton.jit
def generation(here, there, height, width, BLOCK: tl.constexpr):
    i = tl.program_id(0)
    j = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = j < width
    left = tl.where(j == 0, width - 1, j - 1)
    right = tl.where(j + 1 == width, 0, j + 1)
    total = tl.zeros((BLOCK,), tl.int32)
    for a in range(3):
        row = here + ((i + a + height - 1) % height) * width
        total += tl.load(row + left, mask=inside, other=0).to(tl.int32)
        total += tl.load(row + j, mask=inside, other=0).to(tl.int32)
        total += tl.load(row + right, mask=inside, other=0).to(tl.int32)
    cell = tl.load(here + i * width + j, mask=inside, other=0)
    lives = (total == 3) | ((total == 4) & (cell == 1))
    tl.store(there + i * width + j, lives.to(tl.uint8), mask=inside)


def custom_kernel(data):
    cells, steps, output = data
    height, width = cells.shape
    grid = (height, triton.cdiv(width, BLOCK))
    # The last generation goes into the buffer, the others to and fro.
    fields = [output, torch.empty_like(output)] if steps % 2 else [torch.empty_like(output), output]
    for step in range(steps):
        here = cells if step == 0 else fields[1 - step % 2]
        generation[grid](here, fields[step % 2], height, width, BLOCK=BLOCK)
    return output
