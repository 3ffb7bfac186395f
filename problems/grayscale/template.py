from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    image, output = data
    # Your kernel goes here. This one looks at red alone.
    return output.copy_(image[..., 0]).div_(255)
