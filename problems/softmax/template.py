import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    x, output = data
    # Your kernel goes here. This one does not divide by the sum of the row.
    return torch.exp(x, out=output)
