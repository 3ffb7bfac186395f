"""A real browser without a window: looks at a page, presses what is there, takes pictures."""

import asyncio
import base64
import json
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from tests.support.waits import eventually

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
START_S, STOP_S, ANSWER_S = 120.0, 10.0, 120.0
# What is looked into may not be there yet; anything else is a mistake.
ABSENT = "if (!(error instanceof TypeError)) throw error"
MESSAGE_BYTES_MAX = 32 << 20
COMPLAINTS = ("Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled")
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    "--no-first-run",
    "--remote-debugging-port=0",
)


def program() -> str | None:
    """The browser of this machine, if it has one."""
    return next((found for one in PROGRAMS if (found := shutil.which(one))), None)


class Tab:
    """One page, by the browser's own debugging protocol."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket, self._asked = socket, 0
        # What the console says once `Log` and `Runtime` are enabled.
        self.complaints: list[str] = []

    async def call(self, method: str, **said: Any) -> Any:
        """What the browser answers to one method. Errors: AssertionError with its reason."""
        self._asked += 1
        await self._socket.send_json({"id": self._asked, "method": method, "params": said})
        async with asyncio.timeout(ANSWER_S):
            while (answer := await self._socket.receive_json()).get("id") != self._asked:
                if answer.get("method") in COMPLAINTS:
                    self.complaints.append(json.dumps(answer["params"]))
        assert "error" not in answer, f"{method}: {answer['error']}"
        return answer["result"]

    async def run(self, script: str) -> Any:
        """The value of an expression, awaited if need be."""
        said = {"awaitPromise": True, "returnByValue": True, "userGesture": True}
        answer = await self.call("Runtime.evaluate", expression=script, **said)
        assert "exceptionDetails" not in answer, f"{script}: {answer['exceptionDetails']}"
        return answer["result"].get("value")

    async def until(self, script: str, within_s: float = ANSWER_S) -> Any:
        """The value of an expression once it is a true one."""
        inner = f"try {{ return {script} }} catch (error) {{ {ABSENT} }}"

        async def looked() -> Any:
            return await self.run(f"(() => {{ {inner} }})()")

        return await eventually(looked, within_s)

    async def attach(self, selector: str, path: Path) -> None:
        """Choose a file in a form."""
        root = (await self.call("DOM.getDocument"))["root"]["nodeId"]
        found = await self.call("DOM.querySelector", nodeId=root, selector=selector)
        await self.call("DOM.setFileInputFiles", files=[str(path)], nodeId=found["nodeId"])

    async def size(self, width: int, height: int) -> None:
        """How large the window is."""
        said = {"deviceScaleFactor": 1, "mobile": False}
        await self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, **said)

    async def picture(self, script: str, margin: int = 8) -> bytes:
        """A PNG of the elements that an expression gives, and nothing else."""
        box = await self.run(
            f"(() => {{ [{script}][0].scrollIntoView();"
            f" const all = [{script}].flat().map((one) => one.getBoundingClientRect());"
            " const x = Math.min(...all.map((b) => b.left));"
            " const y = Math.min(...all.map((b) => b.top));"
            " return { x, y, width: Math.max(...all.map((b) => b.right)) - x,"
            " height: Math.max(...all.map((b) => b.bottom)) - y }; })()"
        )
        clip = {
            "x": max(0, box["x"] - margin),
            "y": max(0, box["y"] - margin),
            "width": box["width"] + 2 * margin,
            "height": box["height"] + 2 * margin,
            "scale": 1,
        }
        shot = await self.call("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)
        return base64.b64decode(shot["data"])


@asynccontextmanager
async def browser() -> AsyncIterator["Browser"]:
    """A browser of one's own, ended afterwards. Errors: AssertionError where there is none."""
    found = program()
    assert found is not None, "ask for it before"
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        process = await asyncio.create_subprocess_exec(
            found,
            *FLAGS,
            f"--user-data-dir={home}",
            "about:blank",
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            port = await eventually(lambda: _port(Path(home)), START_S)
            async with aiohttp.ClientSession() as http:
                yield Browser(http, f"http://127.0.0.1:{port}")
        finally:
            process.terminate()
            try:
                await asyncio.wait_for(process.wait(), STOP_S)
            except TimeoutError:
                process.kill()


def _port(home: Path) -> str:
    said = home / "DevToolsActivePort"
    return said.read_text().split("\n")[0] if said.exists() else ""


class Browser:
    """A running browser."""

    def __init__(self, http: aiohttp.ClientSession, url: str) -> None:
        self._http, self._url = http, url

    @asynccontextmanager
    async def tab(self, url: str) -> AsyncIterator[Tab]:
        """A window of its own that shows a page."""
        async with self._http.put(f"{self._url}/json/new?{url}") as answer:
            target = json.loads(await answer.text())["webSocketDebuggerUrl"]
        async with self._http.ws_connect(target, max_msg_size=MESSAGE_BYTES_MAX) as socket:
            tab = Tab(socket)
            await tab.call("Page.enable")
            await tab.until("document.readyState === 'complete'")
            yield tab
