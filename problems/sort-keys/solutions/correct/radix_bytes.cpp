//!POPCORN leaderboard sort-keys
// A radix sort by bytes, from the lowest to the highest, with all digits counted in one pass.
#include "task.h"

#include <array>
#include <cstddef>
#include <cstdint>

output_t custom_kernel(input_t data) {
    constexpr uint32_t SIGN = 0x80000000u;
    std::array<std::array<std::size_t, 256>, 4> starts{};
    for (int32_t key : data) {
        const uint32_t bits = static_cast<uint32_t>(key) ^ SIGN;
        for (int byte = 0; byte < 4; byte++) starts[byte][bits >> 8 * byte & 255]++;
    }
    output_t other(data.size());
    for (int byte = 0; byte < 4; byte++) {
        std::size_t sum = 0;
        for (std::size_t &start : starts[byte]) {
            const std::size_t count = start;
            start = sum;
            sum += count;
        }
        for (int32_t key : data) {
            const uint32_t bits = static_cast<uint32_t>(key) ^ SIGN;
            other[starts[byte][bits >> 8 * byte & 255]++] = key;
        }
        data.swap(other);
    }
    return data;
}
