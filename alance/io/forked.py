"""obstore in forked children, where it would never answer.

obstore answers from threads of a runtime that starts with its first use, once per loaded library. A
child of a process that has used it has the runtime without its threads: every request would wait
for ever. So the child loads the library a second time, from a copy, as the loader knows files by
their identity. That costs 10 ms and the 15 MB of the file, in children that use stores only.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Generator
from contextlib import contextmanager
from types import ModuleType

import obstore

__all__ = ["ObstoreLibrary"]

EXTENSION = "obstore._obstore"


class ObstoreLibrary:
    """The obstore that answers in this process: the imported one, or after a fork a copy."""

    def __init__(self) -> None:
        self._module: ModuleType | None = obstore
        self._is_used = False
        self._lock = threading.Lock()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._after_fork)

    def use(self) -> ModuleType:
        """Return the package, with all its modules."""
        with self._lock:
            self._is_used = True
            if self._module is None:
                self._module = _load_copy()
            return self._module

    def _after_fork(self) -> None:
        self._lock = threading.Lock()
        if self._is_used:
            self._module = None


def _load_copy() -> ModuleType:
    """Load the library anew, without a trace in `sys.modules`."""
    extension = sys.modules[EXTENSION].__file__
    assert extension is not None, "a compiled module comes from a file"
    kept = {name: sys.modules.pop(name) for name in _loaded()}
    try:
        with _copied(extension) as path:
            loader = importlib.machinery.ExtensionFileLoader(EXTENSION, path)
            spec = importlib.util.spec_from_loader(EXTENSION, loader)
            assert spec is not None
            sys.modules[EXTENSION] = importlib.util.module_from_spec(spec)
            loader.exec_module(sys.modules[EXTENSION])
        found = importlib.import_module("obstore")
        importlib.import_module("obstore.exceptions")
        importlib.import_module("obstore.store")
        return found
    finally:
        for name in _loaded():
            del sys.modules[name]
        sys.modules.update(kept)


def _loaded() -> list[str]:
    return [name for name in sys.modules if name == "obstore" or name.startswith("obstore.")]


@contextmanager
def _copied(path: str) -> Generator[str, None, None]:
    """Path of a copy of a file, which lasts as long as the block: in memory where that can be."""
    if hasattr(os, "memfd_create"):
        with open(path, "rb") as source, open(os.memfd_create("obstore"), "wb") as copy:
            shutil.copyfileobj(source, copy, 1 << 20)
            copy.flush()
            yield f"/proc/self/fd/{copy.fileno()}"
    else:
        with tempfile.TemporaryDirectory() as folder:
            yield shutil.copy(path, folder)
