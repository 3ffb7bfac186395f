"""nvcc compiles the program that states the procedure, beside a kernel; no GPU is needed."""

import subprocess
from pathlib import Path

import pytest

from shared.problems.compilation import compile_problem
from tests.problems.test_evaluation_files import written
from tests.support.examples import CPP

KERNEL = """\
#include "task.h"

__global__ void twice(float *values, int count) {
    if (int(threadIdx.x) < count) values[threadIdx.x] *= 2;
}

output_t custom_kernel(input_t data) {
    float *values;
    const size_t bytes = data.size() * sizeof(float);
    CUDA_CHECK(cudaMalloc(&values, bytes));
    CUDA_CHECK(cudaMemcpy(values, data.data(), bytes, cudaMemcpyHostToDevice));
    twice<<<1, 64>>>(values, data.size());
    CUDA_CHECK(cudaMemcpy(data.data(), values, bytes, cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaFree(values));
    return data;
}
"""
COMPILE_S = 300


@pytest.mark.long
def test_nvcc_compiles_the_evaluation_without_a_warning(nvcc: str, tmp_path: Path) -> None:
    folder = written(tmp_path, compile_problem("one", {"reference.cu": CPP.encode()}), KERNEL)
    command = [nvcc, "-O3", "-std=c++20", "-Werror", "all-warnings", "eval.cu", "-o", "eval"]
    ended = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=COMPILE_S, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, ""), ended.stderr
