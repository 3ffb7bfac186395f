"""The library's convolution, in full float32 on a GPU too."""

import torch

torch.backends.cudnn.allow_tf32 = False


def custom_kernel(data):
    image, filters, output = data
    return output.copy_(torch.nn.functional.conv2d(image[None], filters, padding=1)[0])
