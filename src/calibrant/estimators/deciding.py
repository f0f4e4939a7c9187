"""Classifiers that decide by cost or reject, and classifiers made of several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils import _safe_indexing, check_random_state, get_tags
from sklearn.utils.metaestimators import _BaseComposition
from sklearn.utils.validation import check_is_fitted

from calibrant.arrays import Floats
from calibrant.checks import at_least_two, proportion, refuse_masked, weighed
from calibrant.decisions.combining import POOLS, LinearPool, LogPool, combine, fit_pool, fit_recalibration, rule_of
from calibrant.decisions.deciding import (
    Threshold,
    bayes,
    check_costs,
    chow_threshold,
    reject,
    threshold_for_coverage,
    threshold_for_error,
)
from calibrant.estimators.calibrated import CalibratedClassifier, known_classes
from calibrant.estimators.calibrator import FeaturesMixin, labelled_rows
from calibrant.estimators.protocols import (
    FIXED_SEED,
    Job,
    check_groups,
    choose_scheme,
    collect,
    folds,
    group_params,
    too_few_to_fold,
    train,
    weight_parameter,
)
from calibrant.maps import Map, check_method
from calibrant.numerics.simplex import normalise
from calibrant.warning import warn

__all__ = ["CombiningClassifier", "DecidingClassifier"]

_Rows = NDArray[np.intp]

_RULES_OF_DECISION = ("costs", "threshold", "cost", "coverage", "error")


class DecidingClassifier(FeaturesMixin, ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """A probabilistic classifier that decides by cost, and may refuse to decide.

    Say at most one of `costs`, `threshold`, `cost`, `coverage` and `error`; without any the most probable class wins.

    Parameters
    ----------
    estimator : a classifier with `predict_proba`; wrap others in `CalibratedClassifier`.
    costs : array of shape (classes, classes) or (classes, classes + 1), default=None
        Cost of each decision (column) for each true class (row), in the order of `classes_`; one column more holds the
        cost of a rejection. The cheapest decision is taken, see `calibrant.decisions.bayes`.
    threshold : float or Threshold, default=None
        Reject where the largest posterior is below this.
    cost : float, default=None
        Cost of a rejection where an error costs 1: a threshold of 1 - cost (Chow 1970).
    coverage : float, default=None
        Decide on at least this share of the objects to come. The threshold is chosen on rows the estimator has not been
        trained on, so that this holds with probability `confidence`, see `calibrant.decisions.threshold_for_coverage`.
    error : float, default=None
        Be wrong on at most this share of the objects decided on. The threshold is chosen on such rows too, see
        `calibrant.decisions.threshold_for_error`; if they cannot prove it at any coverage, `fit` raises.
    confidence : float, default=0.95
        Of what is promised for `coverage` and `error`, over the draw of the rows.
    reject_label : default=None
        What `predict` says of a rejected object. None is "reject" where the classes are strings, and where they are
        numbers -1, or one less than the smallest class where that is negative.
    prefit : bool, default=False
        True: the estimator is used as it is, and the rows given to `fit`, which it must not have seen, choose the
        threshold. False: it is trained, on all rows or, for `coverage` and `error`, without those held out. It is not
        retrained on these: the promise would be lost. A `FrozenEstimator` is prefit.
    holdout : float, default=0.3
        Share of the rows, drawn at random, that choose the threshold.
    random_state : int or RandomState, default=None
        Draws these rows; None draws too, the same way every time.

    Attributes
    ----------
    classes_ : the classes, sorted.
    estimator_ : the machine that gives the posteriors.
    threshold_ : a `Threshold` with what is promised, a number, or None.
    costs_ : the matrix of costs, or None.
    reject_label_ : what `predict` says of a rejected object, or None where none can be.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from calibrant import DecidingClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = DecidingClassifier(LogisticRegression(max_iter=1000), threshold=0.9).fit(X, y)
    >>> model.predict(X[[0, 77, 120]])
    array([ 0, -1,  2])
    """

    def __init__(
        self,
        estimator: Any,
        *,
        costs: ArrayLike | None = None,
        threshold: float | Threshold | None = None,
        cost: float | None = None,
        coverage: float | None = None,
        error: float | None = None,
        confidence: float = 0.95,
        reject_label: Any = None,
        prefit: bool = False,
        holdout: float = 0.3,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.costs = costs
        self.threshold = threshold
        self.cost = cost
        self.coverage = coverage
        self.error = error
        self.confidence = confidence
        self.reject_label = reject_label
        self.prefit = prefit
        self.holdout = holdout
        self.random_state = random_state

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, *, groups: Any = None) -> Self:
        """Train the machine, unless it is prefit, and choose the threshold.

        `groups` reach a machine that splits rows itself, such as `CalibratedClassifier`. What `coverage` and `error`
        promise holds for independent rows, so they take none.
        """
        asked = [name for name in _RULES_OF_DECISION if getattr(self, name) is not None]
        if len(asked) > 1:
            msg = f"say at most one of {', '.join(_RULES_OF_DECISION)}; got {' and '.join(asked)}"
            raise ValueError(msg)
        X, labels, weight = _rows_of(X, y, sample_weight)
        promised = asked in (["coverage"], ["error"])
        if promised and groups is not None:
            msg = (
                f"groups must be None for {asked[0]}: its promise is for independent rows, and those of a group are not"
            )
            raise ValueError(msg)
        trained, held = self._parts(labels, weight, promised=promised)
        self.estimator_ = self._machine(X, labels, weight, groups, trained)
        self.classes_ = at_least_two(known_classes(self.estimator_, labels))
        self.costs_ = None if self.costs is None else check_costs(self.costs, len(self.classes_))
        self.threshold_: float | Threshold | None = None
        if promised:
            part = None if weight is None else weight[held]
            self.threshold_ = self._promise(_safe_indexing(X, held), labels[held], part)
        elif asked in (["threshold"], ["cost"]):
            self.threshold_ = chow_threshold(self.cost) if self.cost is not None else self.threshold
            proportion("threshold", float(self.threshold_), low=True, high=True)  # type: ignore[arg-type]
        rejecting = self.threshold_ is not None or (
            self.costs_ is not None and self.costs_.shape[1] > len(self.classes_)
        )
        self.reject_label_ = _label_beside(self.classes_, self.reject_label) if rejecting else None
        return self

    def predict_proba(self, X: Any) -> Floats:
        """Return the posteriors of the machine, one column a class."""
        check_is_fitted(self)
        return np.asarray(_posteriors_of(self.estimator_, X), np.float64)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the decision for each object: a class, or the reject label."""
        P = self.predict_proba(X)
        if self.costs_ is not None:
            decision = bayes(P, self.costs_)
        elif self.threshold_ is not None:
            decision = reject(P, threshold=self.threshold_)
        else:
            decision = P.argmax(axis=1)
        # REJECT is -1: the last of the answers.
        return np.asarray(_answers(self.classes_, self.reject_label_)[decision])

    def __sklearn_tags__(self) -> Any:
        """Take what the estimator takes."""
        tags = super().__sklearn_tags__()
        return _like(tags, [self.estimator])

    def _parts(self, labels: NDArray[Any], weight: Any, *, promised: bool) -> tuple[_Rows, _Rows]:
        """Return the rows to train on and those to choose the threshold on."""
        every = np.arange(len(labels))
        if not promised or self.prefit or isinstance(self.estimator, FrozenEstimator):
            return every, every
        proportion("holdout", self.holdout)
        seed = FIXED_SEED if self.random_state is None else self.random_state
        # Plain random rows: a stratified draw is not a sample of independent rows, which the promise needs.
        shuffled = check_random_state(seed).permutation(every if weight is None else np.flatnonzero(weight))
        count = max(1, round(self.holdout * len(shuffled)))
        if len(shuffled) < 2:
            msg = f"holdout={self.holdout} needs at least two rows; got 1 sample"
            raise ValueError(msg)
        trained, held = np.sort(shuffled[count:]), np.sort(shuffled[:count])
        lacking = np.setdiff1d(labels[held], labels[trained])
        if len(lacking):
            msg = f"holdout={self.holdout} leaves no row of class {lacking[0]} to train on; give more rows, or prefit"
            raise ValueError(msg)
        return trained, held

    def _machine(self, X: Any, labels: NDArray[Any], weight: Any, groups: Any, rows: _Rows) -> Any:
        """Return the machine that gives posteriors: the one given, or one trained on these rows."""
        params = {} if groups is None or self.prefit else group_params(self.estimator, check_groups(groups, labels))
        if groups is not None and not params:
            who = "a prefit estimator" if self.prefit else type(self.estimator).__name__
            msg = f"groups must be None: {who} splits no rows that they could keep together"
            raise ValueError(msg)
        if self.prefit:
            return self.estimator
        params |= _weight_params(self.estimator, None if weight is None else weight[rows])
        X, labels = (X, labels) if len(rows) == len(labels) else (_safe_indexing(X, rows), labels[rows])
        return clone(self.estimator).fit(X, labels, **params)

    def _promise(self, X: Any, labels: NDArray[Any], weight: Any) -> Threshold:
        """Return the threshold chosen on rows the machine has not seen."""
        P = _posteriors_of(self.estimator_, X)
        if self.coverage is not None:
            return threshold_for_coverage(P, self.coverage, confidence=self.confidence, sample_weight=weight)
        assert self.error is not None
        return threshold_for_error(
            labels, P, self.error, confidence=self.confidence, sample_weight=weight, labels=self.classes_
        )


