"""The ten classifiers of Duin & Tax (1998) as scikit-learn estimators.

`predict` returns the most probable class, the first if several are equally probable. `model_` is the record that the
functions of `calibrant.posteriors` fitted.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from calibrant.arrays import Floats
from calibrant.checks import check_number, refuse_masked
from calibrant.estimators.calibrator import check_target
from calibrant.estimators.showing import FittedCardMixin
from calibrant.posteriors.densities import fit_normal
from calibrant.posteriors.discriminants import fit_fisher, fit_nearest_mean
from calibrant.posteriors.neighbours import fit_neighbours
from calibrant.posteriors.networks import fit_network
from calibrant.posteriors.objects import Objects, check_objects
from calibrant.posteriors.trees import prune_early
from calibrant.posteriors.windows import fit_windows
from calibrant.samples import magnitude

__all__ = [
    "Fisher",
    "GaussianBayes",
    "KNearest",
    "NearestMean",
    "NearestNeighbour",
    "Network",
    "Parzen",
    "Tree",
    "node_counts",
    "ten_classifiers",
]

_FARTHEST = 1e100  # features of new objects are clipped to this many times the size of the training data


def _scale_training_objects(model: Any, X: Any, y: Any, sample_weight: ArrayLike | None) -> Objects:
    """Return the checked objects, divided by their size, and set `classes_` and `unit_` of an estimator."""
    refuse_masked("X", X)
    X, y = validate_data(model, X, check_target(y), dtype=np.float64)
    data, model.classes_ = check_objects(X, y, sample_weight)
    model.unit_ = magnitude(data.x)
    return replace(data, x=data.x / model.unit_)


def _scale_new_objects(model: Any, X: Any) -> Floats:
    """Return checked objects in the units of the training data."""
    check_is_fitted(model)
    refuse_masked("X", X)
    X = validate_data(model, X, dtype=np.float64, reset=False)
    with np.errstate(over="ignore"):
        return np.asarray(np.clip(X / model.unit_, -_FARTHEST, _FARTHEST))


def _margins_of(model: Any, X: Any) -> Floats:
    """Return S of two classes, positive for the second, or the margin of each class."""
    x = _scale_new_objects(model, X)  # raises unless the estimator is fitted
    margin = model.model_.margins(x)
    return np.asarray(margin[:, 1] if margin.shape[1] == 2 else margin)


class _PosteriorMixin(FittedCardMixin):
    """Predictions from the posteriors of the fitted record `model_`."""

    model_: Any
    classes_: NDArray[Any]

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Return the posterior of each class."""
        x = _scale_new_objects(self, X)
        return np.asarray(self.model_(x))

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the most probable class."""
        winner = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[winner])


class NearestMean(_PosteriorMixin, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """The class of the nearest mean, with a sigmoid that leaves its decisions unchanged (NM).

    P = expit(alpha S) for the discriminant S = (m_2 - m_1).x + (|m_1|^2 - |m_2|^2)/2, where alpha maximises the
    likelihood of the training objects. With more classes, S is the difference between the value of a class and the
    largest value of the others, and the P are normalised.

    Examples
    --------
    >>> from calibrant.posteriors import NearestMean
    >>> NearestMean().fit([[0.0], [2.0], [3.0], [5.0]], [0, 0, 1, 1]).predict_proba([[2.5]])
    array([[0.5, 0.5]])
    """

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the means and the sigmoid."""
        self.model_ = fit_nearest_mean(_scale_training_objects(self, X, y, sample_weight))
        return self

    def decision_function(self, X: ArrayLike) -> Floats:
        """Return S."""
        return _margins_of(self, X)


