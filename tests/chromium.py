"""A page seen by a real browser: headless Chromium, driven over its own pipe; no port is opened, no package needed.

Chromium reads commands from file 3 and answers on file 4 (--remote-debugging-pipe), JSON ended by a zero byte.
"""

import base64
import contextlib
import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import time

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-extensions",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
    "--remote-debugging-pipe",
)  # fmt: skip
# The pipe's ends get the numbers that Chromium expects.
LAUNCH = (
    "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4); os.execvp(sys.argv[3], sys.argv[3:])"
)


def chromium():
    """The browser's name, or None."""
    return next((name for name in NAMES if shutil.which(name)), None)


class Browser:
    """One tab; keeps every event that it is told of."""

    def __init__(self, commands, answers):
        self._commands, self._answers, self._unread = commands, answers, b""
        self._number, self.events = 0, []
        self._tab = {}  # what names the tab in a command to it; commands without are to the browser
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._tab = self.call("Target.attachToTarget", targetId=target, flatten=True)
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method, **parameters):
        """Send a command and wait for its answer."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters, **self._tab}
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        answer = self._until(lambda told: told.get("id") == self._number)
        assert "error" not in answer, answer
        return answer["result"]

    def open(self, url):
        """Load a page to its end."""
        self.events.clear()
        self.call("Page.navigate", url=url)
        if not self.named("Page.loadEventFired"):
            self._until(lambda told: told.get("method") == "Page.loadEventFired")

    def value(self, expression):
        """What an expression of JavaScript gives, a promise's result included."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def named(self, method):
        """Parameters of the events of a name."""
        return [told["params"] for told in self.events if told.get("method") == method]

    def width(self, pixels, height=900):
        """Give the window another size."""
        self.call("Emulation.setDeviceMetricsOverride", width=pixels, height=height, deviceScaleFactor=1, mobile=False)

    def screenshot(self):
        """The whole page as PNG bytes."""
        return base64.b64decode(self.call("Page.captureScreenshot", captureBeyondViewport=True)["data"])

    def close(self):
        """End the browser with all of its processes."""
        self._tab = {}
        self.call("Browser.close")

    def _until(self, wanted, seconds=60):
        end = time.monotonic() + seconds
        while True:
            while b"\0" in self._unread:
                one, self._unread = self._unread.split(b"\0", 1)
                told = json.loads(one)
                self.events.append(told)
                if wanted(told):
                    return told
            assert select.select([self._answers], [], [], max(0, end - time.monotonic()))[0], "the browser is silent"
            read = os.read(self._answers, 1 << 20)
            assert read, "the browser has gone"
            self._unread += read


@contextlib.contextmanager
def browser(profile):
    """A browser whose profile is a new directory; ends with the block."""
    theirs_in, ours_out = os.pipe()
    ours_in, theirs_out = os.pipe()
    # Above 4, so that neither overwrites the other on its way there.
    ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (theirs_in, theirs_out)]
    line = [sys.executable, "-c", LAUNCH, *map(str, ends), chromium(), *FLAGS, f"--user-data-dir={profile}"]
    process = subprocess.Popen(line, pass_fds=ends, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for end in (theirs_in, theirs_out, *ends):
        os.close(end)
    made = None
    try:
        made = Browser(ours_out, ours_in)
        yield made
    finally:
        try:
            if made is None:
                process.terminate()
            else:
                made.close()
            process.wait(10)
        except (AssertionError, OSError, subprocess.TimeoutExpired):
            process.kill()
            process.wait()
        os.close(ours_out)
        os.close(ours_in)
