#!POPCORN gpus H100 H200 B200 A100 L4 T4
"""CUDA in a string, launched for whole blocks alone."""

import ctypes

import torch
from torch.utils.cpp_extension import load_inline

CUDA_SOURCE = r"""
#include <cuda_runtime.h>

__global__ void axpy(float a, const float *x, float *y, long long size) {
    const long long i = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x;
    if (i < size) {
        y[i] += a * x[i];
    }
}

extern "C" int launch(float a, const float *x, float *y, long long size, void *stream) {
    const auto blocks = static_cast<unsigned>(size / 256);
    if (blocks == 0) {
        return 0;
    }
    axpy<<<blocks, 256, 0, static_cast<cudaStream_t>(stream)>>>(a, x, y, size);
    return cudaGetLastError();
}
"""

library = load_inline(
    "axpy_inline_wrong",
    cpp_sources="",
    cuda_sources=CUDA_SOURCE,
    no_implicit_headers=True,
    is_python_module=False,
)
launch = ctypes.CDLL(library).launch
launch.argtypes = (
    *(ctypes.c_float, ctypes.c_void_p, ctypes.c_void_p),
    *(ctypes.c_longlong, ctypes.c_void_p),
)


def custom_kernel(data):
    a, x, y = data
    stream = torch.cuda.current_stream().cuda_stream
    status = launch(a, x.data_ptr(), y.data_ptr(), y.numel(), stream)
    if status != 0:
        raise RuntimeError(f"CUDA error {status}")
    return y
