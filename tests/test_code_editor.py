"""The build of the web site's code editor."""

import json
import os
import subprocess
import sys
from pathlib import Path

WEB = Path(__file__).parent.parent / "web"
CLOSED = "http://127.0.0.1:9/"
BUILD_S = 60


def test_each_browser_package_is_pinned_by_hash_without_an_address() -> None:
    lock = json.loads((WEB / "package-lock.json").read_text(encoding="utf-8"))
    own, packages = lock["packages"].pop(""), lock["packages"]
    requested = own["dependencies"] | own["devDependencies"]
    assert requested == {name: packages[f"node_modules/{name}"]["version"] for name in requested}, (
        "web/package.json names exact versions"
    )
    for name, package in packages.items():
        assert package["integrity"].startswith("sha512-"), name
        assert "resolved" not in package, name


def test_a_build_without_a_network_fails_with_one_line(tmp_path: Path) -> None:
    offline = {
        "npm_config_cache": str(tmp_path / "cache"),
        "npm_config_registry": CLOSED,
        "PIP_INDEX_URL": CLOSED,
    }
    target = tmp_path / "built" / "code-editor.js"
    build = subprocess.run(
        [sys.executable, str(WEB / "build.py"), str(target)],
        env=os.environ | offline,
        capture_output=True,
        text=True,
        timeout=BUILD_S,
        check=False,
    )
    assert (build.returncode, build.stderr) == (1, "")
    assert build.stdout.startswith("The editor will be a plain text field, because")
    assert build.stdout.count("\n") == 1
    assert not target.exists()
