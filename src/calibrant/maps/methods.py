"""The table of methods: what each needs, fits and promises, and where it comes from."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from calibrant.maps.averages import Auto
from calibrant.maps.platt import fit_platt, fit_softmax
from calibrant.maps.records import (
    BetaCdf,
    BetaClasses,
    BetaLogit,
    Clip,
    Cosines,
    Ends,
    Lines,
    LogitLines,
    Parzen,
    QuadraticLogit,
    Sigmoid,
    Steps,
    VennAbers,
)

__all__ = [
    "ALIASES",
    "ANY",
    "MACHINE_METHODS",
    "METHODS",
    "NEEDS",
    "REAL",
    "UNIT",
    "Later",
    "Method",
    "list_methods",
]

# What the fit of a method looks at.
NEEDS = {
    "column": "one column of scores",
    "matrix": "one column of scores per class",
    "machine": "the support vectors of an SVC",
}

REAL = "real"  # decision values and logits
UNIT = "unit"  # probabilities
ANY = "any"  # whatever the scores are: only their values or order count


@dataclass(frozen=True, slots=True)
class Method:
    """One way to fit a map.

    `needs` says what `fit(data, **options)` looks at, and so what it returns:

    * "column": a `Sample`; the fit returns a `Map` of one column of scores.
    * "matrix": a `ClassSample` whose scores are memberships, rows of one number per class that sum to 1, or their
      logarithms where `domain` is "real"; the fit returns a record whose method `matrix` takes such rows and returns
      the class probabilities.
    * "machine": a `Calibration`, which is what a two-class kernel machine knows about rows. The fit returns a record:
      `record(x, f)` gives the columns (1 - p, p) of rows x, as the kernel takes them, with their decision values f, and
      `record.unseen(calibration)` gives those of the calibration rows as if they were new.

    `domain` says which scores a map of one column is defined on: "real" (a probability is sent through the logit
    first), "unit" (a logit is sent through the logistic function; a margin through `squash`, or refused where there is
    none) or "any". `invariant` says what may be done to the scores of fit and prediction without changing a
    probability: "affine" (any scale and offset), "scale" (for a method of a matrix, margins are divided by their spread
    before the fit), or "none". `labels` says whether the fit looks at the labels.
    `reduce` says how the fit depends on the scores, and so what an engine must bring home of a table: "moments" (their
    means and variances, if at all), "sums" (sums of smooth functions of them), or "cells" (anything else).
    `sift(low, high, positive, weight, **options)`, where the fit depends on the order of scores, says in which cells of
    rows, given their first and last scores, the order inside matters.
    `joint` is the row of the same method for all classes at once, where a method of one column has one. `look(geometry,
    x, **options)`, where a method of a machine has one, is a number that machines which have not been trained on the
    calibration rows see in them; it is pooled over folds as their scores are.
    `title` is its name for people. `numbers` is how many numbers the fit finds, to one column or, of a matrix, to all;
    None where that depends on the data or on how many classes there are: of methods that are equally good, the one with
    the fewest is the simplest. `blocks` says of a fit to logarithms of memberships that it reads them by slices of rows
    alone, and that a constant added to a row makes no difference to it: it is then given `LogRows` of
    `calibrant.maps.classes`, which takes no memory. `lean` says of a fit of all classes that beside the memberships,
    which may be in a file, it needs memory for a few numbers per row alone: engines fit it to all rows.

    Attributes
    ----------
    monotone : whether the map never falls.
    source : the paper.

    >>> METHODS["isotonic"].monotone, METHODS["isotonic"].domain, METHODS["temperature"].numbers
    (True, 'any', 1)
    """

    fit: Callable[..., Any]
    record: Any
    domain: str
    monotone: bool
    source: str
    invariant: str = "none"
    squash: str | None = None
    labels: bool = True
    needs: str = "column"
    joint: Method | None = None
    reduce: str = "cells"
    sift: Callable[..., Any] | None = None
    look: Callable[..., Any] | None = None
    title: str = ""
    numbers: int | None = None
    blocks: bool = False
    lean: bool = False

    @property
    def takes_all(self) -> bool:
        """Whether it is fitted to all classes at once, where there is one column of scores per class."""
        return self.needs == "matrix" or self.joint is not None

    def options(self) -> list[str]:
        """Return the names of the options the fit takes."""
        return [p.name for p in inspect.signature(self.fit).parameters.values() if p.kind is p.KEYWORD_ONLY]


@dataclass(frozen=True, slots=True)
class Later:
    """A function or a record of a module, named from `calibrant.maps`, that is imported when it is first needed."""

    module: str
    name: str

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """Call the function."""
        return self.found(*arguments, **options)

    @property
    def found(self) -> Callable[..., Any]:
        """What it stands for."""
        found: Callable[..., Any] = getattr(import_module(f".{self.module}", "calibrant.maps"), self.name)
        return found

    @property
    def __signature__(self) -> inspect.Signature:
        """What `inspect.signature` shows."""
        return inspect.signature(self.found)

    @property
    def __name__(self) -> str:
        """The name it has in its module."""
        return self.name

    @property
    def __doc__(self) -> str | None:  # type: ignore[override]
        """The docstring of what it stands for."""
        return self.found.__doc__


METHODS: dict[str, Method] = {
    "softmax": Method(
        fit_softmax,
        Sigmoid,
        REAL,
        True,
        "Rüping 2004, sec. 4",
        labels=False,
        reduce="moments",
        title="fixed sigmoid",
        numbers=0,
    ),
    "platt": Method(
        fit_platt,
        Sigmoid,
        REAL,
        True,
        "Platt 1999; Lin, Lin & Weng 2007, hardened",
        "affine",
        reduce="sums",
        title="Platt's sigmoid",
        numbers=2,
    ),
    "platt_newton": Method(
        Later("published", "fit_platt_newton"),
        Sigmoid,
        REAL,
        True,
        "Lin, Lin & Weng 2007, appendix, as printed",
        reduce="sums",
        title="Platt's sigmoid, Newton as printed",
        numbers=2,
    ),
    "platt_lm": Method(
        Later("published", "fit_platt_lm"),
        Sigmoid,
        REAL,
        True,
        "Platt 1999, appendix, as printed",
        reduce="sums",
        title="Platt's sigmoid, Levenberg-Marquardt as printed",
        numbers=2,
    ),
    "platt_gauss": Method(
        Later("priors", "fit_platt_gauss"),
        Sigmoid,
        REAL,
        True,
        "Platt 1999, sec. 2.2: Gaussian prior on the slope",
        "affine",
        reduce="sums",
        title="Platt's sigmoid with a Gaussian prior",
        numbers=2,
    ),
    "platt_laplace": Method(
        Later("priors", "fit_platt_laplace"),
        Sigmoid,
        REAL,
        True,
        "Platt 1999, sec. 2.2: Laplace prior on the slope",
        "affine",
        reduce="sums",
        title="Platt's sigmoid with a Laplace prior",
        numbers=2,
    ),
    "platt_parzen": Method(
        Later("priors", "fit_platt_parzen"),
        Sigmoid,
        REAL,
        True,
        "Platt 1999, sec. 2.2: scores with Parzen noise",
        "affine",
        title="Platt's sigmoid with Parzen noise",
        numbers=2,
    ),
    "duin_tax": Method(
        Later("duin_tax", "fit_duin_tax"),
        Sigmoid,
        REAL,
        True,
        "Duin & Tax 1998, sec. 2.2",
        reduce="sums",
        title="Duin and Tax's sigmoid",
        numbers=1,
    ),
    "gauss_tied": Method(
        Later("margins", "fit_gauss_tied"),
        Sigmoid,
        REAL,
        True,
        "Hastie & Tibshirani 1996, in Platt 1999, sec. 2.1",
        "scale",
        reduce="moments",
        title="two Gaussians, one variance",
        numbers=1,
    ),
    "gauss": Method(
        Later("margins", "fit_gauss"),
        QuadraticLogit,
        REAL,
        False,
        "Platt 1999, sec. 2.1",
        "affine",
        reduce="moments",
        title="two Gaussians, own variances",
        numbers=3,
    ),
    "temperature": Method(
        Later("regressions", "fit_temperature"),
        Sigmoid,
        REAL,
        True,
        "Guo et al. 2017, for two classes",
        "scale",
        joint=Method(
            Later("temperatures", "fit_temperature_classes"),
            Later("class_records", "TemperatureClasses"),
            REAL,
            True,
            "Guo et al. 2017",
            "scale",
            needs="matrix",
            numbers=1,
            blocks=True,
        ),
        reduce="sums",
        title="temperature scaling",
        numbers=1,
    ),
    "temperature_robust": Method(
        Later("temperatures", "fit_temperature_robust"),
        Later("class_records", "RobustTemperature"),
        UNIT,
        False,
        "Temperature with a floor for memberships and a mixture with the classes' shares",
        "scale",
        needs="matrix",
        lean=True,
        title="robust temperature",
    ),
    "vector": Method(
        Later("structured", "fit_vector"),
        Later("class_records", "VectorClasses"),
        REAL,
        False,
        "Guo et al. 2017, vector scaling",
        "scale",
        needs="matrix",
        lean=True,
        title="vector scaling",
    ),
    "matrix": Method(
        Later("structured", "fit_matrix"),
        Later("class_records", "StructuredClasses"),
        UNIT,
        False,
        "Structured matrix scaling, after Berta et al. 2025; strengths: MacKay 1992",
        "scale",
        needs="matrix",
        lean=True,
        title="matrix scaling",
    ),
    "dirichlet": Method(
        Later("structured", "fit_dirichlet"),
        Later("class_records", "LinearClasses"),
        REAL,
        False,
        "Kull et al. 2019, with ODIR",
        "scale",
        needs="matrix",
        lean=True,
        title="Dirichlet calibration",
    ),
    "kull_beta": Method(
        Later("regressions", "fit_kull_beta"),
        BetaLogit,
        REAL,
        True,
        "Kull, Silva Filho & Flach 2017",
        reduce="sums",
        title="Kull's beta calibration",
        numbers=3,
    ),
    "quadratic": Method(
        Later("regressions", "fit_quadratic"),
        QuadraticLogit,
        REAL,
        True,
        "Logistic regression on the logit and its square, kept rising",
        "affine",
        reduce="sums",
        title="quadratic logit",
        numbers=3,
    ),
    "auto": Method(
        Later("auto", "fit_auto"),
        Auto,
        REAL,
        False,
        "Bayesian average of smooth curves on the logit scale",
        "scale",
        joint=Method(
            Later("stacking", "fit_auto_classes"),
            Later("class_records", "AutoClasses"),
            UNIT,
            False,
            "Nested maps of all classes, stacked by leave-one-out",
            "scale",
            needs="matrix",
        ),
        title="automatic average",
    ),
    "spline": Method(
        Later("spline", "fit_spline"),
        LogitLines,
        REAL,
        True,
        "P-splines: Eilers & Marx 1996; rising: Bollaerts et al. 2006; strength: Wood 2011",
        "affine",
        title="smooth rising spline",
    ),
    "bins": Method(
        Later("bins", "fit_bins"),
        Steps,
        ANY,
        False,
        "Drish 2001; Zadrozny & Elkan 2001; Rüping 2004, sec. 4",
        "affine",
        sift=Later("bins", "sift_bins"),
        title="binning",
    ),
    "isotonic": Method(
        Later("isotonic", "fit_isotonic"),
        Lines,
        ANY,
        True,
        "Ayer et al. 1955; Zadrozny & Elkan 2002",
        "affine",
        sift=Later("isotonic", "sift_isotonic"),
        title="isotonic regression",
    ),
    "isotonic_centered": Method(
        Later("isotonic", "fit_isotonic_centered"),
        Lines,
        ANY,
        True,
        "Oron & Flournoy 2017",
        "affine",
        sift=Later("isotonic", "sift_isotonic"),
        title="centred isotonic regression",
    ),
    "venn_abers": Method(
        Later("venn_abers", "fit_venn_abers"),
        VennAbers,
        ANY,
        True,
        "Vovk, Petej & Fedorova 2015",
        "affine",
        sift=Later("venn_abers", "sift_venn_abers"),
        title="Venn-Abers",
    ),
    "beta": Method(
        Later("beta", "fit_beta"),
        BetaClasses,
        UNIT,
        False,
        "Garczarek 2002, as in klaR; Rüping 2004, sec. 4",
        squash="softmax",
        sift=Later("beta", "sift_beta"),
        joint=Method(
            Later("beta", "fit_beta_classes"), BetaClasses, UNIT, False, "Garczarek 2002, as in klaR", needs="matrix"
        ),
        title="beta densities",
        numbers=10,
    ),
    "beta2": Method(
        Later("beta", "fit_beta2"),
        BetaCdf,
        UNIT,
        True,
        "Rüping 2004, sec. 4, Beta-2 (reconstructed)",
        squash="softmax",
        title="beta distribution function",
        numbers=4,
    ),
    "clip01": Method(
        Later("margins", "fit_clip01"),
        Clip,
        REAL,
        True,
        "Rüping 2004, sec. 4, SVM-01",
        labels=False,
        reduce="moments",
        title="clipped margin",
        numbers=0,
    ),
    "pp": Method(
        Later("margins", "fit_pp"),
        Clip,
        REAL,
        True,
        "Rüping 2004, sec. 4, SVM-PP",
        sift=Later("margins", "sift_margin"),
        title="clipped margin, class shares",
        numbers=2,
    ),
    "printed01": Method(
        Later("margins", "fit_printed01"),
        Ends,
        REAL,
        False,
        "Rüping 2004, sec. 4, sigma_01 as printed",
        sift=Later("margins", "sift_margin"),
        title="margin with class shares outside",
        numbers=2,
    ),
    "parzen": Method(
        Later("parzen", "fit_parzen"),
        Parzen,
        REAL,
        False,
        "Parzen 1962; in Platt 1999, sec. 2.2",
        "affine",
        title="Parzen densities",
    ),
    "cosine": Method(
        Later("cosine", "fit_cosine"),
        Cosines,
        REAL,
        False,
        "Vapnik 1998, sec. 11.11, in Platt 1999 (reconstructed)",
        "affine",
        title="cosine series",
    ),
    "moderated": Method(
        Later(".svm.moderated", "fit_moderated"),
        Later(".svm.moderated", "Moderated"),
        REAL,
        False,
        "Kwok 1999 (reconstructed)",
        needs="machine",
        look=Later(".svm.moderated", "look_variance"),
        title="moderated output",
    ),
    "local_cosine": Method(
        Later(".svm.local_cosine", "fit_local_cosine"),
        Later(".svm.local_cosine", "LocalCosines"),
        REAL,
        False,
        "Vapnik 1998, sec. 11.11, in Platt 1999 (reconstructed)",
        needs="machine",
        title="local cosine series",
    ),
}


MACHINE_METHODS = {name: row for name, row in METHODS.items() if row.needs == "machine"}


# Names that people know from elsewhere.
ALIASES = {
    "sigmoid": "platt",
    "platt_scaling": "platt",
    "beta_calibration": "kull_beta",
    "temperature_scaling": "temperature",
    "isotonic_regression": "isotonic",
    "histogram_binning": "bins",
}


def list_methods(*needs: str) -> list[str]:
    """Return the names of the methods that need one of these.

    >>> list_methods("machine")
    ['moderated', 'local_cosine']
    """
    return [name for name, row in METHODS.items() if row.needs in needs]
