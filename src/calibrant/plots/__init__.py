"""Plots of computed records with matplotlib, whose settings are not changed.

A display draws a record, as the displays of scikit-learn do: `from_predictions` and `from_estimator` compute the record
and draw it, `plot(ax=None)` draws it and sets `ax_` and `figure_`. Without `ax` it makes a plain `Figure`, which pyplot
does not manage; a notebook shows the display itself, and `display.figure_.savefig("name.pdf")` saves it. `style` is
"screen" (the default), "paper", "slides", the name of a style of matplotlib, or a dictionary of its settings.
"""

from __future__ import annotations

import io
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.evidence.curves import (
    Band,
    ErrorRejectCurve,
    Histogram,
    MapCurve,
    Posterior,
    RankDiagram,
    ReliabilityCurve,
    ReliabilityPanels,
    ScoresCurve,
    error_reject_curve,
    map_curve,
    posterior,
    rank_diagram,
    reliability,
    reliability_by_class,
    scores_by_class,
)
from calibrant.evidence.watching import Watch
from calibrant.extras import require_extra
from calibrant.kernels.loo import LooChoice
from calibrant.maps import Map, fit_map
from calibrant.samples import ask_for_kind, read_kind, sample

with require_extra("calibrant.plots", "plot"):
    import matplotlib
    import matplotlib.style
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator
    from matplotlib.transforms import Bbox

__all__ = [
    "LINES",
    "STYLE",
    "ErrorRejectDisplay",
    "LeaveOneOutDisplay",
    "MapsDisplay",
    "RanksDisplay",
    "ReliabilityDisplay",
    "ReliabilityPanelsDisplay",
    "ScoresDisplay",
    "WatchDisplay",
]

# Okabe & Ito's colours, which colour-blind people can tell apart; the worst line is also dashed.
_BEST, _WORST, _NEGATIVE, _POSITIVE = "#0072B2", "#D55E00", "#E69F00", "#56B4E9"
_OTHER, _DARK, _INK = "#BBBBBB", "#666666", "#222222"

# Colours and dashes of the first, second, ... line, which differ without colour too.
LINES: tuple[tuple[str, Any], ...] = (
    (_BEST, "-"),
    (_WORST, (0, (5, 1.5))),
    ("#009E73", (0, (6, 1.5, 1.2, 1.5))),
    ("#CC79A7", (0, (1.2, 1.2))),
    (_INK, (0, (3, 1, 1, 1, 1, 1))),
    (_NEGATIVE, "-"),
    (_POSITIVE, (0, (5, 1.5))),
    (_DARK, (0, (1.2, 1.2))),
)

STYLE: dict[Any, Any] = {
    "font.size": 11,
    "axes.titlesize": 12,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": _INK,
    "text.color": _INK,
    "lines.linewidth": 2.0,
    "lines.markersize": 5,
    "svg.fonttype": "none",
}

# Styles by name, on top of STYLE: for a screen, for a column of a paper, for slides. `scale` is the size of figures.
_STYLES: dict[str, dict[Any, Any]] = {
    "screen": {},
    "paper": {
        "font.size": 8,
        "axes.titlesize": 8,
        "axes.linewidth": 0.6,
        "lines.linewidth": 1.2,
        "lines.markersize": 3.5,
        "xtick.major.width": 0.6,
        "ytick.major.width": 0.6,
        "pdf.fonttype": 42,
    },
    "slides": {"font.size": 16, "axes.titlesize": 18, "lines.linewidth": 3.0, "lines.markersize": 8},
}
_SCALES = {"paper": 0.66, "slides": 1.5}
_Style = str | Mapping[str, Any] | None

_OUR_FIGURE = "calibrant"  # gid of figures made here; further curves on them are drawn in the same style


def _notebook_png(display: Any) -> bytes | None:
    """Return the picture of a display for a notebook; None for figures of the user, which pyplot shows."""
    if display.figure_.get_gid() != _OUR_FIGURE:
        return None
    content = io.BytesIO()
    display.figure_.savefig(content, format="png", dpi=150)
    return content.getvalue()


