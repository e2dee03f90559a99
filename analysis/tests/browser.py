# SPDX-License-Identifier: BSD-3-Clause
"""Opens pages in headless Chromium, which it controls by the DevTools protocol.

Run as a program, it takes pictures of a page and of each of its sections, for documentation and for
a reader to look at:
python3 analysis/tests/browser.py PAGE.html FOLDER
"""

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
SECONDS = 600  # of an answer, against hangs


class Browser:
    """A process of Chromium without access to the network. `messages`: what the page wrote to the
    console, such as violations of its security policy."""

    def __init__(self):
        program = os.environ.get("LOCKSTEP_CHROMIUM") or next(
            filter(None, map(shutil.which, PROGRAMS)), None
        )
        assert program, "Chromium is missing; install chromium or chromium-headless-shell"
        self.messages, self._number, self._received = [], 0, b""
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        read, self._output = os.pipe()
        self._input, write = os.pipe()
        # Chromium reads commands from descriptor 3 and writes answers to descriptor 4.
        self._process = subprocess.Popen(
            [
                "bash",
                "-c",
                f'exec "$@" 3<&{read} 4>&{write}',
                "bash",
                program,
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--hide-scrollbars",
                "--proxy-server=127.0.0.1:9",
                "--disable-dev-shm-usage",
                f"--user-data-dir={self._profile.name}",
                "--remote-debugging-pipe",
                "about:blank",
            ],
            pass_fds=(read, write),
            stderr=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        os.close(read)
        os.close(write)
        self._session = None
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Log", "Runtime"):
            self._call(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.wait()
        os.close(self._input)
        os.close(self._output)
        self._profile.cleanup()

    def open(self, page, width=1280, height=900, is_dark=False):
        """Opens the page in a viewport of this size and waits until it has loaded."""
        self.messages.clear()
        self._call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        self._call(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}],
        )
        self._call("Page.navigate", url=Path(page).resolve().as_uri())
        while self._receive().get("method") != "Page.loadEventFired":
            pass

    def value(self, script):
        """Returns the value of a JavaScript expression."""
        answer = self._call(
            "Runtime.evaluate",
            expression=script,
            returnByValue=True,
            awaitPromise=True,
            userGesture=True,
        )
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def printed(self):
        """Returns the printed page, as PDF."""
        return base64.b64decode(self._call("Page.printToPDF")["data"])

    def picture(self, **clip):
        """Returns a PNG of the rectangle `clip` (x, y, width, height) of the page, or of all of
        it."""
        size = self._call("Page.getLayoutMetrics")["cssContentSize"]
        return base64.b64decode(
            self._call(
                "Page.captureScreenshot",
                captureBeyondViewport=True,
                clip={**size, **clip, "scale": 1},
            )["data"]
        )

    def _call(self, method, **parameters):
        self._number += 1
        command = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            command["sessionId"] = self._session
        os.write(self._output, json.dumps(command).encode() + b"\0")
        while (answer := self._receive()).get("id") != self._number:
            pass
        assert "error" not in answer, (method, answer)
        return answer["result"]

    def _receive(self):
        """Returns the next answer or event."""
        deadline = time.monotonic() + SECONDS
        while b"\0" not in self._received:
            assert select.select([self._input], [], [], deadline - time.monotonic())[0], "no answer"
            received = os.read(self._input, 1 << 20)
            assert received, "Chromium has ended"
            self._received += received
        text, _, self._received = self._received.partition(b"\0")
        event = json.loads(text)
        if event.get("method") in (
            "Log.entryAdded",
            "Runtime.consoleAPICalled",
            "Runtime.exceptionThrown",
        ):
            self.messages.append(json.dumps(event["params"]))
        return event


def pictures(page, folder):
    """Writes pictures of the page, its sections and its printed form to `folder`."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with Browser() as browser:
        for name, width, is_dark in (
            ("wide", 1280, False),
            ("phone", 390, False),
            ("dark", 1280, True),
        ):
            browser.open(page, width, is_dark=is_dark)
            (folder / f"{name}.png").write_bytes(browser.picture())
        browser.open(page, 1000)
        (folder / "first.png").write_bytes(browser.picture(height=1180))
        for name, top, height in browser.value(
            "[...document.querySelectorAll('main > section[id]')].map((s) => [s.id, "
            "s.getBoundingClientRect().top + scrollY, s.getBoundingClientRect().height])"
        ):
            (folder / f"{name}.png").write_bytes(browser.picture(y=top, height=height))
        (folder / "print.pdf").write_bytes(browser.printed())


if __name__ == "__main__":
    pictures(*sys.argv[1:])
