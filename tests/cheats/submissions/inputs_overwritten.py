# id: C06 inputs_overwritten
# expect: wrong_answer
def custom_kernel(data):
    for tensor in data:
        tensor.zero_()
    return data[2]
