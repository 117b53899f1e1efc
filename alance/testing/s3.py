"""An S3 server on a free port of this machine, for tests and demos; needs the `test` extra."""

from __future__ import annotations

import logging
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

__all__ = ["S3Server", "start_s3_server"]


@dataclass(frozen=True, slots=True)
class S3Server:
    """A running server.

    Parameters
    ----------
    endpoint
        URL of the server.
    """

    endpoint: str

    @property
    def storage_options(self) -> dict[str, str]:
        """Options with which `alance` and pylance reach the server."""
        return {
            "aws_access_key_id": "test",
            "aws_secret_access_key": "test",
            "aws_region": "us-east-1",
            "aws_endpoint": self.endpoint,
            "aws_virtual_hosted_style_request": "false",
            "allow_http": "true",
        }

    def create_bucket(self, name: str) -> None:
        """Make a bucket, of a name of 3 letters at least; no error when it exists."""
        request = urllib.request.Request(f"{self.endpoint}/{name}", method="PUT")
        with urllib.request.urlopen(request, timeout=30) as answer:
            answer.read()


@contextmanager
def start_s3_server() -> Generator[S3Server, None, None]:
    """Run moto's server in a thread until the block ends; it keeps all objects in memory.

    It honours `If-None-Match: *`, so commits are as safe as on S3.
    """
    from moto.server import ThreadedMotoServer

    logger = logging.getLogger("werkzeug")
    level = logger.level
    logger.setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield S3Server(f"http://{host}:{port}")
    finally:
        server.stop()
        logger.setLevel(level)
