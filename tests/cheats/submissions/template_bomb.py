# id: S25 compile_attack
# expect: timed_out compile_error out_of_memory
# long: the compiler runs until its limit
# level: weak
# budgets: build=4
# A template of exponential depth: the compiler, its children and its memory end with the stage.
import subprocess

text = """
template <unsigned long N, unsigned long M> struct Bomb {
    static const unsigned long value = Bomb<N - 1, 2 * M>::value + Bomb<N - 1, 2 * M + 1>::value;
};
template <unsigned long M> struct Bomb<0, M> { static const unsigned long value = 1; };
int main() { return Bomb<40, 0>::value != 0; }
"""
with open("bomb.cpp", "w") as file:
    file.write(text)
done = subprocess.run(["g++", "-c", "bomb.cpp"], capture_output=True, text=True)
raise RuntimeError(f"Error building extension: {done.stderr[-500:]}")


def custom_kernel(data):
    return data[2]
