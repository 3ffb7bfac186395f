"""A channel after the other, into the buffer."""


def custom_kernel(data):
    image, output = data
    red, green, blue = image.unbind(2)
    output.copy_(red).mul_(0.299 / 255)
    output.add_(green, alpha=0.587 / 255)
    return output.add_(blue, alpha=0.114 / 255)
