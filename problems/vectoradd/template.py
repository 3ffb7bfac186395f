import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    a, b, output = data
    # Your kernel goes here. This one takes the larger of the two values.
    return torch.maximum(a, b, out=output)