class ReliabilityDisplay:
    """A reliability diagram: the share of positives by forecast, above a histogram of the forecasts.

    Parameters
    ----------
    curve : a record of `calibrant.curves.reliability`.

    Attributes
    ----------
    ax_ : the diagram; figure_ : its figure; marginal_ax_ : the histogram of the forecasts below it, or None.
    line_ : the curve; band_ : the shaded band, or the bars of the bins, or None.

    Examples
    --------
    >>> from calibrant.plots import ReliabilityDisplay
    >>> y, p = [0, 0, 1, 0, 1, 1], [0.1, 0.3, 0.4, 0.6, 0.7, 0.9]
    >>> display = ReliabilityDisplay.from_predictions(y, p, bands="confidence", draws=50)
    >>> display.line_.get_ydata().tolist() == display.curve.share.tolist()
    True
    """

    def __init__(self, curve: ReliabilityCurve) -> None:
        self.curve = curve

    @classmethod
    def from_predictions(
        cls, y: ArrayLike, p: ArrayLike, *, ax: Axes | None = None, style: _Style = None, **options: Any
    ) -> Self:
        """Draw the diagram of forecasts p of the positive class; options go to `curves.reliability`."""
        return cls(reliability(y, p, **options)).plot(ax, style=style)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        ax: Axes | None = None,
        style: _Style = None,
        pos_label: Any = None,
        **options: Any,
    ) -> Self:
        """Draw the diagram of a fitted classifier of two classes on rows it was not trained on."""
        column, positive = _positive_class(estimator, pos_label)
        p = np.asarray(estimator.predict_proba(X))[:, column]
        options.setdefault("name", type(estimator).__name__)
        return cls.from_predictions(np.asarray(y), p, ax=ax, style=style, pos_label=positive, **options)

    def plot(
        self, ax: Axes | None = None, *, style: _Style = None, marginal: bool = True, numbers: bool = True
    ) -> Self:
        """Draw on `ax`, or on a new figure; a second curve on the same axes gets the next colour."""
        with _canvas(ax, (5.2, 6.2), style) as axes:
            place = sum(line.get_gid() == "curve" for line in axes.lines)
            color, dashes = LINES[place % len(LINES)]
            self.ax_, self.figure_ = axes, axes.figure
            self.band_ = None if self.curve.band is None else _draw_band(axes, self.curve.band, color, bars=self.bars)
            if not place:
                _draw_diagonal(axes)
            look: dict[str, Any] = {"color": color, "linestyle": dashes, "zorder": 4, "gid": "curve"}
            (self.line_,) = axes.plot(self.curve.forecast, self.curve.share, label=self.label, **look)
            if self.bars or len(self.curve.forecast) == 1:
                self.line_.set(marker="o")
            if numbers:
                _write_numbers(axes, self.curve)
            self.marginal_ax_ = _draw_marginal(axes, self.curve.forecasts) if marginal and not place else None
            _draw_legend(axes, "upper left")
        return self

    _repr_png_ = _notebook_png

    @property
    def bars(self) -> bool:
        """Whether the curve is one of bins, whose band is drawn as one bar per bin."""
        return self.curve.count is not None

    @property
    def label(self) -> str:
        """The name of the curve in the legend."""
        return self.curve.name or {"corp": "isotonic recalibration", "binned": "bins"}[self.curve.method]


