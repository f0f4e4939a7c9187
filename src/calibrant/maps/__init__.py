"""Every scaling: its fit, its record, and the one table that names them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import numpy as np

from calibrant.checks import one_of
from calibrant.maps.platt import fit_platt, fit_softmax
from calibrant.maps.records import (
    LINKS,
    BetaCdf,
    BetaClasses,
    Clip,
    Cosines,
    Ends,
    Lines,
    Linked,
    Map,
    Parzen,
    QuadraticLogit,
    Sigmoid,
    Steps,
    log_probabilities,
    probabilities,
)
from calibrant.ops import NUMPY
from calibrant.samples import Sample
from calibrant.warning import warn

__all__ = [
    "METHODS",
    "BetaCdf",
    "BetaClasses",
    "Clip",
    "Cosines",
    "Ends",
    "Lines",
    "Linked",
    "Map",
    "Method",
    "Parzen",
    "QuadraticLogit",
    "Sigmoid",
    "Steps",
    "check_method",
    "fit_map",
    "fit_quietly",
    "lacks_a_class",
    "log_probabilities",
    "probabilities",
]

REAL = "real"  # decision values and logits
UNIT = "unit"  # probabilities
ANY = "any"  # whatever the scores are: only their values or order count


@dataclass(frozen=True, slots=True)
class Method:
    """One way to fit a map.

    `domain` says which scores the map is defined on: "real" (a probability is sent through the logit first), "unit" (a
    logit is sent through the logistic function; a margin through `squash`, or refused where there is none) or
    "any". `invariant` says what may be done to the scores of fit and prediction without changing a probability:
    "affine" (any scale and offset), "scale", or "none". `labels` says whether the fit looks at the labels. `matrix`
    fits all classes at once, where the method can: `matrix(memberships, class numbers, weight, **options)` gives a
    record with a method of that name.
    """

    fit: Callable[..., Map]
    record: type
    domain: str
    monotone: bool
    source: str
    invariant: str = "none"
    squash: str | None = None
    matrix: Callable[..., Any] | None = None
    labels: bool = True

    def options(self) -> list[str]:
        """Return the names of the options the fit takes."""
        return [p.name for p in inspect.signature(self.fit).parameters.values() if p.kind is p.KEYWORD_ONLY]


@dataclass(frozen=True, slots=True)
class Later:
    """A function of a module of this package that is imported when it is first needed."""

    module: str
    name: str

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """Call the function."""
        return self.function(*arguments, **options)

    @property
    def function(self) -> Callable[..., Any]:
        """The function itself."""
        found: Callable[..., Any] = getattr(import_module(f"calibrant.maps.{self.module}"), self.name)
        return found

    @property
    def __signature__(self) -> inspect.Signature:
        """What `inspect.signature` shows."""
        return inspect.signature(self.function)


METHODS: dict[str, Method] = {
    "softmax": Method(fit_softmax, Sigmoid, REAL, True, "Rüping 2004, sec. 4", labels=False),
    "platt": Method(fit_platt, Sigmoid, REAL, True, "Platt 1999; Lin, Lin & Weng 2007, hardened", "affine"),
    "platt_newton": Method(
        Later("published", "fit_platt_newton"), Sigmoid, REAL, True, "Lin, Lin & Weng 2007, appendix, as printed"
    ),
    "platt_lm": Method(Later("published", "fit_platt_lm"), Sigmoid, REAL, True, "Platt 1999, appendix, as printed"),
    "platt_gauss": Method(
        Later("priors", "fit_platt_gauss"),
        Sigmoid,
        REAL,
        True,
        "Platt 1999, sec. 2.2: Gaussian prior on the slope",
        "affine",
    ),
    "platt_laplace": Method(
        Later("priors", "fit_platt_laplace"),
        Sigmoid,
        REAL,
        True,
        "Platt 1999, sec. 2.2: Laplace prior on the slope",
        "affine",
    ),
    "platt_parzen": Method(
        Later("priors", "fit_platt_parzen"),
        Sigmoid,
        REAL,
        True,
        "Platt 1999, sec. 2.2: scores with Parzen noise",
        "affine",
    ),
    "duin_tax": Method(Later("duin_tax", "fit_duin_tax"), Sigmoid, REAL, True, "Duin & Tax 1998, sec. 2.2"),
    "gauss_tied": Method(
        Later("margins", "fit_gauss_tied"),
        Sigmoid,
        REAL,
        True,
        "Hastie & Tibshirani 1996, in Platt 1999, sec. 2.1",
        "scale",
    ),
    "gauss": Method(Later("margins", "fit_gauss"), QuadraticLogit, REAL, False, "Platt 1999, sec. 2.1", "affine"),
    "bins": Method(
        Later("bins", "fit_bins"), Steps, ANY, False, "Drish 2001; Zadrozny & Elkan 2001; Rüping 2004, sec. 4", "affine"
    ),
    "isotonic": Method(
        Later("isotonic", "fit_isotonic"), Lines, ANY, True, "Ayer et al. 1955; Zadrozny & Elkan 2002", "affine"
    ),
    "beta": Method(
        Later("beta", "fit_beta"),
        BetaClasses,
        UNIT,
        False,
        "Garczarek 2002, as in klaR; Rüping 2004, sec. 4",
        squash="softmax",
        matrix=Later("beta", "fit_beta_matrix"),
    ),
    "beta2": Method(
        Later("beta", "fit_beta2"), BetaCdf, UNIT, True, "Rüping 2004, sec. 4, Beta-2 (reconstructed)", squash="softmax"
    ),
    "clip01": Method(Later("margins", "fit_clip01"), Clip, REAL, True, "Rüping 2004, sec. 4, SVM-01", labels=False),
    "pp": Method(Later("margins", "fit_pp"), Clip, REAL, True, "Rüping 2004, sec. 4, SVM-PP"),
    "printed01": Method(
        Later("margins", "fit_printed01"), Ends, REAL, False, "Rüping 2004, sec. 4, sigma_01 as printed"
    ),
    "parzen": Method(
        Later("parzen", "fit_parzen"), Parzen, REAL, False, "Parzen 1962; in Platt 1999, sec. 2.2", "affine"
    ),
    "cosine": Method(
        Later("cosine", "fit_cosine"),
        Cosines,
        REAL,
        False,
        "Vapnik 1998, sec. 11.11, in Platt 1999 (reconstructed)",
        "affine",
    ),
}

# (kind of score, domain of the method) -> link; a pair that is not here needs none.
NEEDED_LINK = {("probability", REAL): "logit", ("logit", UNIT): "expit"}


def check_method(method: Any, options: Any) -> None:
    """Raise unless the method is in the table, or a function, and has the options."""
    if not isinstance(options, Mapping):
        msg = f"options must be a mapping from names to values; got {options!r}"
        raise ValueError(msg)
    if callable(method):
        return
    one_of("method", method, METHODS, beside=", or a function of a Sample")
    known = METHODS[method].options()
    unknown = sorted(set(options) - set(known))
    if unknown:
        msg = f"method {method!r} has no option {unknown[0]!r}; it has {', '.join(known) or 'none'}"
        raise ValueError(msg)


def fit_map(method: str | Callable[..., Map], data: Sample, kind: str = "margin", **options: Any) -> Map:
    """Fit a method of the table, or a function of one's own, to a checked sample; say so where it lacks a class."""
    fitted = fit_quietly(method, data, kind, **options)
    if lacks_a_class(method, data):
        side = "positive" if data.label[0] else "negative"
        score = data.arrays()[0]
        p = np.asarray(fitted(score))
        constant = np.ptp(score) > 0 and np.ptp(p) == 0
        found = f"the map is the constant {p[0]:.4g}" if constant else "the map knows nothing of the other"
        warn(f"y holds one class only, {len(data)} rows that are all {side}: {found}; give rows of both classes")
    return fitted


def lacks_a_class(method: str | Callable[..., Map], data: Sample) -> bool:
    """Return whether rows are all of one class, and the method looks at classes."""
    used = callable(method) or METHODS[method].labels
    return used and bool((data.label == data.label[0]).all()) and data.label[0] in (0, 1)


def fit_quietly(method: str | Callable[..., Map], data: Sample, kind: str = "margin", **options: Any) -> Map:
    """Fit as `fit_map` does, for a caller that says itself where classes are missing."""
    check_method(method, options)
    if callable(method):
        return method(data, **options)
    row = METHODS[method]
    link = row.squash if (kind, row.domain) == ("margin", UNIT) else NEEDED_LINK.get((kind, row.domain))
    if (kind, row.domain) == ("margin", UNIT) and link is None:
        msg = f"method {method!r} needs kind='probability' or kind='logit'; got kind='margin'"
        raise ValueError(msg)
    if link is None:
        return row.fit(data, **options)
    with np.errstate(over="ignore"):  # to the limit
        linked = replace(data, score=LINKS[link](data.arrays()[0], NUMPY))
    return Linked(link, row.fit(linked, **options))
