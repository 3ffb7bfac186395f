import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    x, output = data
    # Your kernel goes here. This one multiplies without the activation.
    gate, up = x.chunk(2, dim=1)
    return torch.mul(gate, up, out=output)
