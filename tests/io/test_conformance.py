"""Every store that alance ships, and every wrapper, keeps the protocol."""

from pathlib import Path

import pytest

from alance.io.client import StoreClients
from alance.io.opening import open_store
from alance.io.store import ObjectStore
from alance.io.uri import parse_uri
from alance.limits import Limits
from alance.testing.s3 import S3Server
from alance.testing.store_conformance import StoreConformance
from alance.testing.stores import CountingStore, FaultyStore, LatencyStore

pytestmark = pytest.mark.anyio


def memory() -> ObjectStore:
    return open_store(parse_uri("memory://")[0])


class TestMemory(StoreConformance):
    @pytest.fixture
    def store(self) -> ObjectStore:
        return memory()


class TestLocal(StoreConformance):
    @pytest.fixture
    def store(self) -> ObjectStore:
        return open_store(parse_uri("/")[0])

    @pytest.fixture
    def folder(self, tmp_path: Path) -> str:
        return tmp_path.as_posix().strip("/")


class TestS3(StoreConformance):
    @pytest.fixture
    def store(self, s3_server: S3Server) -> ObjectStore:
        return open_store(parse_uri("s3://bucket", s3_server.storage_options)[0])


class TestClient(StoreConformance):
    @pytest.fixture
    def store(self) -> ObjectStore:
        return StoreClients(Limits()).open("memory://")[0]


class TestWrappers(StoreConformance):
    @pytest.fixture
    def store(self) -> ObjectStore:
        return CountingStore(LatencyStore(FaultyStore(memory()), 0))
