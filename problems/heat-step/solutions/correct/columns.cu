//!POPCORN leaderboard heat-step
//!POPCORN gpus H100 H200 B200 A100 L4 T4
// A thread walks down some rows of its column and keeps the last three values in registers.
#include "task.h"
#include "wb_device.h"

constexpr int ROWS_OF_THREAD = 8;

__global__ void step(const float *grid, float *next) {
    const int column = blockIdx.x * blockDim.x + threadIdx.x;
    const int first = blockIdx.y * ROWS_OF_THREAD;
    if (column >= COLUMNS) return;
    const bool is_edge = column == 0 || column == COLUMNS - 1;
    float above = first > 0 ? grid[(first - 1) * COLUMNS + column] : 0.0f;
    float here = grid[first * COLUMNS + column];
    for (int row = first; row < min(first + ROWS_OF_THREAD, ROWS); row++) {
        const int at = row * COLUMNS + column;
        const float below = row + 1 < ROWS ? grid[at + COLUMNS] : 0.0f;
        float value = here;
        if (!is_edge && row > 0 && row < ROWS - 1)
            value += RATE * (above + below + grid[at - 1] + grid[at + 1] - 4.0f * here);
        next[at] = value;
        above = here;
        here = below;
    }
}

void custom_kernel(wb::device<input_t> data, wb::device<output_t> output) {
    const dim3 blocks((COLUMNS + 255) / 256, (ROWS + ROWS_OF_THREAD - 1) / ROWS_OF_THREAD);
    step<<<blocks, 256>>>(data.data, output.data);
}
