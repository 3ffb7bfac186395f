#!/bin/bash
# What a machine with one GPU can show, in one call of under ten minutes; call it again to go on.
# README.md here says what it needs and what it writes. All options are those of
#   python -m bench.gpu.first_hour --help
set -euo pipefail
cd "$(dirname "$0")/../.."
machine_python=${PYTHON:-python3}
environment=build/first-hour/python

# An environment of its own on top of the machine's Python, whose torch it uses. Nothing is written
# to that Python. Interpreters that ignore PYTHONPATH find our parts by the .pth file. If the
# machine's Python is itself a venv, --system-site-packages shows that of its base alone.
make_environment() {
    "$machine_python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
        { echo "$machine_python is no Python 3.11 or later: set PYTHON=/path/to/python" >&2; exit 2; }
    [ -x "$environment/bin/python" ] ||
        "$machine_python" -m venv --system-site-packages --without-pip "$environment"
    local packages='import sysconfig; print(sysconfig.get_path("purelib"))'
    {
        for folder in shared harness cli discord-sim services/*; do
            [ ! -d "$folder/src" ] || echo "$PWD/$folder/src"
        done
        echo "import site; site.addsitedir('$("$machine_python" -c "$packages")')"
    } > "$("$environment/bin/python" -c "$packages")/warpboard.pth"
}

# The packages of the platform, without which the catalogue and the pipeline are left out. Where no
# index answers, this costs some seconds, once.
add_packages() {
    local list=build/first-hour/packages.txt log=build/first-hour/packages.log
    "$environment/bin/python" -m bench.gpu.machine packages > "$list"
    timeout 90 "$machine_python" -m pip --python "$environment/bin/python" install -q --no-input \
        --disable-pip-version-check --retries 0 --timeout 5 -c constraints.txt -r "$list" \
        > "$log" 2>&1 ||
        echo "no packages could be installed ($log): what needs them is left out" >&2
    touch build/first-hour/packages-tried
}

if [ -e .venv/installed ]; then
    python=.venv/bin/python
else
    make_environment
    [ -e build/first-hour/packages-tried ] || add_packages
    python=$environment/bin/python
fi
exec "$python" -m bench.gpu.first_hour --spent "$SECONDS" "$@"
