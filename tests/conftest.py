"""Fixtures that many tests share; builders live in alance/testing."""

from collections.abc import Iterator

import pytest
from hypothesis import settings

from alance.testing.s3 import S3Server, start_s3_server

# The same examples on every run and on every machine, however slow: a failure can be repeated.
settings.register_profile("tests", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("tests")

pytest.register_assert_rewrite("alance.testing.store_conformance")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """S3 server with a bucket named `bucket`."""
    with start_s3_server() as server:
        server.create_bucket("bucket")
        yield server
