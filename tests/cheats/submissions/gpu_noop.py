# id: control gpu_noop
# expect: wrong_answer
# gpu: yes
def custom_kernel(data):
    return data[2]
