"""Classifier-conditional posteriors for fitted classifiers of scikit-learn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.neighbors import KNeighborsClassifier, NearestNeighbors, RadiusNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import get_tags
from sklearn.utils.validation import check_consistent_length, check_is_fitted, has_fit_parameter

from calibrant.arrays import Floats, Index
from calibrant.checks import check_one_of, check_several_classes, check_weights, refuse_masked
from calibrant.estimators.calibrator import FeaturesMixin, check_target
from calibrant.estimators.posteriors import node_counts
from calibrant.estimators.protocols import unwrap
from calibrant.estimators.showing import FittedCardMixin
from calibrant.posteriors.discriminants import margins, sigmoid_posteriors, sigmoid_slope
from calibrant.posteriors.estimates import cell_estimate
from calibrant.posteriors.neighbours import ESTIMATES, vote_posteriors

__all__ = ["ConfidentClassifier", "confident"]

_FromRows = Callable[[Any], Floats]


class _LabelledRows(NamedTuple):
    """Rows, each with the number of its class in the classifier's `classes_` and a weight."""

    X: Any
    label: Index
    weight: Floats | None


class _NeighbourOptions(NamedTuple):
    """How posteriors follow from neighbours, see `confident`."""

    estimate: str
    power: float
    form: str


def confident(
    estimator: Any,
    X: Any = None,
    y: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    *,
    estimate: str = "auto",
    power: float = 2.0,
    form: str = "paper",
) -> ConfidentClassifier:
    """Give a fitted classifier its classifier-conditional posteriors, without fitting it again (Duin & Tax 1998).

    A tree gets (n_i + 1)/(N + c) from the objects in the leaf, a forest the same from the mean shares and the mean size
    of its leaves, k nearest neighbours (k_i + 1)/(k + c), or the distance estimate if k = 1. Any other classifier with
    a `decision_function` gets a sigmoid with one parameter. The decisions do not change.

    Parameters
    ----------
    estimator : a fitted tree, forest, neighbours classifier or classifier with `decision_function`, or a pipeline or
        search that ends in one.
    X, y, sample_weight : rows to estimate from. The sigmoid needs them; use rows that the classifier was not trained
        on, because training rows make it overconfident if the classifier overfits them. For trees and forests they
        replace the training counts in the leaves. Neighbours do not use them.
    estimate : {"auto", "cell", "distance"}: for neighbours; "auto" is "distance" if k = 1, else "cell".
    power, form : options of the distance estimate, see `distance_estimator`.

    Returns
    -------
    ConfidentClassifier

    Raises
    ------
    TypeError, ValueError : if it is no fitted classifier of these kinds, or rows are needed and not given.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from calibrant.posteriors import confident
    >>> tree = DecisionTreeClassifier().fit([[0.0], [1.0], [2.0], [3.0]], ["a", "a", "a", "b"])
    >>> tree.predict_proba([[0.5]]), confident(tree).predict_proba([[0.5]])
    (array([[1., 0.]]), array([[0.8, 0.2]]))
    """
    check_is_fitted(estimator)
    wrapped = ConfidentClassifier(FrozenEstimator(estimator), estimate=estimate, power=power, form=form)
    return wrapped._attach(estimator, X, y, sample_weight)


