# id: control noop
# expect: wrong_answer
# says: never written
def custom_kernel(data):
    return data[2]
