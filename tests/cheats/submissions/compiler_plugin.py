# id: S25 compile_attack
# expect: passed
# level: weak
# prints: LOOKED
# never_prints: GAINED
# A compiler's plug-in is a program: it may do no more than the submission.
import os
import subprocess

import torch

text = """
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/socket.h>
int plugin_is_GPL_compatible;
int plugin_init(void *info, void *version) {
    const char *paths[] = {"/etc/shadow", "/etc/passwd", "/proc/1/environ", 0};
    for (int i = 0; paths[i]; i++)
        if (fopen(paths[i], "r")) printf("GAINED %s\\n", paths[i]);
    if (socket(AF_INET, SOCK_STREAM, 0) >= 0) printf("GAINED socket\\n");
    if (fopen("/usr/lib/warpboard", "w")) printf("GAINED write\\n");
    printf("LOOKED %d\\n", (int)getuid() * 0);
    fflush(stdout);
    return 0;
}
"""
for name, content in (("plugin.c", text), ("plain.c", "int main(void) { return 0; }")):
    with open(name, "w") as file:
        file.write(content)
subprocess.run(["gcc", "-shared", "-fPIC", "-o", "plugin.so", "plugin.c"], check=True)
plugin = "-fplugin=" + os.path.abspath("plugin.so")
done = subprocess.run(["gcc", plugin, "-c", "plain.c"], capture_output=True, text=True)
print(done.stdout, done.stderr[-500:], flush=True)


def custom_kernel(data):
    left, right, out = data
    return torch.matmul(left, right, out=out)
