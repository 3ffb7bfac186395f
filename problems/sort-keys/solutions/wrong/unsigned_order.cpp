//!POPCORN leaderboard sort-keys
// Compares keys as unsigned numbers, so negative keys come last.
#include "task.h"

#include <algorithm>
#include <cstdint>

output_t custom_kernel(input_t data) {
    std::sort(data.begin(), data.end(), [](int32_t left, int32_t right) {
        return static_cast<uint32_t>(left) < static_cast<uint32_t>(right);
    });
    return data;
}
