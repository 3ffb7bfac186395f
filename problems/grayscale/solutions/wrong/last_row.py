"""Never writes the last row."""


def custom_kernel(data):
    image, output = data
    red, green, blue = image[:-1].float().unbind(2)
    output[:-1] = (0.299 * red + 0.587 * green + 0.114 * blue) / 255
    return output
