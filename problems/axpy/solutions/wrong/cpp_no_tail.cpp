//!POPCORN gpus CPU
// C++ for the processor: handles whole blocks of four alone.
#include "warpboard.h"
#include <cstdlib>

int custom_kernel(const wb_tensor *inputs, int, wb_tensor *outputs, int, const char *scalars_json,
                  void *) {
    const float a = std::strtof(scalars_json + 1, nullptr);
    const float *x = static_cast<const float *>(inputs[0].data);
    const float *y = static_cast<const float *>(inputs[1].data);
    float *output = static_cast<float *>(outputs[0].data);
    const int64_t size = wb_numel(outputs) / 4 * 4;
    for (int64_t i = 0; i < size; i++) {
        output[i] = y[i] + a * x[i];
    }
    return 0;
}