class ReliabilityPanelsDisplay:
    """Reliability diagrams side by side, one per class, with the name of the class as title.

    Parameters
    ----------
    panels : a record of `calibrant.curves.reliability_by_class`.

    Attributes
    ----------
    axes_ : the diagrams; figure_ : their figure; displays_ : one `ReliabilityDisplay` per diagram.

    >>> P = [[0.6, 0.3, 0.1], [0.2, 0.7, 0.1], [0.3, 0.3, 0.4], [0.5, 0.4, 0.1]]
    >>> display = ReliabilityPanelsDisplay.from_predictions(["a", "b", "c", "b"], P, bands=None)
    >>> len(display.axes_), len(display.displays_)
    (3, 3)
    """

    def __init__(self, panels: ReliabilityPanels) -> None:
        self.panels = panels

    @classmethod
    def from_predictions(cls, y: ArrayLike, P: ArrayLike, *, style: _Style = None, **options: Any) -> Self:
        """Draw the diagrams of posteriors, one column per class; options go to `curves.reliability_by_class`."""
        return cls(reliability_by_class(y, P, **options)).plot(style=style)

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: ArrayLike, **options: Any) -> Self:
        """Draw the diagrams of a fitted classifier on rows it was not trained on."""
        return cls.from_predictions(y, estimator.predict_proba(X), labels=estimator.classes_, **options)

    def plot(self, *, style: _Style = None, columns: int = 3, marginal: bool = True) -> Self:
        """Draw on a new figure, at most `columns` diagrams side by side; of many classes those of `panels.drawn`."""
        curves = [self.panels.curves[place] for place in self.panels.drawn]
        columns = min(columns, len(curves))
        rows = -(-len(curves) // columns)
        with _styled(style, ours=True):
            figure = _new_figure((3.7 * columns + 0.3, 4.1 * rows), style)
            grid = figure.subplots(rows, columns, squeeze=False).ravel()
            # Without a name, because the title names the curve.
            self.displays_ = [
                ReliabilityDisplay(replace(curve, name="")).plot(ax, style=style, marginal=marginal)
                for curve, ax in zip(curves, grid, strict=False)
            ]
            for ax in grid[len(curves) :]:
                ax.remove()
            for display, curve in zip(self.displays_, curves, strict=True):
                display.curve = curve
                words = [word.format(name=curve.name) for word in _PANEL_WORDS[self.panels.of]]
                lowest = display.marginal_ax_ or display.ax_
                lowest.set_xlabel(words[1])
                display.ax_.set(title=words[0], ylabel=words[2])
                if display.marginal_ax_ is not None:
                    display.marginal_ax_.texts[0].set_text(_UP_AND_DOWN.format(*words[3:]))
                display.ax_.get_legend().remove()  # type: ignore[union-attr]
            handles, names = self.displays_[0].ax_.get_legend_handles_labels()
            figure.legend(handles, names, loc="outside lower center", ncols=2, frameon=False, fontsize="small")
            if self.panels.choice:
                choice = textwrap.fill(self.panels.choice, 34 * columns)
                figure.suptitle(choice, x=0.01, horizontalalignment="left", fontsize="medium")
        self.figure_, self.axes_ = figure, np.array([display.ax_ for display in self.displays_])
        return self

    _repr_png_ = _notebook_png


# For each kind of panel: title, labels of the x and y axis, names of the rows where it happened and did not happen.
_PANEL_WORDS = {
    "class": ("{name}", "probability of {name}", "share of {name}", "{name}", "others"),
    "top_label": ("decided for {name}", "confidence", "share of right decisions", "right", "wrong"),
    "confidence": ("all decisions", "confidence", "share of right decisions", "right", "wrong"),
}


class ScoresDisplay:
    """The fitted map and the empirical posterior, above histograms of the scores (Platt 1999, Figures 1 and 2).

    Parameters
    ----------
    curve : a record of `calibrant.curves.scores_by_class`.

    Attributes
    ----------
    ax_ : the posterior; counts_ax_ : the histograms; figure_ : their figure; line_ : the map, or None.

    >>> from calibrant import fit
    >>> y, scores = [0, 1, 0, 1], [-2.0, -1.0, 1.0, 2.0]
    >>> display = ScoresDisplay.from_predictions(y, scores, fit("platt", scores, y, kind="margin"))
    >>> display.line_ is None
    False
    """

    def __init__(self, curve: ScoresCurve) -> None:
        self.curve = curve

    @classmethod
    def from_predictions(
        cls,
        y: ArrayLike,
        scores: ArrayLike,
        fitted: Map | None = None,
        *,
        ax: Axes | None = None,
        style: _Style = None,
        **options: Any,
    ) -> Self:
        """Draw scores and a map of them; options go to `curves.scores_by_class`."""
        return cls(scores_by_class(scores, y, fitted, **options)).plot(ax, style=style)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: ArrayLike, *, ax: Axes | None = None, style: _Style = None, **options: Any
    ) -> Self:
        """Draw the scores and the map of a fitted `Calibrator` or `CalibratedClassifier` of two classes.

        Of an ensemble, the first machine and its map are drawn. Other classifiers have decision values and no map.
        """
        _, positive = _positive_class(estimator, None)
        scores, fitted = _scores_and_map(estimator, X)
        options.setdefault("name", str(getattr(estimator, "method", "")))
        return cls.from_predictions(np.asarray(y), scores, fitted, ax=ax, style=style, pos_label=positive, **options)

    def plot(self, ax: Axes | None = None, *, style: _Style = None, density: bool = False) -> Self:
        """Draw on `ax`, or on a new figure; `density` shows p(score | class) instead of counts."""
        with _canvas(ax, (6.4, 5.8), style) as axes:
            self.ax_, self.figure_, self.line_ = axes, axes.figure, None
            if self.curve.fitted is not None:
                self.line_ = _draw_map(axes, self.curve.fitted, 0, self.curve.fitted.name or "fitted map")
            _draw_posterior(axes, self.curve.posterior)
            axes.set(ylim=(-0.03, 1.03), ylabel="probability of a positive")
            _draw_legend(axes, "upper left")
            self.counts_ax_ = _add_axes_below(axes, 0.42)
            (_draw_densities if density else _draw_histogram)(self.counts_ax_, self.curve.counts)
        return self

    _repr_png_ = _notebook_png


class ErrorRejectDisplay:
    """The errors left when the least confident objects are rejected, with curves of a perfect and a useless confidence.

    Parameters
    ----------
    curve : a record of `calibrant.curves.error_reject_curve`.
    name : the name of the curve in the legend.

    Attributes
    ----------
    ax_ : the axes; figure_ : their figure; line_ : the curve.

    >>> display = ErrorRejectDisplay.from_predictions([0, 1, 1], [0.1, 0.4, 0.8])
    >>> display.line_.get_ydata().round(3)
    array([0.333, 0.   , 0.   , 0.   ])
    """

    def __init__(self, curve: ErrorRejectCurve, *, name: str = "") -> None:
        self.curve = curve
        self.name = name

    @classmethod
    def from_predictions(
        cls, y: ArrayLike, P: ArrayLike, *, ax: Axes | None = None, style: _Style = None, name: str = "", **options: Any
    ) -> Self:
        """Draw the curve of posteriors, or of probabilities of the positive class."""
        return cls(error_reject_curve(y, P, **options), name=name).plot(ax, style=style)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        ax: Axes | None = None,
        style: _Style = None,
        name: str = "",
        **options: Any,
    ) -> Self:
        """Draw the curve of a fitted classifier on rows it was not trained on."""
        options.setdefault("labels", estimator.classes_)
        name = name or type(estimator).__name__
        return cls.from_predictions(y, estimator.predict_proba(X), ax=ax, style=style, name=name, **options)

    def plot(self, ax: Axes | None = None, *, style: _Style = None) -> Self:
        """Draw on `ax`, or on a new figure; a second curve on the same axes gets the next colour."""
        with _canvas(ax, (6.0, 4.4), style) as axes:
            place = sum(line.get_gid() == "curve" for line in axes.lines)
            color, dashes = LINES[place % len(LINES)]
            self.ax_, self.figure_ = axes, axes.figure
            label = f"{self.name or 'this confidence'}, area {self.curve.area:.4f}"
            look: dict[str, Any] = {"color": color, "linestyle": dashes, "zorder": 4, "gid": "curve"}
            (self.line_,) = axes.plot(self.curve.rejected, self.curve.error, label=label, **look)
            error = float(self.curve.error[0])
            limit: dict[str, Any] = {"color": color, "linewidth": 1.0, "alpha": 0.8}
            names = ("_", "_") if place else ("confidence says nothing", "all errors go first")
            axes.plot([0, 1], [error, 0], linestyle=(0, (1.2, 1.5)), label=names[0], **limit)
            axes.plot([0.0, error, 1.0], [error, 0.0, 0.0], linestyle=(0, (6, 2)), label=names[1], **limit)
            top = max(float(np.max(line.get_ydata())) for line in axes.lines)
            axes.set(xlim=(-0.01, 1.01), ylim=(-0.02 * top, 1.06 * top or 1.0))
            axes.set(xlabel="share of objects rejected", ylabel="errors left, share of all objects")
            _draw_legend(axes, "upper right")
        return self

    _repr_png_ = _notebook_png


