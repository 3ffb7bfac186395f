import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    source, output = data
    # Your kernel goes here. This one keeps whole numbers alone.
    return torch.round(source, out=output)
