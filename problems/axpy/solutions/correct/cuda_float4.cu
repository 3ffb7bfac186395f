//!POPCORN leaderboard axpy
//!POPCORN gpus H100 H200 B200 A100 L4 T4
// CUDA C++ with host code: four values per thread, and a tail.
#include "warpboard.h"
#include <cstdlib>

__global__ void axpy(float a, const float *__restrict__ x, const float *__restrict__ y,
                     float *__restrict__ output, int64_t size) {
    const int64_t first = 4 * (blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x);
    if (first + 4 <= size) {
        const float4 u = *reinterpret_cast<const float4 *>(x + first);
        float4 v = *reinterpret_cast<const float4 *>(y + first);
        v.x += a * u.x;
        v.y += a * u.y;
        v.z += a * u.z;
        v.w += a * u.w;
        *reinterpret_cast<float4 *>(output + first) = v;
        return;
    }
    for (int64_t i = first; i < size; i++) {
        output[i] = y[i] + a * x[i];
    }
}

int custom_kernel(const wb_tensor *inputs, int, wb_tensor *outputs, int, const char *scalars_json,
                  void *stream) {
    constexpr int threads = 256;
    const int64_t size = wb_numel(outputs);
    const auto blocks = static_cast<unsigned>((size + 4 * threads - 1) / (4 * threads));
    axpy<<<blocks, threads, 0, static_cast<cudaStream_t>(stream)>>>(
        std::strtof(scalars_json + 1, nullptr), static_cast<const float *>(inputs[0].data),
        static_cast<const float *>(inputs[1].data), static_cast<float *>(outputs[0].data), size);
    return cudaGetLastError();
}

const char *wb_error() { return cudaGetErrorString(cudaGetLastError()); }
