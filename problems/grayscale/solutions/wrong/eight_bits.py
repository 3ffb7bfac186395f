"""Weights in eight bits, as old hardware has it."""


def custom_kernel(data):
    image, output = data
    red, green, blue = image.int().unbind(2)
    return output.copy_((77 * red + 150 * green + 29 * blue).float() / (256 * 255))
