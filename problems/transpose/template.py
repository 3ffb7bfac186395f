from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    x, output = data
    # Your kernel goes here. This one only gives the values another shape.
    return output.copy_(x.view(output.shape))
