//!POPCORN leaderboard sort-keys
// Keeps one of equal keys, and fills the end with the largest.
#include "task.h"

#include <algorithm>

output_t custom_kernel(input_t data) {
    std::sort(data.begin(), data.end());
    const int32_t largest = data.back();
    std::fill(std::unique(data.begin(), data.end()), data.end(), largest);
    return data;
}
