"""Old names of modules that have moved; importing one gives the module under its new name."""

from __future__ import annotations

from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

__all__ = ["OldNames"]

_MOVED = {
    "assessing": "evidence.assessing",
    "calibrated": "estimators.calibrated",
    "combining": "decisions.combining",
    "curves": "evidence.curves",
    "datasets": "papers.datasets",
    "deciding": "estimators.deciding",
    "demo": "cli.demo",
    "experiments": "papers",
    "generators": "papers.generators",
    "import_vectors": "estimators.import_vectors",
    "klr": "estimators.klr",
    "mixtures": "numerics.mixtures",
    "multiclass": "maps.multiclass",
    "protocols": "estimators.protocols",
    "store": "maps.store",
    "tables": "cli.tables",
    "to_sql": "ops.sql",
}


class OldNames:
    """A finder and loader of modules by their old names, for the first place of `sys.meta_path`.

    In a later place, the import system would find the submodules of an old name in the folder of the new one, and load
    them a second time.
    """

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:  # noqa: ARG002
        """Return how to load a module by its old name, or None if the name is not an old one."""
        package, _, rest = name.partition(".")
        old, _, inner = rest.partition(".")
        if package != "calibrant" or old not in _MOVED:
            return None
        new = ".".join(part for part in ("calibrant", _MOVED[old], inner) if part)
        return ModuleSpec(name, self, origin=new)  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the module under its new name, and remember its own specification."""
        module = import_module(str(spec.origin))
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Restore the module's own specification, which the import system replaced; the module has run already."""
        assert module.__spec__ is not None
        module.__spec__ = module.__spec__.loader_state
