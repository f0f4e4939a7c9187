"""Displays: what is drawn is what was computed, nothing is clipped, and matplotlib is left as it was."""

from __future__ import annotations

import io
import subprocess
import sys

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC

import calibrant
from calibrant import CalibratedClassifier, Calibrator
from calibrant.evidence import curves
from tests.conftest import noisy_scores

matplotlib = pytest.importorskip("matplotlib")
from matplotlib.figure import Figure  # noqa: E402

from calibrant import plots  # noqa: E402
from calibrant.plots import (  # noqa: E402
    ErrorRejectDisplay,
    LeaveOneOutDisplay,
    MapsDisplay,
    RanksDisplay,
    ReliabilityDisplay,
    ReliabilityPanelsDisplay,
    ScoresDisplay,
    WatchDisplay,
)

NAMES = ["klr", "platt", "beta", "beta2", "bins k=10", "bins k=50", "softmax", "clip01", "pp"]


def labels_and_forecasts(n=300):
    scores, y = noisy_scores(n)
    return y, 1 / (1 + np.exp(-2 * scores))


def ranks():
    rng = np.random.default_rng(0)
    return np.argsort(np.argsort(np.arange(9) + rng.normal(0, 2, (15, 9)), axis=1), axis=1) + 1


@pytest.fixture(scope="module")
def flowers():
    """Return noisy iris flowers, half to train on and half to try."""
    X, y = load_iris(return_X_y=True)
    X = X + np.random.default_rng(0).normal(0, 0.6, X.shape)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    return X[::2], names[::2], X[1::2], names[1::2]


@pytest.fixture(scope="module")
def two(flowers):
    """Return a machine for two of the flowers and rows to try it on."""
    X, y, X_new, y_new = flowers
    known, new = y != "setosa", y_new != "setosa"
    model = CalibratedClassifier(SVC(), method="platt").fit(X[known], y[known])
    return model, X_new[new], y_new[new]


def every_display():
    """Yield the name of each display and a function that draws it."""
    y, p = labels_and_forecasts()
    scores, labels = noisy_scores()
    fitted = calibrant.fit("platt", scores, labels)
    P = np.random.default_rng(0).dirichlet([1, 1, 1], 60)
    classes = np.array([np.random.default_rng(1).choice(3, p=row) for row in P])
    options = {"draws": 30}
    yield "corp", lambda ax: ReliabilityDisplay.from_predictions(y, p, ax=ax, **options)
    yield "corp confidence", lambda ax: ReliabilityDisplay.from_predictions(y, p, ax=ax, bands="confidence", **options)
    yield "no band", lambda ax: ReliabilityDisplay.from_predictions(y, p, ax=ax, bands=None, name="svm")
    yield "binned", lambda ax: ReliabilityDisplay.from_predictions(y, p, ax=ax, method="binned", **options)
    yield "one forecast", lambda ax: ReliabilityDisplay.from_predictions(y, np.full(len(y), 0.4), ax=ax, **options)
    for of in curves.PANELS:
        yield of, lambda _, of=of: ReliabilityPanelsDisplay.from_predictions(classes, P, of=of, **options)
    yield "scores", lambda ax: ScoresDisplay.from_predictions(labels, scores, fitted, ax=ax)
    yield "scores without map", lambda ax: ScoresDisplay.from_predictions(labels, scores, ax=ax, width=0.1)
    yield (
        "densities",
        lambda ax: ScoresDisplay(curves.scores_by_class(scores, labels, fitted, width=0.1)).plot(ax, density=True),
    )
    yield "error-reject", lambda ax: ErrorRejectDisplay.from_predictions(classes, P, ax=ax)
    yield "no errors", lambda ax: ErrorRejectDisplay.from_predictions([0, 1], [0.1, 0.9], ax=ax)
    yield "maps", lambda ax: MapsDisplay.from_predictions(labels, scores, ax=ax)
    X, species = load_iris(return_X_y=True)
    machine = calibrant.KernelLogisticRegression().fit(X[50:], species[50:])
    yield "leave-one-out", lambda ax: LeaveOneOutDisplay.from_estimator(machine, ax=ax)
    wide = calibrant.KernelLogisticRegression(gamma="loo").fit(X[50::2], species[50::2])
    yield "leave-one-out of gammas", lambda ax: LeaveOneOutDisplay.from_estimator(wide, ax=ax)
    yield "ranks", lambda ax: RanksDisplay.from_ranks(ranks(), NAMES, ax=ax)


