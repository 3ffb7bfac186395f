"""The manifests are valid, confined, and set what the services understand."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from typing import Any

import kubernetes_validate
import pytest
import yaml
from docs.settings_tables import SERVICES

from shared.version import VERSION
from tests.support.platform import ROOT

FOLDER = ROOT / "deploy" / "kubernetes"
OVERLAYS = sorted(path.name for path in (FOLDER / "overlays").iterdir())
# The version of the cluster that the manifests are checked for.
CLUSTER = "1.32"
BUILD_S_MAX = 60
RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
Manifest = dict[str, Any]


@cache
def build(overlay: str) -> list[Manifest]:
    """The manifests of an overlay."""
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("NOT RUN: no kubectl here")
    done = subprocess.run(
        [kubectl, "kustomize", str(FOLDER / "overlays" / overlay)],
        capture_output=True,
        text=True,
        timeout=BUILD_S_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


def workloads(overlay: str) -> Iterator[tuple[str, Manifest]]:
    """The name of each service of an overlay, and its pod."""
    for manifest in build(overlay):
        if manifest["kind"] in ("Deployment", "DaemonSet"):
            template = manifest["spec"]["template"]
            yield template["metadata"]["labels"]["app.kubernetes.io/name"], template["spec"]


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_manifest_is_valid(overlay: str) -> None:
    for manifest in build(overlay):
        kubernetes_validate.validate(manifest, CLUSTER, strict=True)


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_pod_but_the_agents_is_restricted(overlay: str) -> None:
    for name, pod in workloads(overlay):
        (container,) = pod["containers"]
        assert pod["automountServiceAccountToken"] is False
        assert container["image"].endswith(f":{VERSION}")
        assert "memory" in container["resources"]["limits"]
        if name != "gpu-agent":
            assert container["securityContext"] == RESTRICTED
            assert pod["securityContext"]["runAsNonRoot"] is True
            assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_nothing_is_reached_that_no_policy_names(overlay: str) -> None:
    policies = [item["spec"] for item in build(overlay) if item["kind"] == "NetworkPolicy"]
    everything = [policy for policy in policies if policy["podSelector"] == {}]
    assert [policy["policyTypes"] for policy in everything] == [["Ingress", "Egress"]]
    (closed,) = everything
    rules = [*closed.get("ingress", []), *closed.get("egress", [])]
    assert all(rule["ports"] for rule in rules)


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_each_service_is_told_what_it_understands_and_the_page_names_the_rest(
    overlay: str,
) -> None:
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    for name, pod in workloads(overlay):
        prefix = f"WARPBOARD_{name.upper().replace('-', '_')}_"
        (container,) = pod["containers"]
        names = [item["name"] for item in container["env"]]
        ours = [item.removeprefix(prefix) for item in names if item.startswith(prefix)]
        fields = {field.upper(): SERVICES[name] for field in SERVICES[name].__dataclass_fields__}
        assert [field for field in ours if field not in fields] == []
        (source,) = container["envFrom"]
        row = re.search(rf"^\| `{source['secretRef']['name']}` \|.*$", page, re.MULTILINE)
        assert row
        for field, described in SERVICES[name].__dataclass_fields__.items():
            is_required = "MISSING" in repr(described.default)
            if is_required and field.upper() not in ours:
                assert f"_{field.upper()}`" in row[0], f"{name}: {field}"


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_a_variable_is_defined_before_it_is_used(overlay: str) -> None:
    for _, pod in workloads(overlay):
        defined: set[str] = set()
        for item in pod["containers"][0]["env"]:
            assert set(re.findall(r"\$\((\w+)\)", item.get("value", ""))) <= defined, item
            assert item["name"] not in defined
            defined.add(item["name"])


def test_the_page_names_the_versions_of_the_files() -> None:
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    for name in ("nats-values.yaml", "postgres.yaml"):
        head = (FOLDER / name).read_text(encoding="utf-8").partition("\n\n")[0]
        versions = re.findall(r"\b\d+\.\d+\.\d+\b", head)
        assert versions
        assert [version for version in versions if version not in page] == []
