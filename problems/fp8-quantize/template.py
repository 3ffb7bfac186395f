import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    x, codes, exponents = data
    # Your kernel goes here. This one does not scale.
    codes.copy_(x.clamp(-448, 448).to(torch.float8_e4m3fn).view(torch.uint8))
    return codes, exponents.zero_()
