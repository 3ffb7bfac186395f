# id: S13 stdout_flood
# expect: output_limit
import os


def custom_kernel(data):
    while True:
        os.write(1, b"y" * 65536)