DISPLAYS = dict(every_display())


def styled_displays():
    """Return for some displays a function that draws them in a style."""
    y, p = labels_and_forecasts()
    scores, labels = noisy_scores()
    P = np.random.default_rng(0).dirichlet([1, 1, 1], 60)
    classes = np.array([np.random.default_rng(1).choice(3, p=row) for row in P])
    return {
        "corp": lambda style: ReliabilityDisplay.from_predictions(y, p, draws=20, style=style),
        "class": lambda style: ReliabilityPanelsDisplay.from_predictions(classes, P, draws=20, style=style),
        "scores": lambda style: ScoresDisplay.from_predictions(labels, scores, style=style),
        "error-reject": lambda style: ErrorRejectDisplay.from_predictions(classes, P, style=style),
        "maps": lambda style: MapsDisplay.from_predictions(labels, scores, style=style),
        "ranks": lambda style: RanksDisplay.from_ranks(ranks(), NAMES, style=style),
    }


STYLED = styled_displays()


def texts(figure):
    return [text for text in figure.findobj(matplotlib.text.Text) if text.get_text().strip() and text.get_visible()]


@pytest.mark.parametrize("name", DISPLAYS)
class TestEveryDisplay:
    def test_all_text_is_inside_its_own_figure_and_no_setting_is_changed(self, name):
        before = dict(matplotlib.rcParams)
        figure = DISPLAYS[name](None).figure_
        assert dict(matplotlib.rcParams) == before
        assert isinstance(figure, Figure)
        figure.draw_without_rendering()
        # Ticks beyond the limits are made and not drawn; they lie outside on purpose.
        unused = unused_ticks(figure)
        for text in texts(figure):
            box = text.get_window_extent()
            inside = min(box.x0, box.y0, figure.bbox.width - box.x1, figure.bbox.height - box.y1) >= -1
            assert inside or text in unused, text

    def test_onto_axes_of_the_user(self, name):
        figure = Figure()
        ax = figure.subplots(1, 2)[1]
        display = DISPLAYS[name](ax)
        if not isinstance(display, ReliabilityPanelsDisplay):
            assert display.ax_ is ax
            assert display.figure_ is figure


@pytest.mark.parametrize("name", ["corp", "class", "scores", "error-reject", "maps", "ranks"])
def test_a_style_by_name_or_as_settings(name):
    """Styles change the size of text, only for the drawing; pictures are vectors."""
    before = dict(matplotlib.rcParams)
    sizes = {}
    for style in ("paper", "screen", "slides"):
        figure = STYLED[name](style).figure_
        sizes[style] = float(np.median([text.get_fontsize() for text in texts(figure)]))
        for kind, start in (("svg", b"<?xml"), ("pdf", b"%PDF")):
            content = io.BytesIO()
            figure.savefig(content, format=kind)
            assert content.getvalue().startswith(start)
            assert b"<image" not in content.getvalue()
    assert sizes["paper"] < sizes["screen"] < sizes["slides"]
    assert dict(matplotlib.rcParams) == before


def test_an_unknown_style_is_refused():
    y, p = labels_and_forecasts()
    with pytest.raises(
        ValueError, match=r"style must be a dictionary of settings, or one of screen, paper, slides, .*; got 'papr'"
    ):
        ReliabilityDisplay.from_predictions(y, p, style="papr", draws=10)


def test_a_notebook_shows_our_own_figures():
    assert DISPLAYS["ranks"](None)._repr_png_().startswith(b"\x89PNG")
    assert DISPLAYS["ranks"](Figure().add_subplot())._repr_png_() is None


def unused_ticks(figure):
    """Return the labels of ticks that lie outside of the limits of their axis."""
    unused = []
    for axes in figure.findobj(matplotlib.axes.Axes):
        for axis, (low, high) in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
            for tick in [*axis.get_major_ticks(), *axis.get_minor_ticks()]:
                if not min(low, high) <= tick.get_loc() <= max(low, high) or not axes.axison:
                    unused += [tick.label1, tick.label2]
    return unused


