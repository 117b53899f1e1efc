from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from demo.spark import open_spark


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One Spark for all tests; each task may be tried twice."""
    with open_spark(tmp_path_factory.mktemp("spark"), attempts=2) as session:
        yield session