class CombiningClassifier(FeaturesMixin, ClassifierMixin, MetaEstimatorMixin, _BaseComposition):  # type: ignore[misc]
    """Several classifiers as one, whose posterior is made of theirs and can be calibrated itself.

    Parameters
    ----------
    members : list of classifiers, or of (name, classifier) pairs as in scikit-learn, at least two.
    rule : str or pool, default="mean"
        "max", "median", "min", "mean", "product" or "vote" (Duin & Tax 1998, sec. 4); "linear" or "log" for a pool
        whose weights are fitted to posteriors of unseen rows; or a pool with weights of one's own.
    calibrate : str or callable, default=None
        A method of `calibrant.METHODS` by which each member is calibrated first. A member that is itself a
        `CalibratedClassifier` needs none.
    recalibrate : bool, str or callable, default=False
        Calibrate the combined posterior on unseen rows, by a method of `calibrant.METHODS`; True is "platt". No rule
        can know how far the members repeat each other; this is what makes its confidence reliable.
    prefit : bool, default=False
        True: the members are used as they are, and the rows given to `fit`, which they must not have seen, fit the
        rest. A member that is a `FrozenEstimator` is prefit.
    cv : int or splitter, default=3
        Folds that give the posteriors of unseen rows to which a pool and the calibration of the combined posterior
        are fitted. Members are then trained on all rows.
    n_jobs : int, default=None
        Folds, and members, trained side by side.
    random_state : int or RandomState, default=None
        Shuffles the folds; None shuffles too, the same way every time.

    Attributes
    ----------
    classes_ : the classes, sorted.
    members_ : the machines, trained on all rows.
    rule_ : the rule, or the fitted pool with its `weights`.
    recalibration_ : the map of the combined posterior, or None.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from calibrant import CombiningClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = CombiningClassifier([LogisticRegression(max_iter=1000), GaussianNB()], "log").fit(X, y)
    >>> model.predict(X[[0, 77, 120]])
    array([0, 2, 2])
    """

    def __init__(
        self,
        members: Sequence[Any],
        rule: str | LinearPool | LogPool = "mean",
        *,
        calibrate: str | Callable[..., Map] | None = None,
        recalibrate: bool | str | Callable[..., Map] = False,
        prefit: bool = False,
        cv: Any = 3,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.members = members
        self.rule = rule
        self.calibrate = calibrate
        self.recalibrate = recalibrate
        self.prefit = prefit
        self.cv = cv
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, *, groups: Any = None) -> Self:
        """Train the members, and what is fitted to their posteriors of unseen rows.

        Rows of one of the `groups` stay together in the folds of `cv`, and in those of members that split rows.
        """
        method = self._check()
        X, labels, weight = _rows_of(X, y, sample_weight)
        jobs = self._jobs(X, labels, weight, groups)
        self.classes_ = jobs[0].classes
        self.rule_, self.recalibration_ = self.rule, None
        splitting = self.rule in POOLS or method is not None
        if (
            groups is not None
            and not splitting
            and not any("groups" in name for job in jobs for name in job.fit_params)
        ):
            msg = "groups must be None: neither the members nor the rule split rows that they could keep together"
            raise ValueError(msg)
        if splitting:
            rows, posteriors = _unseen(jobs)
            part = None if weight is None else weight[rows]
            if self.rule in POOLS:
                self.rule_ = fit_pool(posteriors, labels[rows], self.rule, sample_weight=part, labels=self.classes_)
            if method is not None:
                P = combine(posteriors, self.rule_)
                self.recalibration_ = fit_recalibration(
                    P, labels[rows], method, sample_weight=part, labels=self.classes_
                )
        self.members_ = Parallel(n_jobs=self.n_jobs)(delayed(train)(job) for job in jobs)
        return self

    def predict_proba(self, X: Any) -> Floats:
        """Return the combined posteriors, one column a class."""
        check_is_fitted(self)
        P = combine([_posteriors_of(member, X) for member in self.members_], self.rule_)
        return P if self.recalibration_ is None else self.recalibration_(P)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class of each object."""
        P = self.predict_proba(X)
        return np.asarray(self.classes_[P.argmax(axis=1)])

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: FBT001, FBT002
        """Return the parameters, with those of named members."""
        return dict(self._get_params("members", deep=deep))

    def set_params(self, **params: Any) -> Self:
        """Set parameters, also a named member or one of its parameters."""
        self._set_params("members", **params)
        return self

    def __sklearn_tags__(self) -> Any:
        """Take what all members take."""
        tags = super().__sklearn_tags__()
        return _like(tags, self._members())

    def _members(self) -> list[Any]:
        """Return the members without their names."""
        return [member[1] if isinstance(member, tuple) else member for member in self.members]

    def _check(self) -> Any:
        """Check the parameters and return the method that calibrates the combined posterior, or None."""
        count = len(self._members())
        if count < 2:
            msg = f"members must hold at least two classifiers; got {count}"
            raise ValueError(msg)
        if self.rule not in POOLS:
            rule_of(self.rule, count)
        method = {True: "platt", False: None}.get(self.recalibrate, self.recalibrate)  # type: ignore[arg-type]
        for each in (method, self.calibrate):
            if each is not None:
                check_method(each, {}, ("column", "matrix"))
        return method

    def _jobs(self, X: Any, labels: NDArray[Any], weight: Any, groups: Any) -> list[Job]:
        """Return what is to be trained: a job a member, all with the same classes."""
        machines = [FrozenEstimator(each) if self.prefit else each for each in self._members()]
        classes = _common_classes([each for each in machines if isinstance(each, FrozenEstimator)], labels)
        machines = [self._calibrated(each) for each in machines]
        first = Job(
            machines[0],
            X,
            labels,
            np.searchsorted(classes, labels),
            classes,
            choose_scheme("ovr", machines[0], len(classes)),
            "probability",
            cv=self.cv,
            random_state=self.random_state,
            n_jobs=self.n_jobs,
            groups=None if groups is None else check_groups(groups, labels),
            weight=weight,
        )
        return [
            replace(first, estimator=each, fit_params=_weight_params(each, weight) | group_params(each, first.groups))
            for each in machines
        ]

    def _calibrated(self, member: Any) -> Any:
        """Return the member, calibrated first if asked."""
        if self.calibrate is None:
            return member
        protocol = "prefit" if isinstance(member, FrozenEstimator) else "cv"
        return CalibratedClassifier(member, self.calibrate, protocol=protocol, random_state=self.random_state)


def _rows_of(X: Any, y: ArrayLike, sample_weight: ArrayLike | None) -> tuple[Any, NDArray[Any], NDArray[Any] | None]:
    """Return checked objects, labels and weights."""
    X, labels = labelled_rows(X, y)
    return X, labels, None if sample_weight is None else weighed("sample_weight", sample_weight, labels)


def _unseen(jobs: list[Job]) -> tuple[_Rows, list[Floats]]:
    """Return rows and each member's posteriors of them, by machines that have not been trained on them.

    All members have the same folds. Rows whose machines did not know every class have no posteriors.
    """
    if not too_few_to_fold(jobs[0]):
        same = folds(jobs[0])
        jobs = [replace(job, cv=same) for job in jobs]
    found = [collect("cv", job)[0] for job in jobs]
    known = np.logical_and.reduce([each.complete for each in found])
    if not known.any():
        msg = f"cv={jobs[0].cv!r} must leave rows of every class to train on in some fold; no fold has all"
        raise ValueError(msg)
    scores = [each.scores[known] for each in found]
    return found[0].rows[known], [
        normalise(each) if each.shape[1] > 1 else np.column_stack([1.0 - each, each]) for each in scores
    ]


def _common_classes(fitted: list[Any], labels: NDArray[Any]) -> NDArray[Any]:
    """Return the classes of all fitted members, which must be the same, or those of the labels where none is fitted."""
    classes = known_classes(fitted[0], labels) if fitted else np.unique(labels)
    for member in fitted[1:]:
        if not np.array_equal(known_classes(member, labels), classes):
            msg = f"members must know the same classes; got {classes.tolist()[:5]} and {member.classes_.tolist()[:5]}"
            raise ValueError(msg)
    return at_least_two(classes)


def _posteriors_of(machine: Any, X: Any) -> Any:
    """Return a machine's posteriors, or say how to get some."""
    refuse_masked("X", X)
    if not hasattr(machine, "predict_proba"):
        msg = f"{type(machine).__name__} has no predict_proba; wrap it in CalibratedClassifier"
        raise ValueError(msg)
    return machine.predict_proba(X)


