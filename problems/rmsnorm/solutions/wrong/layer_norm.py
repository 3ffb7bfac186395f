"""Takes the mean off first."""

import torch


def custom_kernel(data):
    x, residual, weight, output = data
    residual.add_(x)
    wide = residual.float()
    return residual, output.copy_(
        torch.nn.functional.layer_norm(wide, weight.shape, weight.float(), None, 1e-6)
    )
