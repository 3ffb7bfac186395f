#!POPCORN leaderboard grayscale
#!POPCORN gpus CPU
"""Each pixel times the weights, as a matrix product; on a GPU this may be one in TF32."""

import torch

WEIGHTS = torch.tensor([0.299, 0.587, 0.114]) / 255


def custom_kernel(data):
    image, output = data
    return torch.matmul(image.float(), WEIGHTS, out=output)