class Fisher(_PosteriorMixin, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Fisher's linear discriminant by least squares, with a sigmoid that leaves its decisions unchanged (Fish).

    For two classes the targets are -1 and 1. For more they are 1 for the class and 0 for the others, and the class of
    the largest value is predicted. Where features are linearly dependent, the shortest solution is taken.

    >>> X, y = [[0.0], [1.0], [3.0], [4.0]], [0, 0, 1, 1]
    >>> Fisher().fit(X, y).predict([[0.5], [3.5]])
    array([0, 1])
    """

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the discriminant and the sigmoid."""
        self.model_ = fit_fisher(_scale_training_objects(self, X, y, sample_weight))
        return self

    def decision_function(self, X: ArrayLike) -> Floats:
        """Return S."""
        return _margins_of(self, X)


class GaussianBayes(_PosteriorMixin, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Bayes' rule with one normal density per class, with independent features (BayU) or full covariance (BayQ).

    Parameters
    ----------
    covariance : {"full", "diagonal"}, default="full"
        The form of the covariance; each class has its own.
    priors : array with one number per class, default=None
        The prior of each class; None takes the shares of the classes in the training data.
    regularization : float, default=0
        This share of the mean variance is added to every variance. Without it, directions in which a class has no
        variance are left out of its distances (pseudo-inverse), which favours that class if others vary there.

    >>> X, y = [[0.0], [1.0], [3.0], [4.0]], [0, 0, 1, 1]
    >>> GaussianBayes().fit(X, y).predict_proba([[2.0]])
    array([[0.5, 0.5]])
    """

    def __init__(
        self, covariance: str = "full", *, priors: ArrayLike | None = None, regularization: float = 0.0
    ) -> None:
        self.covariance = covariance
        self.priors = priors
        self.regularization = regularization

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the means and covariances."""
        self.model_ = fit_normal(_scale_training_objects(self, X, y, sample_weight), **self.get_params())
        return self


class NearestNeighbour(_PosteriorMixin, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """The class of the nearest object, with posteriors from the distances to the nearest of each class (1-NN).

    Parameters
    ----------
    power : float, default=2
        Distances are raised to this power. The published experiment used 2; its text says 1.
    form : {"paper", "prtools"}, default="paper"
        The formula for more than two classes, see `distance_estimator`.

    Examples
    --------
    >>> from calibrant.posteriors import NearestNeighbour
    >>> NearestNeighbour(power=1).fit([[0.0], [4.0]], ["a", "b"]).predict_proba([[1.0]])
    array([[0.75, 0.25]])
    """

    def __init__(self, *, power: float = 2.0, form: str = "paper") -> None:
        self.power = power
        self.form = form

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Keep the objects."""
        data = _scale_training_objects(self, X, y, None)
        self.model_ = fit_neighbours(data, k=1, estimate="distance", power=self.power, form=self.form)
        return self


class KNearest(_PosteriorMixin, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """The majority class of the k nearest objects, with k chosen by leave-one-out (k-NN).

    Parameters
    ----------
    k : int, default=None
        The number of neighbours; None chooses the smallest k that classifies most training objects correctly by
        leave-one-out. All k are tried in one pass, in the time it takes to sort the distances of all pairs.
    largest_k : int, default=None
        The largest k to try; None tries all. With many objects a limit makes the choice much faster.
    estimate : {"auto", "cell", "distance"}, default="auto"
        "cell" is (k_i + 1)/(k + c); "distance" compares the distances to the k_i-th nearest object of each class;
        "auto" is "distance" if k = 1, else "cell".
    power, form : options of the distance estimate, see `distance_estimator`.

    Attributes
    ----------
    k_ : the number of neighbours that vote.

    >>> X, y = [[0.0], [1.0], [3.0], [4.0]], [0, 0, 1, 1]
    >>> KNearest(k=1).fit(X, y).predict_proba([[0.5], [3.5]]).round(3)
    array([[0.962, 0.038],
           [0.038, 0.962]])
    """

    def __init__(
        self,
        k: int | None = None,
        *,
        largest_k: int | None = None,
        estimate: str = "auto",
        power: float = 2.0,
        form: str = "paper",
    ) -> None:
        self.k = k
        self.largest_k = largest_k
        self.estimate = estimate
        self.power = power
        self.form = form

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Keep the objects and choose k."""
        self.model_ = fit_neighbours(_scale_training_objects(self, X, y, None), **self.get_params())
        self.k_ = self.model_.k
        return self


class Parzen(_PosteriorMixin, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Bayes' rule with Parzen densities, a normal kernel at every object (Parz).

    Parameters
    ----------
    width : float, default=None
        The standard deviation of the kernels; None takes the one of the largest leave-one-out likelihood.
    per_class : bool, default=False
        Choose a width for each class instead of one for all.
    priors : array with one number per class, default=None
        The prior of each class; None takes the shares of the classes in the training data.

    Attributes
    ----------
    widths_ : the width of each class.

    >>> X, y = [[0.0], [1.0], [3.0], [4.0]], [0, 0, 1, 1]
    >>> Parzen().fit(X, y).predict_proba([[2.0]]).round(6)
    array([[0.5, 0.5]])
    """

    def __init__(self, width: float | None = None, *, per_class: bool = False, priors: ArrayLike | None = None) -> None:
        self.width = width
        self.per_class = per_class
        self.priors = priors

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Keep the objects and choose the width."""
        data = _scale_training_objects(self, X, y, sample_weight)
        width = None if self.width is None else self.width / self.unit_
        self.model_ = fit_windows(data, width=width, per_class=self.per_class, priors=self.priors)
        self.widths_ = np.array(self.model_.widths) * self.unit_
        return self


class Tree(_PosteriorMixin, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A tree of splits by information gain, stopped where a split is not significant (Tree).

    Parameters
    ----------
    threshold : float, default=3
        A node is not split if chi-square of its best split is at most this. The number is for two classes; for more,
        the one of the same significance is used. 0 grows the full tree.

    Attributes
    ----------
    tree_ : the full tree, grown by scikit-learn on features scaled to [-1, 1].
    model_ : the nodes that are leaves, and the objects in them: P = (n_i + 1)/(N + c).

    >>> X, y = [[k] for k in range(20)], [0] * 10 + [1] * 10
    >>> Tree().fit(X, y).predict_proba([[2], [15]]).round(3)
    array([[0.917, 0.083],
           [0.083, 0.917]])
    """

    def __init__(self, *, threshold: float = 3.0) -> None:
        self.threshold = threshold

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Grow the tree and cut it."""
        check_number("threshold", self.threshold, inclusive=True)
        data = _scale_training_objects(self, X, y, sample_weight)
        low, high = data.x.min(axis=0), data.x.max(axis=0)
        self.center_, half = (high + low) / 2, (high - low) / 2
        self.scale_ = np.where(half > 0, half, 1.0)
        # Features of equal gain are tried in random order; the seed makes it the same order every time.
        full = DecisionTreeClassifier(criterion="entropy", random_state=0)
        self.tree_ = full.fit(self._scale_to_cube(data.x), data.label, sample_weight=data.weight)
        nodes = self.tree_.tree_
        self.model_ = prune_early(nodes.children_left, nodes.children_right, node_counts(nodes), self.threshold)
        return self

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Return the posterior of each class."""
        x = _scale_new_objects(self, X)
        return np.asarray(self.model_.posterior(self.tree_.apply(self._scale_to_cube(x))))

    def _scale_to_cube(self, x: Floats) -> Floats:
        """Return objects scaled such that training data are in [-1, 1], because scikit-learn uses single precision."""
        return np.asarray(np.clip((x - self.center_) / self.scale_, -2.0, 2.0))


def node_counts(nodes: Any) -> Floats:
    """Return the number of objects of each class in each node of a scikit-learn tree, which stores their shares."""
    mean_weight = nodes.weighted_n_node_samples[0] / nodes.n_node_samples[0]  # weights of mean below 1 are scaled to 1
    return np.asarray(nodes.value[:, 0, :] * (nodes.weighted_n_node_samples / min(1.0, mean_weight))[:, None])


class Network(_PosteriorMixin, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A net with one small layer of logistic units, trained on squared errors (BPXNC and LMNC).

    Parameters
    ----------
    training : {"levenberg_marquardt", "gradient_descent"}, default="levenberg_marquardt"
        LMNC, or BPXNC with momentum and an adaptive learning rate.
    hidden : int, default=3
        The number of units of the hidden layer.
    epochs : int, default=None
        The largest number of steps; None is 1,000 for Levenberg-Marquardt and 10,000 for gradient descent.
    lm_fail : {None, "matlab97"}, default=None
        "matlab97" leaves the net untrained if its first Levenberg-Marquardt step does not lower the error, which seems
        to have happened in the published experiment.
    random_state : int, RandomState or None, default=None
        Draws the starting weights.

    >>> X, y = [[0.0], [1.0], [3.0], [4.0]], [0, 0, 1, 1]
    >>> Network(hidden=2, random_state=0).fit(X, y).predict([[0.0], [4.0]])
    array([0, 1])
    """

    def __init__(
        self,
        training: str = "levenberg_marquardt",
        *,
        hidden: int = 3,
        epochs: int | None = None,
        lm_fail: str | None = None,
        random_state: Any = None,
    ) -> None:
        self.training = training
        self.hidden = hidden
        self.epochs = epochs
        self.lm_fail = lm_fail
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Train the net."""
        seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        options = {name: value for name, value in self.get_params().items() if name != "random_state"}
        data = _scale_training_objects(self, X, y, sample_weight)
        self.model_ = fit_network(data, **options, rng=np.random.default_rng(seed))
        return self


def ten_classifiers(random_state: Any = None) -> dict[str, Any]:
    """Return the classifiers of Duin & Tax (1998) under their names in table 1 of the paper.

    Parameters
    ----------
    random_state : the seed of the networks.

    Returns
    -------
    dictionary from name to classifier

    >>> list(ten_classifiers())
    ['NM', 'Fish', 'BayU', 'BayQ', '1-NN', 'k-NN', 'Tree', 'Parz', 'BPXNC', 'LMNC']
    """
    return {
        "NM": NearestMean(),
        "Fish": Fisher(),
        "BayU": GaussianBayes("diagonal"),
        "BayQ": GaussianBayes("full"),
        "1-NN": NearestNeighbour(),
        "k-NN": KNearest(),
        "Tree": Tree(),
        "Parz": Parzen(),
        "BPXNC": Network("gradient_descent", random_state=random_state),
        "LMNC": Network("levenberg_marquardt", random_state=random_state),
    }
