from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    cells, steps, output = data
    # Your kernel goes here. This one believes that nothing ever changes.
    return output.copy_(cells)
