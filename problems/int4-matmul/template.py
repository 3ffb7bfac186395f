from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    x, packed, scales, zeros, output = data
    # Your kernel goes here. This one takes the low half of each byte alone.
    return output.copy_(x.float()[:, 0::2] @ (packed & 15).float().T)
