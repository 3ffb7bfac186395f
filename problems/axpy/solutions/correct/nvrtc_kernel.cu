//!POPCORN leaderboard axpy
//!POPCORN gpus H100 H200 B200 A100 L4 T4
//!WARPBOARD compiler: nvrtc
//!WARPBOARD launch: grid=(outputs[0].numel() + 255) // 256, block=256, args=(outputs[0].numel(),)
// One CUDA kernel without host code. It gets the inputs, the outputs, the number and `args`.
extern "C" __global__ void custom_kernel(const float *__restrict__ x, const float *__restrict__ y,
                                         float *__restrict__ output, double a, long long size) {
    const long long i = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x;
    if (i < size) {
        output[i] = y[i] + static_cast<float>(a) * x[i];
    }
}