class ConfidentClassifier(FittedCardMixin, FeaturesMixin, ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier with its classifier-conditional posteriors, estimated from the rows it is trained on.

    See `confident`, which does the same for a fitted classifier.

    Parameters
    ----------
    estimator : a tree, forest, neighbours classifier or classifier with `decision_function`.
    estimate, power, form : see `confident`.

    Attributes
    ----------
    classes_ : the classes, sorted.
    estimator_ : the fitted classifier.

    >>> from sklearn.tree import DecisionTreeClassifier
    >>> X, y = [[k] for k in range(20)], [0] * 10 + [1] * 10
    >>> ConfidentClassifier(DecisionTreeClassifier()).fit(X, y).predict_proba([[2], [15]]).round(3)
    array([[0.917, 0.083],
           [0.083, 0.917]])
    """

    def __init__(self, estimator: Any, *, estimate: str = "auto", power: float = 2.0, form: str = "paper") -> None:
        self.estimator = estimator
        self.estimate = estimate
        self.power = power
        self.form = form

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the classifier to rows X and classes y, and its posteriors to the same rows.

        `sample_weight` is used by both.
        """
        refuse_masked("X", X)
        labels = check_target(y)
        if len(labels):
            check_several_classes(np.unique(labels))
        machine = clone(self.estimator)
        if sample_weight is None:
            machine.fit(X, labels)
        else:
            if not has_fit_parameter(machine, "sample_weight"):
                msg = f"sample_weight must be None: {type(machine).__name__}.fit takes none"
                raise ValueError(msg)
            machine.fit(X, labels, sample_weight=sample_weight)
        if isinstance(unwrap(machine)[0], _TREES):  # they have the counts of the training rows already
            return self._attach(machine, None, None, None)
        return self._attach(machine, X, labels, sample_weight)

    def _attach(self, machine: Any, X: Any, y: ArrayLike | None, sample_weight: ArrayLike | None) -> Self:
        """Estimate the posteriors of a fitted classifier."""
        check_one_of("estimate", self.estimate, ESTIMATES)
        self.estimator_ = machine
        classes = getattr(machine, "classes_", None)
        if not isinstance(classes, np.ndarray) or len(classes) < 2:
            msg = f"estimator must be a classifier of one output and at least two classes; got classes_ = {classes!r}"
            raise ValueError(msg)
        self.classes_ = classes
        rows = None if X is None else _label_rows(machine, X, y, sample_weight)
        self.posterior_: _FromRows
        if isinstance(unwrap(machine)[0], _TREES):
            self.posterior_ = _count_leaves(machine, rows)
        elif isinstance(unwrap(machine)[0], KNeighborsClassifier | RadiusNeighborsClassifier):
            self.posterior_ = _search_neighbours(machine, _NeighbourOptions(self.estimate, self.power, self.form))
        else:
            self.posterior_ = _fit_sigmoid(machine, rows)
        return self

    def predict_proba(self, X: Any) -> Floats:
        """Return the posterior of each class."""
        check_is_fitted(self)
        refuse_masked("X", X)
        return np.asarray(self.posterior_(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class."""
        winner = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[winner])

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether the posteriors have been estimated."""
        return hasattr(self, "posterior_")

    def __sklearn_tags__(self) -> Any:
        """Accept the input that the classifier accepts."""
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.input_tags.sparse = inner.input_tags.sparse
        tags.input_tags.allow_nan = inner.input_tags.allow_nan
        return tags


def _label_rows(machine: Any, X: Any, y: ArrayLike | None, sample_weight: ArrayLike | None) -> _LabelledRows:
    """Return rows with the numbers of their classes, or raise if a class is unknown to the classifier."""
    labels = check_target(y)
    check_consistent_length(X, labels)
    classes = machine.classes_
    label = np.minimum(np.searchsorted(classes, labels), len(classes) - 1)
    if not (classes[label] == labels).all():
        stranger = labels[classes[label] != labels][0]
        msg = f"y must hold only classes the estimator knows; got {str(stranger)!r}"
        raise ValueError(msg)
    weight = None if sample_weight is None else check_weights("sample_weight", sample_weight, labels).astype(np.float64)
    return _LabelledRows(X, np.asarray(label, np.intp), weight)


_TREES = (DecisionTreeClassifier, RandomForestClassifier, ExtraTreesClassifier)


@dataclass(frozen=True, slots=True)
class _LeafPosterior:
    """The cell estimate in the leaf; for a forest, from the mean shares and the mean size of its leaves.

    A forest decides by the mean shares, so its decisions do not change.
    """

    machine: Any
    counts: tuple[Floats, ...]  # for each tree, the objects of each class in each node

    def __call__(self, X: Any) -> Floats:
        """Return P(class | x)."""
        found = [count[leaf] for count, leaf in zip(self.counts, _leaf_numbers(self.machine, X).T, strict=True)]
        sizes = [count.sum(axis=1, keepdims=True) for count in found]
        shares = [
            np.divide(count, size, out=np.full_like(count, 1.0 / count.shape[1]), where=size > 0)
            for count, size in zip(found, sizes, strict=True)
        ]
        return cell_estimate(np.mean(shares, axis=0) * np.mean(sizes, axis=0))


def _leaf_numbers(machine: Any, X: Any) -> Index:
    """Return the leaf of each row, one column per tree."""
    trees, inputs = unwrap(machine, X)
    leaves = np.asarray(trees.apply(inputs))
    return leaves.reshape(len(leaves), -1)


def _count_leaves(machine: Any, rows: _LabelledRows | None) -> _LeafPosterior:
    """Return the cell estimates of a tree or forest, from the given rows or else from its training counts."""
    trees = getattr(unwrap(machine)[0], "estimators_", [unwrap(machine)[0]])
    counts = [node_counts(tree.tree_) for tree in trees]
    if rows is not None:
        for number, leaves in enumerate(_leaf_numbers(machine, rows.X).T):
            nodes, classes = counts[number].shape
            found = np.bincount(leaves * classes + rows.label, rows.weight, nodes * classes)
            counts[number] = found.reshape(nodes, classes).astype(np.float64)
    return _LeafPosterior(machine, tuple(counts))


@dataclass(frozen=True, slots=True)
class _VotePosterior:
    """The cell estimate from the k nearest neighbours, or from those within a radius."""

    machine: Any

    def __call__(self, X: Any) -> Floats:
        """Return P(class | x)."""
        return cell_estimate(_neighbour_counts(self.machine, unwrap(self.machine, X)[1]))


@dataclass(frozen=True, slots=True)
class _DistancePosterior:
    """The distance estimate from the k nearest neighbours."""

    machine: Any
    searches: tuple[Any, ...]
    power: float
    form: str

    def __call__(self, X: Any) -> Floats:
        """Return P(class | x)."""
        X = unwrap(self.machine, X)[1]
        k = unwrap(self.machine)[0].n_neighbors
        nameless = X if hasattr(X, "toarray") else np.asarray(X)  # the searches were fitted without column names
        nearest = [search.kneighbors(nameless, min(k, search.n_samples_fit_))[0] for search in self.searches]
        return vote_posteriors(nearest, _neighbour_counts(self.machine, X), self.power, self.form)


def _neighbour_counts(machine: Any, X: Any) -> Floats:
    """Return how many of each row's neighbours are of each class."""
    voter = unwrap(machine)[0]
    label = np.asarray(voter._y).ravel()
    search = voter.kneighbors if isinstance(voter, KNeighborsClassifier) else voter.radius_neighbors
    found = search(X, return_distance=False)
    return np.stack([np.bincount(label[near], minlength=len(voter.classes_)) for near in found]).astype(np.float64)


def _search_neighbours(machine: Any, options: _NeighbourOptions) -> _FromRows:
    """Return the cell or the distance estimate of neighbours."""
    voter = unwrap(machine)[0]
    if voter.weights not in (None, "uniform"):
        msg = f"estimator must have weights='uniform', equal votes for all neighbours; got weights={voter.weights!r}"
        raise ValueError(msg)
    single = getattr(voter, "n_neighbors", 0) == 1
    if options.estimate == "cell" or (options.estimate == "auto" and not single):
        return _VotePosterior(machine)
    if not isinstance(voter, KNeighborsClassifier) or voter.effective_metric_ == "precomputed":
        msg = "estimate must be 'cell' for neighbours within a radius and for precomputed distances; got 'distance'"
        raise ValueError(msg)
    # One search among the training rows of each class, with the classifier's own metric.
    label = np.asarray(voter._y).ravel()
    search = NearestNeighbors(**{name: getattr(voter, name) for name in ("algorithm", "metric", "p", "metric_params")})
    searches = tuple(clone(search).fit(voter._fit_X[label == j]) for j in range(len(voter.classes_)))
    return _DistancePosterior(machine, searches, options.power, options.form)


@dataclass(frozen=True, slots=True)
class _SigmoidPosterior:
    """p_k = expit(alpha S_k), normalised, where S_k is the value of class k minus the largest value of the others."""

    machine: Any
    alpha: float

    def __call__(self, X: Any) -> Floats:
        """Return P(class | x)."""
        return sigmoid_posteriors(_machine_margins(self.machine, X), self.alpha)


def _machine_margins(machine: Any, X: Any) -> Floats:
    """Return the margin of each class from the decision values of a classifier."""
    values = np.asarray(machine.decision_function(X), np.float64)
    classes = len(machine.classes_)
    if values.ndim == 1:
        return np.column_stack([-values, values])
    if values.shape[1] != classes:
        msg = (
            "estimator must have one decision value per class (for SVC, decision_function_shape='ovr'); "
            f"got {values.shape[1]} values for {classes} classes"
        )
        raise ValueError(msg)
    return margins(values)


def _fit_sigmoid(machine: Any, rows: _LabelledRows | None) -> _SigmoidPosterior:
    """Return the sigmoid of a classifier with decision values, fitted to the given rows."""
    if not hasattr(machine, "decision_function"):
        kind = type(unwrap(machine)[0]).__name__
        msg = f"estimator must be a tree, a forest, neighbours, or have decision_function; got a {kind}"
        raise TypeError(msg)
    if rows is None:
        msg = "X and y must be given for a classifier with decision_function, to fit the sigmoid; got None"
        raise ValueError(msg)
    margin = _machine_margins(machine, rows.X)
    return _SigmoidPosterior(machine, sigmoid_slope(margin, rows.label, rows.weight))