class WatchDisplay:
    """A watch over time: the evidence of drift with the line of the alarm, above the shift of the log-odds per batch.

    Parameters
    ----------
    state : a `calibrant.evidence.watching.Watch`.
    group : the group to draw; None for all rows.

    Attributes
    ----------
    ax_ : the evidence; shift_ax_ : the shifts below it; figure_ : their figure; line_ : the evidence of the e-process.

    >>> from calibrant import fit, watch
    >>> scores, y = [-2.0, -1.0, 1.0, 2.0] * 50, [0, 1, 0, 1] * 50
    >>> state = watch(fit("platt", scores, y, kind="margin"), scores, y, batch="Monday")
    >>> WatchDisplay(state).plot().line_.get_ydata().size
    1
    """

    def __init__(self, state: Watch, group: str | None = None) -> None:
        if not state.whole.lines or (group is not None and group not in state.groups):
            wanted = "have seen a batch" if group is None else f"watch the group {group!r}"
            msg = f"state must {wanted}; it has seen {len(state.seen)} batches and {len(state.groups)} groups"
            raise ValueError(msg)
        self.state = state
        self.group = group

    def plot(self, ax: Axes | None = None, *, style: _Style = None) -> Self:
        """Draw on `ax`, or on a new figure."""
        state, group = self.state, self.group
        lines = (state.whole if group is None else state.groups[group]).lines
        found = next(each for each in state.findings if each.group == group)
        place = np.array([line.last for line in lines])
        with _canvas(ax, (7.0, 5.6), style) as axes:
            self.ax_, self.figure_ = axes, axes.figure
            look: dict[str, Any] = {"linewidth": 2.0, "zorder": 4, "marker": "o" if len(lines) < 3 else ""}
            color, dashes = LINES[1]
            evidence, detector = (
                np.array([getattr(line, each) for line in lines]) / np.log(10.0) for each in ("log_e", "log_m")
            )
            (self.line_,) = axes.plot(place, evidence, color=_BEST, label="evidence since the start", **look)
            look |= {"linewidth": 1.2, "zorder": 3}
            axes.plot(place, detector, color=color, linestyle=dashes, label="evidence of a recent change", **look)
            axes.axhline(np.log10(found.alarm_at), color=_INK, linewidth=1.0)
            axes.annotate(
                f"alarm at {found.alarm_at:,.0f}",
                (place[0], np.log10(found.alarm_at)),
                (2, 2),
                textcoords="offset points",
                fontsize="small",
            )
            axes.set(ylabel="evidence of drift, powers of 10", title=_WATCH_TITLES[found.status])
            _draw_legend(axes, "best")
            self.shift_ax_ = below = _add_axes_below(axes, 0.8)
            spread = 2.0 / np.sqrt(np.maximum([line.variance for line in lines], 1e-12))
            shift = np.array([line.shift for line in lines])
            if state.information is not None and state.center is not None:
                allowed = max(state.tolerance, float(state.information.bound(state.center)))
                below.axhspan(-allowed, allowed, color=_OTHER, alpha=0.4, linewidth=0, label="allowed for")
            below.axhline(0.0, color=_DARK, linewidth=0.8)
            below.errorbar(
                place,
                shift,
                np.minimum(spread, 8.0),
                fmt="o",
                markersize=3,
                linewidth=0.8,
                color=_BEST,
                label="batches",
            )
            below.set(ylabel="shift of log-odds", xlabel="batch")
            if found.status != "fine":
                for each in (axes, below):
                    each.axvline(found.first - 0.5, color=_WORST, linestyle=(0, (1.2, 1.5)), linewidth=1.4)
            reach = float(np.quantile(np.abs(shift) + np.minimum(spread, 8.0), 0.95))
            below.set_ylim(-1.1 * reach, 1.1 * reach)
            shown = np.unique(np.linspace(0, len(lines) - 1, min(len(lines), 5)).round().astype(int))
            below.set_xticks(place[shown], [textwrap.shorten(lines[k].batch, 16, placeholder="…") for k in shown])
            _draw_legend(below, "best")
        return self

    _repr_png_ = _notebook_png


