# id: S15 stop_self
# expect: timed_out
# budgets: build=5 test=0.5
import os
import signal


def custom_kernel(data):
    os.kill(os.getpid(), signal.SIGSTOP)
