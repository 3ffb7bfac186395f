#!POPCORN leaderboard conv2d
#!POPCORN gpus CPU
"""Row by row: a row of the image is added to a row of the output with each of nine weights."""

import numba


@numba.njit(
    "void(float32[:, :, ::1], float32[:, :, :, ::1], float32[:, :, ::1])", fastmath={"contract"}
)
def convolve(padded, filters, output):
    count, height, width = output.shape
    for f in range(count):
        for i in range(height):
            target = output[f, i]
            target[:] = 0
            for c in range(padded.shape[0]):
                w = filters[f, c]
                top, middle, bottom = padded[c, i], padded[c, i + 1], padded[c, i + 2]
                for j in range(width):
                    target[j] += (
                        w[0, 0] * top[j] + w[0, 1] * top[j + 1] + w[0, 2] * top[j + 2]
                        + w[1, 0] * middle[j] + w[1, 1] * middle[j + 1] + w[1, 2] * middle[j + 2]
                        + w[2, 0] * bottom[j] + w[2, 1] * bottom[j + 1] + w[2, 2] * bottom[j + 2]
                    )  # fmt: skip


def custom_kernel(data):
    import torch

    image, filters, output = data
    padded = torch.nn.functional.pad(image, (1, 1, 1, 1))
    convolve(padded.numpy(), filters.numpy(), output.numpy())
    return output
