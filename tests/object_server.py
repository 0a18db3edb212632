"""An S3 server of its own process on loopback: takes nothing, gives what the environment has to say to reach it.

It is moto's, in memory: it has conditional puts, copies and listings as S3 has them, and refuses wrong keys when asked
to. It ends when its standard input does, so that none is left behind a test that is killed.
"""

import contextlib
import subprocess
import sys
import urllib.request

SERVER = """
import logging, os, sys
from moto.server import ThreadedMotoServer
logging.getLogger("werkzeug").setLevel(logging.ERROR)
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
os._exit(0)
"""
BUCKET = "shelf"


class ObjectServer:
    """A server that runs.

    Attributes
    ----------
    url : str
        Of the server.
    environment : dict
        Variables by which clients find it.
    """

    def __init__(self, port):
        self.url = f"http://127.0.0.1:{port}"
        self.environment = {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing",
            "AWS_REGION": "us-east-1",
        }

    def ask(self, path, method, content=None):
        """A request of HTTP."""
        said = {"Content-Type": "text/plain"} if content is not None else {}
        with urllib.request.urlopen(
            urllib.request.Request(f"{self.url}{path}", content, said, method=method), timeout=30
        ) as answer:
            return answer.read()

    @contextlib.contextmanager
    def strict(self):
        """Keys are checked, and none is known."""
        self.ask("/moto-api/reset-auth", "POST", b"0")
        try:
            yield
        finally:
            self.ask("/moto-api/reset-auth", "POST", b"inf")


@contextlib.contextmanager
def object_server():
    """Start one, with an empty bucket; end it."""
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        line = process.stdout.readline()
        assert line.strip().isdigit(), f"no server came up: {line!r}"
        server = ObjectServer(int(line))
        server.ask(f"/{BUCKET}", "PUT")
        yield server
    finally:
        process.stdin.close()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
