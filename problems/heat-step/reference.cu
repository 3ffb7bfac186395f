//!POPCORN gpus H100 H200 B200 A100 L4 T4
// One explicit step of the heat equation on a grid with fixed edges.
#ifndef HEAT_STEP_REFERENCE
#define HEAT_STEP_REFERENCE

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

constexpr int ROWS = 2046, COLUMNS = 2050;
constexpr float RATE = 0.2f;

// ROWS x COLUMNS values, row by row.
using input_t = std::vector<float>;
using output_t = std::vector<float>;

inline input_t generate_input(int64_t seed) {
    std::mt19937_64 engine(static_cast<uint64_t>(seed));
    std::normal_distribution<float> values;
    input_t grid(static_cast<std::size_t>(ROWS) * COLUMNS);
    for (float &value : grid) value = values(engine);
    return grid;
}

inline output_t ref_kernel(input_t grid) {
    output_t next = grid;
    for (int row = 1; row < ROWS - 1; row++)
        for (int column = 1; column < COLUMNS - 1; column++) {
            const int at = row * COLUMNS + column;
            const float around =
                grid[at - COLUMNS] + grid[at + COLUMNS] + grid[at - 1] + grid[at + 1];
            next[at] = grid[at] + RATE * (around - 4.0f * grid[at]);
        }
    return next;
}

// Other orders of the sum round differently, by a few units of 6e-8 of values up to about 20.
inline bool check_implementation(output_t output, output_t expected) {
    if (output.size() != expected.size()) return false;
    for (std::size_t i = 0; i < expected.size(); i++)
        // Written so that NaN is wrong.
        if (!(std::fabs(output[i] - expected[i]) <= 1e-5f)) return false;
    return true;
}

#endif
