from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    starts, columns, values, x, output = data
    # Your kernel goes here. This one counts the entries of every row.
    return output.copy_(starts[1:] - starts[:-1])
