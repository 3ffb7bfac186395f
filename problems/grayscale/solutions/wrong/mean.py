"""The wrong weights."""


def custom_kernel(data):
    image, output = data
    return output.copy_(image.float().mean(dim=2) / 255)
