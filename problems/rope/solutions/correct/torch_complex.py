#!POPCORN leaderboard rope
"""As a product of complex numbers."""

import torch


def custom_kernel(data):
    q, k, cosines, sines, positions = data
    turn = torch.complex(cosines[positions], sines[positions])[:, None]
    for tensor in (q, k):
        first, second = tensor.float().chunk(2, dim=2)
        product = torch.complex(first, second) * turn
        tensor.copy_(torch.cat([product.real, product.imag], dim=2))
    return q, k
