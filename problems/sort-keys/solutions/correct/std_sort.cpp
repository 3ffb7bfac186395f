//!POPCORN leaderboard sort-keys
// The library's sort, by comparisons.
#include "task.h"

#include <algorithm>

output_t custom_kernel(input_t data) {
    std::sort(data.begin(), data.end());
    return data;
}