_WATCH_TITLES = {
    "fine": "No drift",
    "warning": "An early warning",
    "drift": "Drift",
    "misfit": "Misfit from the start",
}


class MapsDisplay:
    """Several maps of the same scores, with the empirical posterior if labels are given.

    Parameters
    ----------
    curves : records of `calibrant.curves.map_curve`.
    groups : the empirical posterior, a record of `calibrant.curves.posterior`, or None.

    Attributes
    ----------
    ax_ : the axes; figure_ : their figure; lines_ : the maps, in order.

    >>> y, scores = [0, 1, 0, 1], [-2.0, -1.0, 1.0, 2.0]
    >>> display = MapsDisplay.from_predictions(y, scores, ["platt", "isotonic"], kind="margin")
    >>> len(display.lines_)
    2
    """

    def __init__(self, curves: Sequence[MapCurve], *, groups: Posterior | None = None) -> None:
        self.curves = tuple(curves)
        self.groups = groups

    @classmethod
    def from_maps(
        cls,
        maps: Mapping[str, Map],
        scores: ArrayLike,
        y: ArrayLike | None = None,
        *,
        ax: Axes | None = None,
        style: _Style = None,
    ) -> Self:
        """Draw fitted maps, by name, over the range of the scores."""
        groups = None if y is None else posterior(sample(scores, y))
        return cls([map_curve(each, scores, name=name) for name, each in maps.items()], groups=groups).plot(
            ax, style=style
        )

    @classmethod
    def from_predictions(
        cls,
        y: ArrayLike,
        scores: ArrayLike,
        methods: Sequence[str] = ("platt", "isotonic", "beta2", "bins"),
        *,
        kind: str | None = None,
        sample_weight: ArrayLike | None = None,
        ax: Axes | None = None,
        style: _Style = None,
    ) -> Self:
        """Fit methods of `calibrant.METHODS` to scores and draw them; `kind` is that of `calibrant.fit`."""
        chosen = read_kind(kind)
        data = sample(scores, y, sample_weight, kind=chosen)
        if kind is None:
            ask_for_kind(data.score)
        curves = [map_curve(fit_map(name, data, chosen), data.score, name=name) for name in methods]
        return cls(curves, groups=posterior(data)).plot(ax, style=style)

    def plot(self, ax: Axes | None = None, *, style: _Style = None, bands: bool = True) -> Self:
        """Draw on `ax`, or on a new figure."""
        with _canvas(ax, (7.2, 4.6), style) as axes:
            self.ax_, self.figure_ = axes, axes.figure
            self.lines_ = [
                _draw_map(axes, curve, place, curve.name or f"map {place + 1}", band=bands)
                for place, curve in enumerate(self.curves)
            ]
            if self.groups is not None:
                _draw_posterior(axes, self.groups)
            axes.set(ylim=(-0.03, 1.03), xlabel="score", ylabel="probability of a positive")
            _draw_legend(axes, "center left", bbox_to_anchor=(1.01, 0.5))
        return self

    _repr_png_ = _notebook_png