def test_drawing_does_not_import_pyplot():
    code = (
        "import sys\n"
        "from calibrant.plots import ReliabilityDisplay\n"
        "ReliabilityDisplay.from_predictions([0, 1], [0.2, 0.7], draws=5).figure_.draw_without_rendering()\n"
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


class TestReliability:
    @pytest.mark.parametrize("method", curves.RELIABILITY)
    def test_line_is_the_record(self, method):
        y, p = labels_and_forecasts()
        display = ReliabilityDisplay.from_predictions(y, p, method=method, draws=30)
        assert display.line_.get_xdata().tolist() == display.curve.forecast.tolist()
        assert display.line_.get_ydata().tolist() == display.curve.share.tolist()

    def test_band_is_the_record(self):
        y, p = labels_and_forecasts()
        display = ReliabilityDisplay.from_predictions(y, p, draws=30)
        corners = display.band_.get_paths()[0].vertices
        band = display.curve.band
        for side in (band.low, band.high):
            drawn = {tuple(corner) for corner in corners.tolist()}
            assert set(zip(band.x.tolist(), side.tolist(), strict=True)) <= drawn

    def test_bars_are_the_record(self):
        y, p = labels_and_forecasts()
        display = ReliabilityDisplay.from_predictions(y, p, method="binned", bands="confidence")
        band = display.curve.band
        drawn = np.array(display.band_.get_segments())
        assert drawn[:, 0].tolist() == np.column_stack([band.x, band.low]).tolist()
        assert drawn[:, 1].tolist() == np.column_stack([band.x, band.high]).tolist()

    def test_histogram_is_the_record(self):
        y, p = labels_and_forecasts()
        display = ReliabilityDisplay.from_predictions(y, p, bands=None)
        up, down = display.marginal_ax_.patches
        assert up.get_data().values.tolist() == display.curve.forecasts.positive.tolist()
        assert down.get_data().values.tolist() == (-display.curve.forecasts.negative).tolist()

    def test_numbers_and_legend(self):
        y, p = labels_and_forecasts()
        display = ReliabilityDisplay.from_predictions(y, p, draws=30, confidence=0.95)
        (numbers,) = display.ax_.texts
        parts = display.curve.parts
        assert [line.split() for line in numbers.get_text().split("\n")] == [
            ["MCB", f"{parts.miscalibration:.4f}"],
            ["DSC", f"{parts.discrimination:.4f}"],
            ["UNC", f"{parts.uncertainty:.4f}"],
            ["n", "300"],
        ]
        words = [text.get_text() for text in display.ax_.get_legend().get_texts()]
        assert words == ["isotonic recalibration", "95 % consistency band"]

    def test_square_with_the_histogram_as_wide(self):
        y, p = labels_and_forecasts()
        figure = Figure(figsize=(9, 4), layout="constrained")
        display = ReliabilityDisplay.from_predictions(y, p, ax=figure.add_subplot(), bands=None)
        figure.draw_without_rendering()
        square, below = (ax.get_window_extent() for ax in (display.ax_, display.marginal_ax_))
        assert square.width == pytest.approx(square.height)
        assert (square.x0, square.x1) == pytest.approx((below.x0, below.x1))
        assert below.y1 < square.y0

    def test_a_second_curve_on_the_same_axes(self):
        y, p = labels_and_forecasts()
        first = ReliabilityDisplay.from_predictions(y, p, name="raw", draws=20)
        second = ReliabilityDisplay.from_predictions(y, p**2, name="squared", ax=first.ax_, draws=20)
        assert second.line_.get_color() != first.line_.get_color()
        assert second.line_.is_dashed()
        assert second.marginal_ax_ is None
        words = [text.get_text() for text in first.ax_.get_legend().get_texts()]
        assert words == ["raw", "squared", "90 % consistency band"]
        (numbers,) = first.ax_.texts
        lines = [line.split() for line in numbers.get_text().split("\n")]
        assert lines[0] == ["raw", "squared"]
        assert lines[1] == ["MCB", *(f"{each.curve.parts.miscalibration:.4f}" for each in (first, second))]

    @pytest.mark.parametrize("style", [None, "paper", "slides", "ggplot", {"font.size": 9.0}])
    @pytest.mark.parametrize("systems", [2, 3])
    def test_systems_share_an_axis_and_no_text_meets_another(self, style, systems):
        y, p = labels_and_forecasts()
        names = ["random forest", "after temperature", "svm"]
        display = None
        for power, name in zip((1.0, 2.0, 0.5)[:systems], names, strict=False):
            ax = None if display is None else display.ax_
            display = ReliabilityDisplay.from_predictions(y, p**power, name=name, ax=ax, draws=20, style=style)
        display.figure_.draw_without_rendering()
        boxes = [(text.get_text(), text.get_window_extent()) for text in texts(display.figure_)]
        unused = {text.get_text() for text in unused_ticks(display.figure_)}
        for k, (one, box) in enumerate(boxes):
            for other, beside in boxes[k + 1 :]:
                assert one in unused or other in unused or not box.overlaps(beside), (one, other)

    def test_without_histogram_and_numbers(self):
        y, p = labels_and_forecasts()
        display = ReliabilityDisplay(curves.reliability(y, p, bands=None)).plot(marginal=False, numbers=False)
        assert display.marginal_ax_ is None
        assert not display.ax_.texts
        assert display.ax_.get_xlabel() == "forecast probability"

    def test_from_estimator(self, two):
        model, X, y = two
        display = ReliabilityDisplay.from_estimator(model, X, y, draws=20)
        expected = curves.reliability(y == "virginica", model.predict_proba(X)[:, 1], draws=20)
        assert display.curve.share.tolist() == expected.share.tolist()
        assert display.curve.name == "CalibratedClassifier"
        other = ReliabilityDisplay.from_estimator(model, X, y, pos_label="versicolor", bands=None)
        expected = curves.reliability(y == "versicolor", model.predict_proba(X)[:, 0], bands=None)
        assert other.curve.share.tolist() == expected.share.tolist()

    def test_refuses(self, two, flowers):
        model, X, y = two
        with pytest.raises(ValueError, match=r"pos_label must be one of \['versicolor', 'virginica'\]; got 'setosa'"):
            ReliabilityDisplay.from_estimator(model, X, y, pos_label="setosa")
        several = LogisticRegression(max_iter=500).fit(*flowers[:2])
        with pytest.raises(ValueError, match="estimator must have two classes; got 3"):
            ReliabilityDisplay.from_estimator(several, *flowers[2:])

    def test_axes_outside_of_any_grid(self):
        y, p = labels_and_forecasts()
        figure = Figure()
        display = ReliabilityDisplay.from_predictions(y, p, ax=figure.add_axes((0.2, 0.4, 0.6, 0.5)), bands=None)
        figure.draw_without_rendering()
        assert display.marginal_ax_.get_window_extent().y1 < display.ax_.get_window_extent().y0


class TestPanels:
    @pytest.mark.parametrize("of", curves.PANELS)
    def test_from_estimator(self, of, flowers):
        X, y, X_new, y_new = flowers
        model = LogisticRegression(max_iter=500).fit(X, y)
        display = ReliabilityPanelsDisplay.from_estimator(model, X_new, y_new, of=of, draws=20)
        expected = curves.reliability_by_class(y_new, model.predict_proba(X_new), of=of, draws=20)
        assert len(display.axes_) == len(expected.curves)
        for panel, curve in zip(display.displays_, expected.curves, strict=True):
            assert panel.line_.get_ydata().tolist() == curve.share.tolist()
            assert curve.name in panel.ax_.get_title(loc="left") or of == "confidence"

    def test_more_classes_than_columns(self):
        rng = np.random.default_rng(0)
        P = rng.dirichlet(np.ones(5), 100)
        y = np.arange(100) % 5
        display = ReliabilityPanelsDisplay(curves.reliability_by_class(y, P, bands=None)).plot(marginal=False)
        assert len(display.figure_.axes) == len(display.axes_) == 5
        places = {tuple(np.round(ax.get_subplotspec().get_position(display.figure_).bounds, 6)) for ax in display.axes_}
        assert len(places) == 5

    def test_of_many_classes_some_are_drawn_and_it_is_said(self):
        P = np.random.default_rng(0).dirichlet(np.full(40, 0.3), 400)
        panels = curves.reliability_by_class(P.argmax(axis=1), P, labels=range(40), bands=None)
        display = ReliabilityPanelsDisplay(panels).plot(marginal=False)
        titles = [ax.get_title(loc="left") for ax in display.axes_]
        assert titles == [panels.curves[place].name for place in panels.drawn]
        assert " ".join(display.figure_.get_suptitle().split()) == panels.choice


class TestScores:
    def test_line_points_and_bars_are_the_record(self):
        scores, y = noisy_scores()
        fitted = calibrant.fit("platt", scores, y)
        display = ScoresDisplay.from_predictions(y, scores, fitted, name="platt")
        assert display.line_.get_ydata() == pytest.approx(fitted(display.line_.get_xdata()))
        points = display.ax_.containers[0].lines[0]
        assert points.get_ydata().tolist() == display.curve.posterior.share.tolist()
        up, down = display.counts_ax_.patches
        assert up.get_data().values.sum() == y.sum()
        assert -down.get_data().values.sum() == (1 - y).sum()

    def test_densities_are_the_record(self):
        scores, y = noisy_scores()
        display = ScoresDisplay(curves.scores_by_class(scores, y, width=0.1)).plot(density=True)
        assert display.line_ is None
        positive, negative = (patch.get_data().values for patch in display.counts_ax_.patches)
        assert [negative.tolist(), positive.tolist()] == [each.tolist() for each in display.curve.counts.densities]

    def test_from_a_calibrator(self):
        scores, y = noisy_scores()
        model = Calibrator("isotonic").fit(scores, y)
        display = ScoresDisplay.from_estimator(model, scores, y)
        assert display.line_.get_ydata() == pytest.approx(model.map_(display.line_.get_xdata()))
        assert display.line_.get_label() == "isotonic"

    def test_from_a_calibrated_classifier(self, two):
        model, X, y = two
        display = ScoresDisplay.from_estimator(model, X, y)
        score = model.estimator_.decision_function(X)
        curve = display.curve.fitted
        assert (curve.score[0], curve.score[-1]) == pytest.approx((score.min(), score.max()))
        found = np.interp(score, curve.score, curve.probability)
        assert found == pytest.approx(model.predict_proba(X)[:, 1], abs=1e-3)

    def test_from_a_machine_without_a_map(self, two):
        model, X, y = two
        display = ScoresDisplay.from_estimator(model.estimator_, X, y)
        assert display.line_ is None
        assert display.curve.counts.positive.sum() == (y == "virginica").sum()


class TestErrorReject:
    def test_line_is_the_record(self, flowers):
        X, y, X_new, y_new = flowers
        model = LogisticRegression(max_iter=500).fit(X, y)
        display = ErrorRejectDisplay.from_estimator(model, X_new, y_new)
        expected = curves.error_reject_curve(y_new, model.predict_proba(X_new))
        assert display.line_.get_xdata().tolist() == expected.rejected.tolist()
        assert display.line_.get_ydata().tolist() == expected.error.tolist()
        assert display.line_.get_label() == f"LogisticRegression, area {expected.area:.4f}"

    def test_between_the_limits(self):
        y, p = labels_and_forecasts()
        display = ErrorRejectDisplay.from_predictions(y, p)
        _, useless, ideal = display.ax_.lines
        for x, error in zip(display.curve.rejected, display.curve.error, strict=True):
            assert np.interp(x, ideal.get_xdata(), ideal.get_ydata()) <= error + 1e-12
        assert useless.get_ydata()[0] == ideal.get_ydata()[0] == display.curve.error[0]

    def test_two_curves(self):
        y, p = labels_and_forecasts()
        first = ErrorRejectDisplay.from_predictions(y, p, name="one")
        second = ErrorRejectDisplay.from_predictions(y, 1 - p, name="two", ax=first.ax_)
        low, high = first.ax_.get_ylim()
        assert low < 0
        assert high > second.curve.error[0]
        words = [text.get_text().split(",")[0] for text in first.ax_.get_legend().get_texts()]
        assert words == ["one", "two", "confidence says nothing", "all errors go first"]


class TestMaps:
    def test_lines_are_the_maps(self):
        scores, y = noisy_scores()
        names = ["platt", "isotonic", "gauss"]
        display = MapsDisplay.from_predictions(y, scores, names)
        for name, line in zip(names, display.lines_, strict=True):
            fitted = calibrant.fit(name, scores, y)
            assert line.get_ydata() == pytest.approx(fitted(line.get_xdata()))
            assert line.get_label() == name

    def test_from_maps_without_labels(self):
        maps = {"steep": calibrant.maps.Sigmoid(-4.0, 0.0), "flat": calibrant.maps.Sigmoid(-0.5, 0.0)}
        display = MapsDisplay.from_maps(maps, [-2.0, 3.0])
        assert [line.get_label() for line in display.lines_] == list(maps)
        assert not display.ax_.containers

    def test_lines_differ_without_colour_or_by_it(self):
        assert len(set(plots.LINES)) == len(plots.LINES)
        styles = [style for _, style in plots.LINES[:5]]
        assert len(set(styles)) == 5


class TestRanks:
    def test_names_ranks_and_cliques_are_the_record(self):
        display = RanksDisplay.from_ranks(ranks(), NAMES)
        written = [text.get_text().strip() for text in display.ax_.texts]
        for name, rank in zip(display.diagram.names, display.diagram.ranks, strict=True):
            assert f"{name}  {rank:.2f}" in written or f"{rank:.2f}  {name}" in written
        bars = [line for line in display.ax_.lines if line.get_gid() == "clique"]
        place = dict(zip(display.diagram.names, display.diagram.ranks, strict=True))
        for bar, clique in zip(bars, display.diagram.cliques, strict=True):
            first, last = bar.get_xdata()
            assert (first, last) == pytest.approx((place[clique[0]], place[clique[-1]]), abs=0.05)

    @pytest.mark.parametrize("methods", [2, 3, 9])
    def test_no_name_on_another(self, methods):
        display = RanksDisplay.from_ranks(np.tile(np.arange(1, methods + 1), (4, 1)), NAMES[:methods])
        display.figure_.draw_without_rendering()
        boxes = [text.get_window_extent() for text in display.ax_.texts]
        for k, box in enumerate(boxes):
            assert not any(box.overlaps(other) for other in boxes[:k])


def test_the_path_over_c_is_drawn_where_it_was_computed():
    X, y = load_iris(return_X_y=True)
    machine = calibrant.KernelLogisticRegression().fit(X[50:], y[50:])
    display = LeaveOneOutDisplay.from_estimator(machine)
    (line,) = display.lines_
    np.testing.assert_array_equal(line.get_xdata(), machine.loo_.paths[0].C)
    np.testing.assert_array_equal(line.get_ydata(), machine.loo_.paths[0].loss)
    with pytest.raises(ValueError, match="fitted with C='loo'"):
        LeaveOneOutDisplay.from_estimator(calibrant.KernelLogisticRegression(1.0).fit(X, y))


def test_a_watch_shows_its_evidence_and_where_the_change_began():
    scores, y = noisy_scores(2000)
    fitted = calibrant.fit("platt", scores, y)
    days = np.arange(2000) // 50
    changed = np.where(days >= 20, np.random.default_rng(0).permutation(y), y)
    state = calibrant.watch(fitted, scores, changed, batch=days, groups=days % 2)
    for group in (None, "1"):
        display = WatchDisplay(state, group).plot()
        lines = (state.whole if group is None else state.groups[group]).lines
        np.testing.assert_allclose(display.line_.get_ydata() * np.log(10), [line.log_e for line in lines])
        np.testing.assert_array_equal(display.line_.get_xdata(), [line.last for line in lines])
        assert display.ax_.get_title(loc="left") == "Drift"
        assert display._repr_png_().startswith(b"\x89PNG")
    ax = Figure().add_subplot()
    assert WatchDisplay(state).plot(ax).ax_ is ax
    with pytest.raises(ValueError, match="state must watch the group 'x'"):
        WatchDisplay(state, "x")
