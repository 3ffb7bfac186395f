"""The samples of proxies, with the real programs in front of a small server."""

import getpass
import json
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest
import trustme

from tests.support.platform import ROOT
from tests.support.waits import find_free_ports, until

PROXIES = ROOT / "deploy" / "proxy"
BODY_BYTES = 16 * 1024 * 1024
UP_S_MAX = 30
STOP_S_MAX = 15
CLIENT = "127.0.0.1"
FORGED = "203.0.113.9"
NGINX = """user {user}; daemon off; pid {folder}/pid; error_log stderr; worker_processes 1;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include {folder}/warpboard.conf;
}}
"""


class Upstream(BaseHTTPRequestHandler):
    """Answers with what it received; a stream sends its second event when it is told to."""

    protocol_version = "HTTP/1.1"
    may_go_on = threading.Event()

    def do_GET(self) -> None:
        """Send one event, wait, and send another one."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for event in (b"data: 1\n\n", b"data: 2\n\n"):
            self.wfile.write(event)
            self.wfile.flush()
            self.may_go_on.wait(UP_S_MAX)
        self.close_connection = True

    def do_POST(self) -> None:
        """Say how long the body was, and where it came from."""
        size = len(self.rfile.read(int(self.headers["Content-Length"])))
        forwarded = self.headers.get_all("X-Forwarded-For")
        body = json.dumps({"bytes": size, "forwarded": forwarded}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Log nothing."""


@pytest.fixture
def upstream() -> Iterator[str]:
    """The address of a server in the place of ingest."""
    Upstream.may_go_on = threading.Event()
    with ThreadingHTTPServer((CLIENT, 0), Upstream) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"{CLIENT}:{server.server_port}"
        Upstream.may_go_on.set()
        server.shutdown()
        thread.join(STOP_S_MAX)


def find_program(name: str) -> str:
    """A proxy; the test is skipped without it."""
    program = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        pytest.skip(f"NOT RUN: no {name} here; apt-get install {name}")
    return program


def caddy_command(upstream: str, port: int, folder: Path) -> tuple[list[str], dict[str, str]]:
    """How to start Caddy, without a certificate."""
    command = [find_program("caddy"), "run", "--config", str(PROXIES / "Caddyfile")]
    environ = {"WARPBOARD_DOMAIN": f"http://{CLIENT}:{port}", "WARPBOARD_INGEST": upstream}
    return command, environ | {"HOME": str(folder), "XDG_DATA_HOME": str(folder)}


def nginx_command(upstream: str, port: int, folder: Path) -> tuple[list[str], dict[str, str]]:
    """How to start nginx with another port and certificate."""
    program, (plain,) = find_program("nginx"), find_free_ports(1)
    certificate = trustme.CA().issue_cert(CLIENT)
    certificate.cert_chain_pems[0].write_to_path(folder / "fullchain.pem")
    certificate.private_key_pem.write_to_path(folder / "privkey.pem")
    text = (PROXIES / "nginx.conf").read_text(encoding="utf-8")
    for old, new in (
        ("127.0.0.1:8000", upstream),
        ("listen 80;", f"listen {CLIENT}:{plain};"),
        ("listen 443 ", f"listen {CLIENT}:{port} "),
        ("/etc/letsencrypt/live/kernels.example.org", str(folder)),
    ):
        assert old in text
        text = text.replace(old, new)
    (folder / "warpboard.conf").write_text(text, encoding="utf-8")
    (folder / "nginx.conf").write_text(
        NGINX.format(folder=folder, user=getpass.getuser()), encoding="utf-8"
    )
    return [program, "-e", "stderr", "-c", str(folder / "nginx.conf")], {}


@pytest.fixture(params=["caddy", "nginx"])
def proxy(request: pytest.FixtureRequest, upstream: str, tmp_path: Path) -> Iterator[httpx.Client]:
    """A client of a proxy in front of the server."""
    (port,) = find_free_ports(1)
    build, scheme = {"caddy": (caddy_command, "http"), "nginx": (nginx_command, "https")}[
        request.param
    ]
    command, environ = build(upstream, port, tmp_path)
    process = subprocess.Popen(command, env={"PATH": os.environ["PATH"], **environ})
    try:
        url = f"{scheme}://{CLIENT}:{port}"
        with httpx.Client(base_url=url, verify=False, timeout=UP_S_MAX) as client:  # noqa: S501
            until(lambda: answers(client, process), UP_S_MAX)
            yield client
    finally:
        process.terminate()
        process.wait(STOP_S_MAX)


def answers(client: httpx.Client, process: "subprocess.Popen[bytes]") -> bool:
    """Whether the proxy answers."""
    assert process.poll() is None, "the proxy ended"
    try:
        return client.post("/up", content=b"").is_success
    except httpx.TransportError:
        return False


def test_a_large_body_passes(proxy: httpx.Client) -> None:
    answer = proxy.post("/v1/submissions", content=bytes(BODY_BYTES))
    assert answer.json()["bytes"] == BODY_BYTES


def test_an_address_that_a_client_claims_is_replaced(proxy: httpx.Client) -> None:
    answer = proxy.post("/v1/submissions", content=b"x", headers={"X-Forwarded-For": FORGED})
    assert answer.json()["forwarded"] == [CLIENT]


def test_each_event_of_a_stream_arrives_before_the_next_one_is_sent(proxy: httpx.Client) -> None:
    with proxy.stream("GET", "/v1/submissions/1/events") as answer:
        events = answer.iter_raw()
        assert next(events) == b"data: 1\n\n"
        Upstream.may_go_on.set()
        assert b"".join(events) == b"data: 2\n\n"
