//!POPCORN leaderboard axpy
//!POPCORN gpus H100 H200 B200 A100
//!WARPBOARD flags: --extended-lambda --expt-relaxed-constexpr
// ThunderKittens: vectors of values in the registers of a warp, and a tail.
#include "kittens.cuh"
#include "warpboard.h"
#include <cstdlib>

using namespace kittens;

constexpr int LENGTH = 512;
constexpr int THREADS = 32;
using values = gl<float, 1, 1, 1, -1>;
using vector = rv<float, LENGTH, ducks::rv_layout::naive>;

__global__ void axpy(float a, values x, values y, values output) {
    vector own_x, own_y;
    const coord<vector> place{static_cast<int>(blockIdx.x)};
    warp::load(own_x, x, place);
    warp::load(own_y, y, place);
    warp::mul(own_x, own_x, a);
    warp::add(own_y, own_y, own_x);
    warp::store(output, own_y, place);
}

__global__ void axpy_tail(float a, const float *x, const float *y, float *output, int count) {
    for (int i = threadIdx.x; i < count; i += THREADS) {
        output[i] = y[i] + a * x[i];
    }
}

int custom_kernel(const wb_tensor *inputs, int, wb_tensor *outputs, int, const char *scalars_json,
                  void *stream) {
    const float a = std::strtof(scalars_json + 1, nullptr);
    auto *x = static_cast<float *>(inputs[0].data);
    auto *y = static_cast<float *>(inputs[1].data);
    auto *output = static_cast<float *>(outputs[0].data);
    const int size = static_cast<int>(wb_numel(outputs));
    const int whole = size / LENGTH * LENGTH;
    const auto cuda_stream = static_cast<cudaStream_t>(stream);
    const auto view = [size](float *data) {
        return values{data, nullptr, nullptr, nullptr, static_cast<size_t>(size)};
    };
    if (whole > 0) {
        axpy<<<whole / LENGTH, THREADS, 0, cuda_stream>>>(a, view(x), view(y), view(output));
    }
    if (whole < size) {
        axpy_tail<<<1, THREADS, 0, cuda_stream>>>(a, x + whole, y + whole, output + whole,
                                                  size - whole);
    }
    return cudaGetLastError();
}
