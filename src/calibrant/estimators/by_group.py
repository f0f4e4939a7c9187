"""A scikit-learn classifier of scores in groups, whose maps are pooled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from calibrant.checks import check_unit
from calibrant.estimators.calibrator import check_target, read_scores
from calibrant.estimators.showing import FittedCardMixin
from calibrant.maps import Map, check_method, fit_groups, probabilities
from calibrant.maps.keys import read_row_keys
from calibrant.samples import ask_for_kind, read_kind, sample

__all__ = ["ByGroup"]


class ByGroup(FittedCardMixin, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier of scores in groups: a map for each, drawn towards all of them as far as they agree.

    Parameters
    ----------
    method : str or callable, default="auto"
        The method of the map of all rows, a name of `calibrant.METHODS` or a function from a `Sample` to a map.
    pool : bool, default=None
        Whether groups are lines on the log-odds of that map that are drawn towards it (True), or have maps of their own
        rows alone (False). None stands for True where there is more than one group.
    kind : {"margin", "probability", "logit"}, default=None
        What the scores are, in `fit` and in prediction. None stands for "margin", decision values, and asks by a
        warning where every score lies in [0, 1].
    options : dict, default=None
        Options of the method.

    Attributes
    ----------
    classes_ : the two classes, sorted; the probability of the second rises with the score.
    map_ : the fitted record, `calibrant.maps.PooledMaps` or `SeparateMaps`.
    groups_ : the groups that `fit` saw. Rows of others, and rows without groups, get the map of all rows.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant import ByGroup
    >>> rng = np.random.default_rng(0)
    >>> scores, shop = rng.normal(size=600), np.repeat(["east", "north", "west"], [20, 80, 500])
    >>> y = rng.random(600) < 1 / (1 + np.exp(-2 * scores - np.where(shop == "west", 0, 1)))
    >>> model = ByGroup("platt").fit(scores, y, groups=shop)
    >>> model.predict_proba([0.0, 0.0], groups=["north", "west"])[:, 1].round(2)
    array([0.65, 0.57])
    """

    def __init__(
        self,
        method: str | Callable[..., Map] = "auto",
        *,
        pool: bool | None = None,
        kind: str | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.method = method
        self.pool = pool
        self.kind = kind
        self.options = options

    def fit(self, scores: ArrayLike, y: ArrayLike, groups: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the maps to scores, labels and the group of each row; without groups all rows are one group.

        `sample_weight` counts each row as often as it says.
        """
        checked = read_scores(scores)
        labels = check_target(y)
        classes = np.unique(labels)
        if len(classes) != 2:
            found = "one class only" if len(classes) < 2 else f"{len(classes)} classes"
            msg = (
                f"Only binary classification is supported: y must hold two classes; got {found}, {classes.tolist()[:5]}"
            )
            raise ValueError(msg)
        kind, options = read_kind(self.kind), self.options or {}
        check_method(self.method, options)
        data = replace(sample(checked, labels == classes[1], sample_weight, kind=kind), classes=tuple(classes.tolist()))
        given = np.zeros(len(checked), np.intp) if groups is None else groups
        rows = read_row_keys(given, len(checked), sample_weight)
        self.map_ = fit_groups(self.method, data, rows, kind, pool=self.pool, options=options)
        self.classes_, self.groups_, self.n_features_in_ = classes, None if groups is None else self.map_.groups, 1
        if self.kind is None:
            ask_for_kind(data.score)
        return self

    def predict_proba(self, scores: Any, groups: Any = None) -> NDArray[np.float64]:
        """Return the probability of each class, one row per score and group."""
        check_is_fitted(self)
        checked = read_scores(scores)
        if self.kind == "probability":
            check_unit("scores", checked[~np.isnan(checked)])
        if groups is None:
            return probabilities(self.map_.overall, checked)
        if self.groups_ is None:
            msg = "groups must not be given: fit was called without groups"
            raise ValueError(msg)
        p = self.map_(checked, groups)
        return np.column_stack([1.0 - p, p])

    def predict(self, scores: Any, groups: Any = None) -> NDArray[Any]:
        """Return the more probable class of each score; of two at one half, the second."""
        p = self.predict_proba(scores, groups)[:, 1]
        return np.asarray(self.classes_[(p >= 0.5).astype(int)])

    def __sklearn_tags__(self) -> Any:
        """Declare that scores are one column of two classes."""
        tags = super().__sklearn_tags__()
        tags.input_tags.one_d_array = True
        tags.input_tags.two_d_array = False
        tags.classifier_tags.multi_class = False
        return tags
