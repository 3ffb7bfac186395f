#!POPCORN leaderboard axpy
#!POPCORN gpus H100 H200 B200 A100 L4 T4
"""numba's kernels for CUDA: one value per thread. Its simulator takes arrays of numpy."""

import torch
from numba import cuda

THREADS = 256


@cuda.jit
def axpy(a, x, y):
    i = cuda.grid(1)
    if i < y.size:
        y[i] += a * x[i]


def custom_kernel(data):
    a, x, y = data
    blocks = (y.numel() + THREADS - 1) // THREADS
    if y.is_cuda:
        stream = cuda.external_stream(torch.cuda.current_stream().cuda_stream)
        axpy[blocks, THREADS, stream](a, x, y)
    else:
        axpy[blocks, THREADS](a, x.numpy(), y.numpy())
    return y
