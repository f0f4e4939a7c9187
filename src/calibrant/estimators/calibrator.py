"""A scikit-learn classifier of scores, and what every estimator here checks about rows and labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import assert_all_finite, indexable
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from calibrant.arrays import Floats
from calibrant.checks import (
    check_class_names,
    check_matrix,
    check_unit,
    check_vector,
    has_columns,
    refuse_masked,
    refuse_missing,
    refuse_other_order,
    require_real,
    to_array,
    to_numbers,
)
from calibrant.estimators.showing import FittedCardMixin
from calibrant.maps import Map, check_method, fit_map, log_probabilities, probabilities
from calibrant.maps.classes import log_classes
from calibrant.maps.lifting import fit_class_map
from calibrant.samples import ask_for_kind, class_sample, read_kind, sample

__all__ = [
    "Calibrator",
    "FeaturesMixin",
    "check_rows",
    "check_target",
    "read_scores",
]


class Calibrator(FittedCardMixin, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier of scores that gives probabilities, by any method.

    One column of scores gives the probability of the second of two classes; one column per class that of each.

    Parameters
    ----------
    method : str or callable, default="auto"
        A name of `calibrant.METHODS`, or a function from a `Sample` to a map. "auto" averages smooth curves, of several
        columns maps of all classes; "platt" is Platt's sigmoid.
    kind : {"margin", "probability", "logit"}, default=None
        What the scores are, in `fit` and in prediction. None stands for "margin", decision values, and asks by a
        warning where every score lies in [0, 1].
    classes : list, default=None
        The class of each column, where there is one column per class. None stands for the classes of y in sorted order;
        classes that y does not hold must be named.
    options : dict, default=None
        Options of the method.

    Attributes
    ----------
    classes_ : the classes, sorted, as the columns of `predict_proba`. Of two the second is the one whose probability
        rises with the score.
    map_ : the fitted map, a frozen record that is its own formula. Its columns are in the order of those of the scores.

    Examples
    --------
    >>> from calibrant import Calibrator
    >>> model = Calibrator().fit([-2.1, -1.3, -0.2, 0.1, 0.6, 1.4], ["no", "no", "yes", "no", "yes", "yes"])
    >>> model.predict_proba([0.0, 3.0]).round(3)
    array([[0.454, 0.546],
           [0.057, 0.943]])
    >>> model.predict([-1.0, 1.0])
    array(['no', 'yes'], dtype='<U3')
    >>> P = [[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.3, 0.3, 0.4], [0.6, 0.3, 0.1], [0.1, 0.2, 0.7], [0.2, 0.5, 0.3]]
    >>> pets = Calibrator(kind="probability").fit(P, ["cat", "dog", "hare", "cat", "hare", "dog"])
    >>> pets.predict([[0.1, 0.8, 0.1]])
    array(['dog'], dtype='<U4')
    """

    def __init__(
        self,
        method: str | Callable[..., Map] = "auto",
        *,
        kind: str | None = None,
        classes: Any = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.method = method
        self.kind = kind
        self.classes = classes
        self.options = options

    def fit(self, scores: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the map to scores and labels; `sample_weight` counts each row as often as it says."""
        if has_columns(scores):
            return self._fit_columns(scores, y, sample_weight)
        if self.classes is not None:
            msg = "classes is for scores with one column per class; got one column: leave it out"
            raise ValueError(msg)
        if self.__dict__.pop("_order", None) is not None:  # of an earlier fit to several columns
            self.__dict__.pop("feature_names_in_", None)
        checked = read_scores(scores)
        labels = check_target(y)
        classes = np.unique(labels)
        if len(classes) > 2:
            msg = (
                f"Only binary classification is supported. The type of the target is {type_of_target(labels)}: "
                f"y has {len(classes)} classes, and scores one column; give one column per class"
            )
            raise ValueError(msg)
        if len(classes) < 2:
            msg = f"y must hold two classes; got one class only, {classes.tolist()[0]!r}"
            raise ValueError(msg)
        self.classes_ = classes
        kind = read_kind(self.kind)
        data = sample(checked, labels == classes[1], sample_weight, kind=kind)
        if data.label.min() == data.label.max():
            only = self.classes_.tolist()[int(data.label[0])]
            msg = f"y must hold two classes; the rows of positive weight hold one class only, {only!r}"
            raise ValueError(msg)
        self.n_features_in_ = 1
        check_method(self.method, self.options or {})
        named = replace(data, classes=tuple(classes.tolist()))
        self.map_ = fit_map(self.method, named, kind, **(self.options or {}))
        if self.kind is None:
            ask_for_kind(data.score)
        return self

    def _fit_columns(self, scores: Any, y: ArrayLike, sample_weight: ArrayLike | None) -> Self:
        """Fit the map to one column of scores per class."""
        labels = check_target(y)
        kind = read_kind(self.kind)
        data = class_sample(scores, labels, sample_weight, kind=kind, classes=self.classes)
        validate_data(self, scores, skip_check_array=True)  # remembers the number of columns, and their names
        columns = np.unique(labels) if self.classes is None else check_class_names("classes", self.classes)
        self.map_ = fit_class_map(self.method, data, **(self.options or {}))
        self.classes_, self._order = np.unique(columns, return_index=True)
        if self.kind is None:
            ask_for_kind(data.scores)
        return self

    def predict_proba(self, scores: Any) -> NDArray[np.float64]:
        """Return the probability of each class, one row per score."""
        checked = self._check_scores(scores)
        return probabilities(self.map_, checked) if checked.ndim == 1 else self._sort(self.map_(checked))

    def predict_log_proba(self, scores: Any) -> NDArray[np.float64]:
        """Return the logarithms of the probabilities, of two classes exact even where those round to 0 or 1."""
        checked = self._check_scores(scores)
        return (
            log_probabilities(self.map_, checked) if checked.ndim == 1 else self._sort(log_classes(self.map_, checked))
        )

    def predict(self, scores: Any) -> NDArray[Any]:
        """Return the most probable class of each score; of two at one half, the second."""
        p = self.predict_proba(scores)
        best = (p[:, 1] >= 0.5).astype(int) if p.shape[1] == 2 else p.argmax(axis=1)
        return np.asarray(self.classes_[best])

    def to_onnx(self, *, dtype: str = "float64", rows: Any = None) -> Any:  # noqa: ARG002 (there is nothing to compare)
        """Return the fitted map as an ONNX model from `scores` to what `predict_proba` gives; see `calibrant.onnx`."""
        from calibrant.maps.exporting import export_map

        check_is_fitted(self)
        return export_map(self.map_, dtype, order=vars(self).get("_order"))

    def _sort(self, columns: Floats) -> Floats:
        """Return columns in the order of `classes_`."""
        in_order = (self._order[1:] > self._order[:-1]).all()
        return columns if in_order else columns[:, self._order]

    def _check_scores(self, scores: Any) -> NDArray[Any]:
        """Return scores of as many columns as the map was fitted to, and of its kind."""
        check_is_fitted(self)
        if hasattr(self, "_order"):
            return self._check_columns(scores)
        checked = read_scores(scores)
        origin = getattr(self.map_, "origin", None)  # which a map of one's own function may lack
        if origin is not None:
            origin.require_kind(self.kind)
        if self.kind == "probability":
            check_unit("scores", checked[~np.isnan(checked)])
        return checked

    def _check_columns(self, scores: Any) -> NDArray[Any]:
        """Return scores with one column per class, in the order of those the map was fitted to."""
        fitted: Any = self.map_
        fitted.origin.require_kind(self.kind)
        checked, columns = to_array("scores", scores), len(self.classes_)
        if checked.ndim != 2 or checked.shape[1] != columns:
            msg = f"scores must have {columns} columns, one per class; got an array of shape {checked.shape}"
            raise ValueError(msg)
        refuse_other_order(scores, fitted.origin.classes, None)
        validate_data(self, scores, skip_check_array=True, reset=False)
        known = ~np.isnan(checked).any(axis=1) if self.kind == "probability" else np.zeros(1, bool)
        if known.any():
            check_matrix("scores", checked if known.all() else checked[known], "probability")
        return checked

    def __sklearn_tags__(self) -> Any:
        """Declare what scores are: one column, or, which scikit-learn has no word for, one column per class."""
        tags = super().__sklearn_tags__()
        tags.input_tags.one_d_array = True
        tags.input_tags.two_d_array = False
        tags.input_tags.allow_nan = False
        return tags


class FeaturesMixin:
    """The feature attributes of an estimator around a fitted `estimator_`, or around several `members_`."""

    @property
    def n_features_in_(self) -> int:
        """The number of columns the machine was trained on."""
        return int(self._trained.n_features_in_)

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """The names of the columns the machine was trained on, if they had names."""
        return np.asarray(self._trained.feature_names_in_)

    @property
    def _trained(self) -> Any:
        own = vars(self)
        if "estimator_" not in own and "members_" not in own:
            msg = f"{type(self).__name__} is not fitted yet"
            raise AttributeError(msg)
        return own["estimator_"] if "estimator_" in own else own["members_"][0]


def read_scores(scores: ArrayLike) -> NDArray[Any]:
    """Return scores as an array of real numbers."""
    if issparse(scores):
        msg = "scores must be a dense column; sparse data is not supported, use .toarray()"
        raise TypeError(msg)
    array = check_vector("scores", scores)
    if array.dtype.kind in "OUS":
        return to_numbers("scores", array.astype(object))
    require_real("scores", array)
    return array


def check_rows(X: Any, y: ArrayLike | None) -> tuple[Any, NDArray[Any]]:
    """Return rows and labels, one label per row and at least one row; the values of X are left to the machine."""
    labels = check_target(y)
    refuse_masked("X", X)
    X, labels = indexable(X, labels)
    if len(labels) == 0:
        msg = "X and y must hold at least one row; got 0 sample(s)"
        raise ValueError(msg)
    return X, labels


def check_target(y: ArrayLike | None) -> NDArray[Any]:
    """Return labels as a vector of classes, after scikit-learn's own checks."""
    if y is None:
        msg = "fit requires y to be passed, but the target y is None"
        raise ValueError(msg)
    refuse_masked("y", y)
    refuse_missing("y", np.asarray(y))
    labels = column_or_1d(y, warn=True)
    assert_all_finite(labels, input_name="y")
    check_classification_targets(labels)
    return np.asarray(labels)
