"""`python -m bench.gpu.machine find | doctor | probe | packages`: what a machine has, and lacks.

`find` prints the first GPU, `doctor` tries the walls of a box and names the toolchains, `probe`
opens the GPU as a run would; both write rows. `packages` prints what the platform requires besides
our own parts and torch. Only `probe` needs torch.
"""

import argparse
import ctypes
import importlib
import importlib.util
import json
import platform
import re
import shutil
import time
import tomllib
import uuid
from pathlib import Path
from typing import Any

from bench.gpu.table import NO, NOTHING, UNSHOWN, YES, Row, print_row, write
from harness.devices.access import probe_device
from harness.devices.cuda import host
from harness.devices.cuda.driver import Driver, Nvrtc
from harness.devices.device import DeviceFault
from harness.entry import isolation, toolchains

MODULES = ("torch", "numpy", "numba", "triton", "cupy", "msgspec", "fastapi")
PROGRAMS = ("nvidia-smi", "nvcc", "ncu", "nvidia-cuda-mps-control", "gcc")
RANKED_TIERS = ("G1", "G2")

ROOT = Path(__file__).parents[2]
PROJECTS = ("shared", "harness", "cli", "services/*")
EXTRAS = ("services", "http", "up")
# The machine's own torch is used: the one of an index brings gigabytes, and may not fit its driver.
OWN = re.compile(r"(warpboard-.*|torch)\b")


def main() -> None:
    """Do what was asked for; exit with a message where there is no GPU."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("find", "doctor", "probe", "packages"))
    parser.add_argument("--imitation", action="store_true", help="of a GPU; shows nothing of one")
    parser.add_argument("--out", type=Path, default=Path("machine.json"))
    options = parser.parse_args()
    if options.what == "packages":
        print(*_list_packages(), sep="\n")
        return
    if options.what == "find":
        print(json.dumps(_find_gpu(is_imitation=options.imitation)))
        return
    find_rows = _doctor_rows if options.what == "doctor" else _probe_rows
    rows = find_rows(is_imitation=options.imitation)
    for row in rows:
        print_row(row)
    write(rows, {"python": platform.python_version(), "kernel": platform.platform()}, options.out)


def _list_packages() -> list[str]:
    """The requirements of all parts, each once."""
    required = set()
    for path in (path for part in PROJECTS for path in ROOT.glob(f"{part}/pyproject.toml")):
        project = tomllib.loads(path.read_text(encoding="utf-8"))["project"]
        extras = project.get("optional-dependencies", {})
        required |= set(project.get("dependencies", ()))
        required |= {package for name in EXTRAS for package in extras.get(name, ())}
    return sorted(package for package in required if not OWN.match(package))


def _find_gpu(*, is_imitation: bool) -> dict[str, str]:
    """The first GPU of CUDA's driver. Errors: SystemExit without one."""
    try:
        driver = _imitated_driver() if is_imitation else Driver()
        device = driver.number("cuDeviceGet", 0)
        name, identity = ctypes.create_string_buffer(256), ctypes.create_string_buffer(16)
        driver("cuDeviceGetName", name, len(name), device)
        driver("cuDeviceGetUuid_v2", identity, device)
    except DeviceFault as fault:
        raise SystemExit(f"no NVIDIA GPU can be used here: {fault}") from fault
    return {"name": name.value.decode(), "uuid": f"GPU-{uuid.UUID(identity.raw.hex())}"}


def _imitated_driver() -> Driver:
    imitation: Any = importlib.import_module("bench.gpu.imitation")
    driver: Driver = imitation.fake_driver.Machine(imitation.NAME)
    return driver


def _doctor_rows(*, is_imitation: bool) -> list[Row]:
    """Isolation is the machine's own, so on an imitation too it is that of this machine."""
    del is_imitation
    began = time.monotonic()
    here = isolation()
    took_s = time.monotonic() - began
    missing = [f"{wall.wall}: {wall.reason} ({wall.fix})" for wall in here.missing]
    said = f"{here.level}; missing: {'; '.join(missing) or 'nothing'}"
    is_strong = YES if here.level == "strong" else NO
    data = {"level": here.level, "walls": here.walls}
    level = Row("level", "walls of a box", "strong", said, is_strong, round(took_s, 2), data)
    tools = ", ".join(f"{name} {version}" for name, version in sorted(toolchains().items()))
    return [
        level,
        Row("toolchains", "what can be built here", "", tools or "none", NOTHING, 0.0, {}),
        Row("software", "what experiments use", "", _describe_software(), NOTHING, 0.0, {}),
    ]


def _describe_software() -> str:
    try:
        nvrtc = f"NVRTC {Nvrtc().path}"
    except DeviceFault as fault:
        nvrtc = str(fault)
    has = [name for name in MODULES if importlib.util.find_spec(name)]
    has += [name for name in PROGRAMS if shutil.which(name)]
    lacks = [name for name in (*MODULES, *PROGRAMS) if name not in has]
    return f"has {' '.join(has)}; lacks {' '.join(lacks) or 'nothing'}; {nvrtc}"


def _probe_rows(*, is_imitation: bool) -> list[Row]:
    what, expected = "the GPU as a run opens it", f"tier {' or '.join(RANKED_TIERS)}"
    began = time.monotonic()
    if is_imitation:
        device = importlib.import_module("bench.gpu.imitation").open_device()
        said = f"flush of {device.facts.flush_bytes} bytes, clock {device.facts.clock}"
        return [Row("tier", what, expected, said, UNSHOWN, round(time.monotonic() - began, 2), {})]
    walls = isolation().walls
    try:
        info = probe_device("cuda", walls)
    except DeviceFault as fault:
        took_s = round(time.monotonic() - began, 2)
        return [Row("tier", what, expected, str(fault), NO, took_s, {"tier": ""})]
    daemon = "with" if host.is_mps_running() else "without"
    details = ", ".join(f"{name} {value}" for name, value in info.environment.items())
    verdict = YES if info.tier in RANKED_TIERS else NO
    data = {"tier": info.tier, "environment": info.environment}
    said = f"{info.tier} {daemon} MPS; {details}"
    return [Row("tier", what, expected, said, verdict, round(time.monotonic() - began, 2), data)]


if __name__ == "__main__":
    main()
