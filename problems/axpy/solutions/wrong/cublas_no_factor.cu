//!POPCORN gpus H100 H200 B200 A100 L4 T4
//!WARPBOARD flags: -lcublas
// cuBLAS: adds x to y without the factor.
#include "warpboard.h"
#include <cublas_v2.h>

static cublasHandle_t handle() {
    static cublasHandle_t created = nullptr;
    if (created == nullptr) {
        cublasCreate(&created);
    }
    return created;
}

int custom_kernel(const wb_tensor *inputs, int, wb_tensor *outputs, int, const char *,
                  void *stream) {
    const float a = 1.0f;
    const auto *x = static_cast<const float *>(inputs[0].data);
    auto *output = static_cast<float *>(outputs[0].data);
    const int64_t size = wb_numel(outputs);
    const auto cuda_stream = static_cast<cudaStream_t>(stream);
    const cudaError_t copied = cudaMemcpyAsync(output, inputs[1].data, size * sizeof(float),
                                               cudaMemcpyDeviceToDevice, cuda_stream);
    if (copied != cudaSuccess) {
        return copied;
    }
    cublasSetStream(handle(), cuda_stream);
    return cublasSaxpy(handle(), static_cast<int>(size), &a, x, 1, output, 1);
}
