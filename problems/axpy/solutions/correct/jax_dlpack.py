#!POPCORN leaderboard axpy
#!POPCORN gpus H100 H200 B200 A100 L4 T4
"""JAX on torch's memory, handed over by dlpack; each length is compiled once."""

import jax
import torch


@jax.jit
def axpy(a, x, y):
    return y + a * x


def custom_kernel(data):
    a, x, y = data
    result = axpy(a, jax.dlpack.from_dlpack(x), jax.dlpack.from_dlpack(y))
    return torch.from_dlpack(result.block_until_ready())
