"""A product of matrices in float32, which is exact here even if a GPU cuts it to TF32."""

import torch


def custom_kernel(data):
    queries, points, output = data
    wide = points.float()
    scores = torch.addmm(wide.square().sum(1), queries.float(), wide.T, alpha=-2)
    return output.copy_(scores.argmin(1))
