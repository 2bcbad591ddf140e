"""The old import paths of version 0.3, for learners' copies that still have them.

Such a copy asks for `course_utils.lessons.l03_zero_layers`. The lessons' code stands in
`course_lessons` now, and some modules and functions have moved there. From the first such import on
they are found under their old names, too. This file goes with version 0.5.
"""

import importlib
import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

OLD = "course_utils.lessons."
MODULES = {  # the name of then → the name of now
    "course_utils.programs": "course_lessons.programs",
    "course_utils.course.ours": "course_utils.course.solutions",
    "course_lessons.l01_transformer.writing": "course_lessons.l01b_writing.sampling",
    "course_lessons.l05_max_of_list.max_of_list": "course_lessons.max_of_list",
    "course_lessons.l02b_algebra.today": "course_lessons.l02b_algebra.small_llama",
    "course_lessons.l10_reading_critically.boxes": "course_lessons.boxes",
    "course_lessons.l11_final_case.languages": "course_lessons.sealed.languages",
    "course_lessons.l12_questions.keys": "course_lessons.l12_questions.answer_key",
}
FUNCTIONS = {  # the module of then → what it had, and where that is now
    "bigrams": {
        "pair_loss": "thin_tables",
        "fit": "thin_tables",
        "train_factors": "thin_tables",
        "svd_cut": "thin_tables",
        "row_centred_correlation": "thin_tables",
    },
    "composition": {"null": "l06_composition.null"},
    "course.claims": {"siblings": "replication"},
    "models": {"from_circuits": "by_hand", "from_neurons": "by_hand"},
    "paths": {"to_logit": "l10_reading_critically.to_logit"},
    "plots": dict.fromkeys(("arrow", "box", "streams"), "drawings"),
    "text": {
        "kinds_of_position": "l07b_second_writer.kinds",
        "variants": "l07b_second_writer.kinds",
    },
}


class _Moved(MetaPathFinder, Loader):
    """Finds a module under its old name: the same one, not a second one made from the same file."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        is_moved = name in MODULES or name.startswith(OLD)
        return ModuleSpec(name, self, is_package=True) if is_moved else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        name = MODULES.get(spec.name) or spec.name.replace(OLD, "course_lessons.", 1)
        module = importlib.import_module(name)
        spec.loader_state = module.__spec__  # its own, which the import system is about to replace
        return module

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        module.__spec__ = module.__spec__.loader_state


def _also(had: dict[str, str]) -> Callable[[str], Any]:
    """What a module looks up, besides its own names, once a copy of version 0.3 is about."""

    def __getattr__(name: str) -> Any:
        if name not in had:
            raise AttributeError(f"There is no {name!r} here.")
        return getattr(importlib.import_module(f"course_lessons.{had[name]}"), name)

    return __getattr__


sys.meta_path.insert(0, _Moved())
for _module, _had in FUNCTIONS.items():
    importlib.import_module(f"course_utils.{_module}").__dict__["__getattr__"] = _also(_had)
