//!POPCORN leaderboard heat-step
//!POPCORN gpus H100 H200 B200 A100 L4 T4
// Computes the edges too, with the nearest points for the missing ones.
#include "task.h"
#include "wb_device.h"

__global__ void step(const float *grid, float *next) {
    const int column = blockIdx.x * blockDim.x + threadIdx.x;
    const int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= ROWS || column >= COLUMNS) return;
    const int at = row * COLUMNS + column;
    float value = grid[at];
    const float above = row > 0 ? grid[at - COLUMNS] : value;
    const float below = row < ROWS - 1 ? grid[at + COLUMNS] : value;
    const float left = column > 0 ? grid[at - 1] : value;
    const float right = column < COLUMNS - 1 ? grid[at + 1] : value;
    value += RATE * (above + below + left + right - 4.0f * value);
    next[at] = value;
}

void custom_kernel(wb::device<input_t> data, wb::device<output_t> output) {
    const dim3 block(64, 4);
    const dim3 blocks((COLUMNS + block.x - 1) / block.x, (ROWS + block.y - 1) / block.y);
    step<<<blocks, block>>>(data.data, output.data);
}
