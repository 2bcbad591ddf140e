"""Our figures look the same however the reader has set matplotlib, whose settings stay theirs.

What is `@styled` draws in our style; in a module of figures, `draws_in_style(__name__)` lets all
do so. A figure that the reader made keeps the reader's style, whoever draws in it.
"""

import functools
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

import matplotlib.pyplot as plt
from matplotlib import rcParams, rcParamsDefault
from matplotlib._pylab_helpers import Gcf
from matplotlib.axes import Axes
from matplotlib.figure import Figure

Params = ParamSpec("Params")
Result = TypeVar("Result")
# At least 3 : 1 on white, and on a dark page, where DARK turns them round; ΔE (CIEDE2000) of 20
# between any two, for people with any of the three kinds of colour-blindness, too (Machado et al.
# 2009). A test measures both.
COLOURS = ("#0078B4", "#E15A0F", "#694B5A", "#870000", "#0F000F", "#000F87", "#968787")
NOT_OURS = {"backend", "backend_fallback", "interactive", "toolbar"}  # no looks: where figures go
STYLE: dict[Any, Any] = {
    **{key: value for key, value in rcParamsDefault.items() if key not in NOT_OURS},
    "axes.prop_cycle": plt.cycler(color=COLOURS),
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "figure.constrained_layout.use": True,
    "figure.dpi": 100,
    "figure.facecolor": "white",
    "figure.figsize": (7, 3.6),
    "figure.hooks": [f"{__name__}:_is_made"],
    "figure.max_open_warning": 0,
    "font.size": 10,
    "hatch.color": "white",
    "legend.frameon": False,
    "savefig.facecolor": "white",
}
# what may be done to a figure that is drawn already, and looks settings up
LATER = (
    *("annotate", "axhline", "axvline", "bar", "barh", "clear", "colorbar", "draw", "grid"),
    *("hlines", "legend", "plot", "savefig", "scatter", "set_title", "suptitle", "text", "vlines"),
)
# the figures that our functions made or drew in, and whether they are in our style
_figures: WeakKeyDictionary[Figure, bool] = WeakKeyDictionary()


def _is_made(figure: Figure) -> None:
    """Matplotlib calls it for each figure that is made in our style."""
    _figures[figure] = True


@contextmanager
def settings(values: Mapping[Any, Any]) -> Iterator[None]:
    """Within this block, or function, these settings hold.

    `plt.rc_context` would set all others back as well, among them "interactive", which the first
    figure in a kernel switches on, so that those of the reader are shown.
    """
    kept = {key: rcParams[key] for key in values}
    rcParams.update(values)
    try:
        yield
    finally:
        rcParams.update(kept)


def drawn_last() -> Figure | None:
    """The figure that our functions drew last, of those that are open; if they drew none, the last.

    None where none is open.
    """
    is_open = [manager.canvas.figure for manager in Gcf.get_all_fig_managers()]
    ours = [figure for figure in is_open if figure in _figures]
    return [None, *is_open, *ours][-1]


def styled(function: Callable[Params, Result]) -> Callable[Params, Result]:
    """The function, drawing in our style; in the reader's own axes, if it is given them."""

    @functools.wraps(function)
    def drawing(*args: Params.args, **kwargs: Params.kwargs) -> Result:
        is_ours = True
        for given in (*args, *kwargs.values()):
            figure = given.get_figure(root=True) if isinstance(given, Axes) else None
            if figure is not None:
                is_ours = _figures.setdefault(figure, False)
        if not is_ours or rcParams["figure.hooks"] == STYLE["figure.hooks"]:  # inside another one
            return function(*args, **kwargs)
        with settings(STYLE):
            result = function(*args, **kwargs)
            for figure in [figure for figure, is_ours in _figures.items() if is_ours]:
                _keep_style(figure)
        return result

    return drawing


def _keep_style(figure: Figure) -> None:
    """Let what is done to a figure later be done in our style, too."""
    for part in (figure, *figure.axes):
        for name in LATER:
            if hasattr(part, name) and name not in vars(part):
                setattr(part, name, styled(getattr(part, name)))


def draws_in_style(module: str) -> None:
    """Let every public function of a module, and its classes' methods, draw in our style."""
    found = vars(sys.modules[module])
    for name, thing in list(found.items()):
        if name.startswith("_") or getattr(thing, "__module__", "") != module:
            continue
        if inspect.isfunction(thing):
            found[name] = styled(thing)
        elif inspect.isclass(thing):
            for method, its in list(vars(thing).items()):
                if inspect.isfunction(its):
                    setattr(thing, method, styled(its))