class RanksDisplay:
    """Average ranks on a line, best on the left; bars join ranks that do not differ (Demšar 2006, Figure 1).

    Parameters
    ----------
    diagram : a record of `calibrant.curves.rank_diagram`.

    Attributes
    ----------
    ax_ : the axes; figure_ : their figure.

    >>> display = RanksDisplay.from_ranks([[1, 2, 3], [1, 3, 2], [2, 1, 3]], ["auto", "platt", "raw"])
    >>> display.ax_.get_figure() is display.figure_
    True
    """

    def __init__(self, diagram: RankDiagram) -> None:
        self.diagram = diagram

    @classmethod
    def from_ranks(
        cls,
        ranks: ArrayLike,
        names: Sequence[str],
        *,
        alpha: float = 0.05,
        ax: Axes | None = None,
        style: _Style = None,
    ) -> Self:
        """Draw ranks, one row per data set and one column per method."""
        return cls(rank_diagram(ranks, names, alpha=alpha)).plot(ax, style=style)

    def plot(self, ax: Axes | None = None, *, style: _Style = None) -> Self:
        """Draw on `ax`, or on a new figure."""
        diagram, methods = self.diagram, len(self.diagram.names)
        half = -(-methods // 2)
        with _canvas(ax, (7.2, 1.5 + 0.3 * half + 0.14 * len(diagram.cliques)), style) as axes:
            self.ax_, self.figure_ = axes, axes.figure
            # The scale of ranks is at height 0, the critical difference above it; heights count lines downwards.
            axes.set(xlim=(0.8, methods + 0.2), yticks=[])
            axes.axis("off")
            axes.plot([1, methods], [0, 0], color=_INK, linewidth=1.2)
            for tick in range(1, methods + 1):
                axes.plot([tick, tick], [0, -0.25], color=_INK, linewidth=1.2)
                axes.text(tick, -0.35, str(tick), ha="center", va="bottom")
            end = 1 + diagram.critical_difference
            axes.plot([1, 1, end, end], [-1.55, -1.75, -1.75, -1.55], color=_INK, linewidth=1.2, clip_on=False)
            where = f"alpha = {diagram.alpha:g}, {diagram.datasets} data sets"
            text = f"critical difference {diagram.critical_difference:.2f} ({where})"
            axes.text(1, -1.95, text, ha="left", va="bottom", fontsize="small")
            rank_of = dict(zip(diagram.names, diagram.ranks, strict=True))
            for row, clique in enumerate(diagram.cliques):
                ends = [rank_of[clique[0]] - 0.04, rank_of[clique[-1]] + 0.04]
                axes.plot(ends, [0.4 + 0.38 * row] * 2, color=_BEST, linewidth=4, solid_capstyle="butt", gid="clique")
            # The better half of the names is on the left, the other on the right, each with a line to its rank.
            first = 0.4 + 0.38 * len(diagram.cliques)
            for k, (name, rank) in enumerate(zip(diagram.names, diagram.ranks, strict=True)):
                left = k < half
                height = first + 0.5 + (k if left else methods - 1 - k)
                side = 0.75 if left else methods + 0.25
                axes.plot([rank, rank, side], [0, height, height], color=_DARK, linewidth=1.0, zorder=1)
                label = f"{name}  {rank:.2f}" if left else f"{rank:.2f}  {name}"
                axes.text(side, height, f" {label} ", ha="right" if left else "left", va="center")
            axes.set_ylim(first + 1.0 + max(half - 1, 0), -2.6)
        return self

    _repr_png_ = _notebook_png


class LeaveOneOutDisplay:
    """The approximate leave-one-out losses of kernel logistic regression along C, one line per gamma, and the choice.

    Parameters
    ----------
    choice : `loo_` of a kernel machine that was fitted with C="loo".

    Attributes
    ----------
    ax_ : the axes; figure_ : their figure; lines_ : the paths over C, in the order of gamma.

    >>> from calibrant import KernelLogisticRegression, generators
    >>> X, y = generators.crossing(40, random_state=0)
    >>> display = LeaveOneOutDisplay.from_estimator(KernelLogisticRegression().fit(X, y))
    >>> len(display.lines_)
    1
    """

    def __init__(self, choice: LooChoice) -> None:
        self.choice = choice

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Axes | None = None) -> Self:
        """Draw the path of a fitted kernel machine."""
        if not hasattr(estimator, "loo_"):
            msg = f"estimator must have been fitted with C='loo', which keeps loo_; got {type(estimator).__name__}"
            raise ValueError(msg)
        return cls(estimator.loo_).plot(ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw on `ax`, or on a new figure."""
        (C, gamma), several = self.choice.best, len(self.choice.gammas) > 1
        with _canvas(ax, (7.2, 4.6)) as axes:
            self.ax_, self.figure_, self.lines_ = axes, axes.figure, []
            for place, (each, path) in enumerate(zip(self.choice.gammas, self.choice.paths, strict=True)):
                color, style = LINES[place % len(LINES)]
                look: dict[str, Any] = {"color": color, "linestyle": style, "marker": "o", "markersize": 4}
                name = f"gamma = {each:.3g}" if several else "leave-one-out"
                self.lines_ += axes.plot(path.C, path.loss, label=name, gid="curve", **look)
            axes.axvline(C, color=_INK, linewidth=1.0, linestyle=(0, (1.2, 1.5)), label=f"C = {C:.3g}")
            axes.set(xscale="log", xlabel="C", ylabel="log loss without the row")
            if several:
                axes.set_title(f"gamma = {gamma:.3g}")
            _draw_legend(axes, "best")
        return self

    _repr_png_ = _notebook_png


def _draw_legend(axes: Axes, place: Any, **look: Any) -> None:
    """Draw the legend, curves first, on a half-transparent background."""
    handles, names = axes.get_legend_handles_labels()
    curves = [line for line in axes.lines if line.get_gid() == "curve"]
    order = sorted(range(len(names)), key=lambda k: handles[k] not in curves)
    handles, names = [handles[k] for k in order], [names[k] for k in order]
    axes.legend(handles, names, loc=place, fontsize="small", framealpha=0.7, edgecolor="none", **look)


@contextmanager
def _canvas(ax: Axes | None, size: tuple[float, float], style: _Style = None) -> Iterator[Axes]:
    """Yield the axes to draw on: the user's in the user's style, or those of a new figure in ours; or in one given."""
    if ax is not None:
        ax.spines[["top", "right"]].set_visible(False)
    with _styled(style, ours=ax is None or ax.figure.get_gid() == _OUR_FIGURE):
        axes = _new_figure(size, style).add_subplot() if ax is None else ax
        if ax is not None and style is not None:  # what was made before the style was set
            axes.tick_params(labelsize=matplotlib.rcParams["xtick.labelsize"])
            for text in (axes.xaxis.label, axes.yaxis.label):
                text.set_fontsize(matplotlib.rcParams["axes.labelsize"])
        yield axes


@contextmanager
def _styled(style: _Style, *, ours: bool) -> Iterator[None]:
    """Set what matplotlib draws with, for a while: our own settings, and a style by name or as settings on top."""
    given: Any = _STYLES.get(style, style) if isinstance(style, str) else style or {}
    own = STYLE if ours or (isinstance(style, str) and style in _STYLES) else {}
    try:
        context = matplotlib.style.context([own, given])
        context.__enter__()
    except OSError:
        names = [*_STYLES, *sorted(each for each in matplotlib.style.available if not each.startswith("_"))]
        msg = f"style must be a dictionary of settings, or one of {', '.join(names)}; got {style!r}"
        raise ValueError(msg) from None
    try:
        yield
    finally:
        context.__exit__(None, None, None)


def _new_figure(size: tuple[float, float], style: _Style = None) -> Figure:
    """Return a figure that pyplot does not manage, marked as ours, of a size that suits the style."""
    scale = _SCALES.get(style, 1.0) if isinstance(style, str) else 1.0
    figure = Figure(figsize=(scale * size[0], scale * size[1]), layout="constrained")
    figure.set_gid(_OUR_FIGURE)
    return figure


def _add_axes_below(axes: Axes, height: float) -> Axes:
    """Add axes of the same width below others, and move the x axis there; `height` is relative to the others.

    Axes that fill their figure are made smaller to make space; those in a grid, or placed freely, get an inset below.
    """
    cell = axes.get_subplotspec()
    if cell is None or cell.get_gridspec().nrows * cell.get_gridspec().ncols > 1:
        lower = axes.inset_axes((0.0, -0.08 - height, 1.0, height), sharex=axes)
    else:
        grid = cell.subgridspec(2, 1, height_ratios=[1.0, height], hspace=0.12 / (1.0 + height))
        axes.set_subplotspec(grid[0])
        lower = axes.figure.add_subplot(grid[1], sharex=axes)
    lower.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelbottom=False)
    return lower


def _draw_band(axes: Axes, band: Band, color: str, *, bars: bool = False) -> Any:
    """Shade a band; for bins, draw one bar per bin."""
    label = f"{100 * band.confidence:g} % {band.kind} {'interval' if bars else 'band'}"
    known = axes.get_legend_handles_labels()[1]
    look: dict[str, Any] = {"color": color, "alpha": 0.25, "label": "_" if label in known else label, "zorder": 2}
    if bars or len(band.x) == 1:
        return axes.vlines(band.x, band.low, band.high, linewidth=7, **look)
    return axes.fill_between(band.x, band.low, band.high, linewidth=0, **look)


def _draw_diagonal(axes: Axes) -> None:
    """Draw the line on which a calibrated forecast lies, in a square."""
    axes.plot([0, 1], [0, 1], color=_DARK, linewidth=1.0, linestyle=(0, (4, 3)), zorder=3)
    axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
    axes.set(xticks=np.linspace(0, 1, 6), yticks=np.linspace(0, 1, 6))
    axes.set(xlabel="forecast probability", ylabel="share of positives")


def _write_numbers(axes: Axes, curve: ReliabilityCurve) -> None:
    """Write the decomposition in the lower right corner; of further curves as further columns of the same text."""
    found = curve.parts
    values = [found.miscalibration, found.discrimination, found.uncertainty]
    column = [textwrap.shorten(curve.name, 14, placeholder="…"), *(f"{each:.4f}" for each in values)]
    column.append(f"{curve.rows:,.10g}")
    known = next((each for each in axes.texts if each.get_gid() == "numbers"), None)
    rows = ["   ", "MCB", "DSC", "UNC", "n  "] if known is None else known.get_text().split("\n")
    if len(rows) < len(column):  # of a curve without a name
        rows = [" " * len(rows[0]), *rows]
    width = max(map(len, column))
    rows = [f"{row} {each:>{width}}" for row, each in zip(rows, column, strict=True)]
    text = "\n".join(rows if rows[0].strip() else rows[1:])
    if known is not None:
        known.set_text(text)
        return
    look: dict[str, Any] = {"ha": "right", "va": "bottom", "fontsize": "small", "fontfamily": "monospace"}
    look |= {"color": _DARK, "zorder": 4, "gid": "numbers"}
    look["bbox"] = {"facecolor": axes.get_facecolor(), "alpha": 0.7, "edgecolor": "none", "pad": 1.0}
    axes.annotate(text, (0.98, 0.02), xycoords="axes fraction", **look)


_UP_AND_DOWN = "{} up, {} down"


def _draw_marginal(axes: Axes, counts: Histogram) -> Axes:
    """Draw the histograms of the forecasts by class below the diagram."""
    lower = _add_axes_below(axes, 0.22)
    axes.set_anchor("S")
    lower.set_anchor("N")

    def place(below: Any, _: Any) -> Bbox:
        """Return a place as wide as the square above, which the figure may have made narrower than its cell."""
        axes.apply_aspect()
        above, own = axes.get_position(), below.get_position(original=True)
        return Bbox.from_extents(above.x0, own.y0, above.x1, own.y1)

    if lower.get_subplotspec() is not None:
        lower.set_axes_locator(place)
    lower.set_xlabel(axes.get_xlabel())
    axes.set_xlabel("")
    _draw_classes(lower, counts)
    lower.set_ylabel("rows")
    words: dict[str, Any] = {"ha": "right", "va": "bottom", "fontsize": "x-small", "color": _DARK}
    lower.text(1.0, 1.03, _UP_AND_DOWN.format("positives", "negatives"), transform=lower.transAxes, **words)
    return lower


def _draw_classes(axes: Axes, counts: Histogram) -> None:
    """Draw the positives upwards and the negatives downwards."""
    axes.stairs(counts.positive, counts.edges, fill=True, color=_POSITIVE)
    axes.stairs(-counts.negative, counts.edges, fill=True, color=_NEGATIVE)
    axes.axhline(0.0, color=_INK, linewidth=0.8)
    axes.yaxis.set_major_locator(MaxNLocator(3, integer=True))
    axes.yaxis.set_major_formatter(lambda height, _: f"{abs(height):g}")


def _draw_histogram(axes: Axes, counts: Histogram) -> None:
    """Draw the scores of the positives upwards and those of the negatives downwards."""
    _draw_classes(axes, counts)
    axes.text(0.02, 0.92, "positives", transform=axes.transAxes, ha="left", va="top")
    axes.text(0.98, 0.08, "negatives", transform=axes.transAxes, ha="right", va="bottom")
    axes.set(xlabel="score (decision value)", ylabel="rows")
    axes.margins(y=0.1)


def _draw_densities(axes: Axes, counts: Histogram) -> None:
    """Draw the class-conditional densities as outlines (Platt 1999, Figure 1)."""
    negative, positive = counts.densities
    axes.stairs(positive, counts.edges, color=_BEST, linewidth=1.8, label="positives")
    axes.stairs(negative, counts.edges, color=_WORST, linewidth=1.8, linestyle=(0, (5, 1.5)), label="negatives")
    axes.set(xlabel="score (decision value)", ylabel="p(score | class)")
    axes.legend(frameon=False, fontsize="small")


def _draw_map(axes: Axes, curve: MapCurve, place: int, label: str, *, band: bool = True) -> Any:
    """Draw a map as the line number `place`, with its band."""
    color, dashes = LINES[place % len(LINES)]
    if band and curve.band is not None:
        x = curve.band.x
        shade: dict[str, Any] = {"color": color, "alpha": 0.25, "linewidth": 0, "zorder": 2}
        axes.fill_between(
            x, curve.band.low, curve.band.high, label=f"{label}, {100 * curve.band.confidence:g} % band", **shade
        )
    look: dict[str, Any] = {"color": color, "linestyle": dashes, "zorder": 4}
    return axes.plot(curve.score, curve.probability, label=label, **look)[0]


def _draw_posterior(axes: Axes, groups: Posterior) -> None:
    """Draw the share of positives in groups of scores, with intervals."""
    reach = [groups.share - groups.low, groups.high - groups.share]
    look: dict[str, Any] = {"fmt": "o", "color": _INK, "capsize": 3, "linewidth": 1.2, "zorder": 5}
    if len(groups.score) > 25:
        look |= {"markersize": 3, "capsize": 0, "linewidth": 0.8, "ecolor": _OTHER, "zorder": 3}
    axes.errorbar(groups.score, groups.share, reach, label=f"share of positives, {100 * groups.confidence:g} %", **look)


def _positive_class(estimator: Any, pos_label: Any) -> tuple[int, Any]:
    """Return the column and the name of the positive class of a classifier of two classes."""
    classes = np.asarray(estimator.classes_).tolist()
    if len(classes) != 2:
        msg = f"estimator must have two classes; got {len(classes)}, for which use ReliabilityPanelsDisplay"
        raise ValueError(msg)
    if pos_label is not None and pos_label not in classes:
        msg = f"pos_label must be one of {classes}; got {pos_label!r}"
        raise ValueError(msg)
    column = 1 if pos_label is None else classes.index(pos_label)
    return column, classes[column]


def _scores_and_map(estimator: Any, X: Any) -> tuple[NDArray[Any], Map | None]:
    """Return the scores of rows, and the map that a calibrated estimator applies to them."""
    if hasattr(estimator, "map_"):
        return np.asarray(X, np.float64).ravel(), estimator.map_
    if not hasattr(estimator, "calibrated_"):
        return np.asarray(estimator.decision_function(X), np.float64), None
    from calibrant.estimators.protocols import score_columns

    machine, fitted = estimator.calibrated_[0]
    scores, _ = score_columns(machine, X, estimator.classes_, fitted.scheme, estimator.kind)
    return scores[:, 0], fitted.maps[0]