def _weight_params(estimator: Any, weight: Any) -> dict[str, Any]:
    """Return weights under the name an estimator's fit takes them by; say so if it takes none."""
    if weight is None:
        return {}
    name = weight_parameter(estimator)
    if name is None:
        warn(f"{type(estimator).__name__} takes no sample_weight and is not weighted")
        return {}
    return {name: weight}


def _label_beside(classes: NDArray[Any], label: Any) -> Any:
    """Return a reject label of the classes' kind that is none of them."""
    strings = isinstance(classes[0], str)
    if label is None:
        label = "reject" if strings else min(-1, int(np.floor(classes[0])) - 1)
    if strings != isinstance(label, str):
        msg = f"reject_label must be of the kind of the classes, {classes.tolist()[:5]}; got {label!r}"
        raise ValueError(msg)
    if label in classes:
        msg = f"reject_label must be none of the classes {classes.tolist()[:5]}; got {label!r}"
        raise ValueError(msg)
    return label


def _answers(classes: NDArray[Any], label: Any) -> NDArray[Any]:
    """Return the classes, and last the reject label where there is one."""
    return (
        classes
        if label is None
        else np.append(classes, np.array([label], dtype=object if classes.dtype == object else None))
    )


def _like(tags: Any, estimators: list[Any]) -> Any:
    """Return tags that take what all of some estimators take."""
    inner = [get_tags(each) for each in estimators]
    for name in ("sparse", "allow_nan", "pairwise"):
        setattr(tags.input_tags, name, all(getattr(each.input_tags, name) for each in inner))
    tags.classifier_tags.multi_class = all(
        each.classifier_tags is None or each.classifier_tags.multi_class for each in inner
    )
    return tags
