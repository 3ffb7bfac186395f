#!POPCORN leaderboard conv2d
"""A product of matrices for each place of a filter, added up in the buffer."""

import torch

torch.backends.cuda.matmul.allow_tf32 = False


def custom_kernel(data):
    image, filters, output = data
    channels, height, width = image.shape
    padded = torch.nn.functional.pad(image, (1, 1, 1, 1))
    total = output.view(len(filters), -1).zero_()
    for i in range(3):
        for j in range(3):
            shifted = padded[:, i : i + height, j : j + width].reshape(channels, -1)
            total.addmm_(filters[:, :, i, j], shifted)
    return output
