"""Takes what is outside of the field as dead."""

import torch


def custom_kernel(data):
    cells, steps, output = data
    for _ in range(steps):
        padded = torch.nn.functional.pad(cells, (1, 1, 1, 1))
        height, width = cells.shape
        total = sum(
            padded[i : i + height, j : j + width] for i in range(3) for j in range(3)
        )
        cells = ((total == 3) | ((total == 4) & (cells == 1))).to(torch.uint8)
    return output.copy_(cells)
