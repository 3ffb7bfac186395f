//!POPCORN gpus CPU
// Sorts signed keys in ascending order.
#ifndef SORT_KEYS_REFERENCE
#define SORT_KEYS_REFERENCE

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

// An odd number: vectors have a tail.
constexpr int KEYS = 250007;

using input_t = std::vector<int32_t>;
using output_t = std::vector<int32_t>;

inline input_t generate_input(int64_t seed) {
    std::mt19937_64 engine(static_cast<uint64_t>(seed));
    input_t keys(KEYS);
    for (int32_t &key : keys) key = static_cast<int32_t>(engine() >> 32);
    return keys;
}

inline output_t ref_kernel(input_t keys) {
    std::sort(keys.begin(), keys.end());
    return keys;
}

inline bool check_implementation(output_t output, output_t expected) { return output == expected; }

#endif
