from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from pyspark.sql import SparkSession

from demo.spark import open_spark


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One Spark for all tests; each task may be tried twice."""
    with ExitStack() as stack:
        with warnings.catch_warnings():
            # The child only becomes Java: nothing of pylance runs there.
            warnings.filterwarnings("ignore", "lance is not fork-safe", UserWarning)
            session = stack.enter_context(open_spark(tmp_path_factory.mktemp("spark"), attempts=2))
        yield session
