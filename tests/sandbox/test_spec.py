"""A spec tells the worker's paths, and survives the way to the zygote."""

from harness.sandbox.box import WALLS, BoxSpec, Limits, spec_from_json, spec_to_json

SPEC = BoxSpec(
    walls=WALLS,
    limits=Limits(cpu_s=7),
    submission="/srv/shown",
    main="kernel.py",
    environment={"HOME": "/scratch"},
    devices=("/dev/nvidia0",),
    ranks=2,
    scratch="/srv/scratch",
)


def test_a_spec_survives_its_json() -> None:
    assert spec_from_json(spec_to_json(SPEC)) == SPEC


def test_a_worker_with_a_root_of_its_own_sees_other_paths() -> None:
    assert (SPEC.home, SPEC.path) == ("/scratch", "/submission/kernel.py")


def test_a_worker_without_one_sees_the_machine_s() -> None:
    bare = BoxSpec((), Limits(), "/srv/shown", "kernel.py", scratch="/srv/scratch")
    assert (bare.home, bare.path) == ("/srv/scratch", "/srv/shown/kernel.py")
