"""Classifiers that decide by cost or reject, and classifiers that combine several others."""

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

from calibrant.arrays import Floats, Index
from calibrant.checks import check_proportion, check_several_classes, check_weights, refuse_masked
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
from calibrant.estimators.calibrated import CalibratedClassifier, check_known_classes
from calibrant.estimators.calibrator import FeaturesMixin, check_rows
from calibrant.estimators.protocols import (
    FIXED_SEED,
    Job,
    check_groups,
    choose_scheme,
    collect_scores,
    group_params,
    make_folds,
    too_few_to_fold,
    train,
    weight_parameter,
)
from calibrant.estimators.showing import FittedCardMixin
from calibrant.maps import Map, check_method
from calibrant.numerics.simplex import normalise
from calibrant.warning import warn

__all__ = ["CombiningClassifier", "DecidingClassifier"]

_RULES_OF_DECISION = ("costs", "threshold", "cost", "coverage", "error")


class DecidingClassifier(FittedCardMixin, FeaturesMixin, ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """A probabilistic classifier that decides by cost, and may reject objects.

    Give at most one of `costs`, `threshold`, `cost`, `coverage` and `error`; without any, the most probable class is
    predicted.

    Parameters
    ----------
    estimator : a classifier with `predict_proba`; wrap others in `CalibratedClassifier`.
    costs : array of shape (classes, classes) or (classes, classes + 1), default=None
        Cost of each decision (column) for each true class (row), in the order of `classes_`; an additional last column
        holds the costs of a rejection. The cheapest decision is taken, see `calibrant.decisions.bayes`.
    threshold : float or Threshold, default=None
        Reject where the largest posterior is below this.
    cost : float, default=None
        Cost of a rejection where an error costs 1; the threshold is 1 - cost (Chow 1970).
    coverage : float, default=None
        Decide on at least this share of new objects. The threshold is chosen on rows that the estimator was not trained
        on, so that this holds with probability `confidence`, see `calibrant.decisions.threshold_for_coverage`.
    error : float, default=None
        Be wrong on at most this share of the decisions. The threshold is chosen on rows that the estimator was not
        trained on, see `calibrant.decisions.threshold_for_error`; `fit` raises if no threshold can be shown to do it.
    confidence : float, default=0.95
        Probability, over the draw of the rows, that the guarantee of `coverage` or `error` holds.
    reject_label : default=None
        What `predict` returns for a rejected object. By default "reject" if the classes are strings; if they are
        numbers -1, or one less than the smallest class if that is negative.
    prefit : bool, default=False
        If True, the estimator is used as it is, and the threshold is chosen on the rows given to `fit`, which the
        estimator must not have been trained on. If False, it is trained on all rows or, for `coverage` and `error`, on
        the rows that are not held out; training it on the others as well would break the guarantee. A
        `FrozenEstimator` is prefit.
    holdout : float, default=0.3
        Share of the rows, drawn at random, on which the threshold is chosen.
    random_state : int or RandomState, default=None
        Draws these rows; with None they are drawn the same way every time.

    Attributes
    ----------
    classes_ : the classes, sorted.
    estimator_ : the fitted classifier that gives the posteriors.
    threshold_ : a `Threshold` with its guarantees, a number, or None.
    costs_ : the matrix of costs, or None.
    reject_label_ : what `predict` returns for a rejected object, or None if it never rejects.

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
        """Train the estimator, unless it is prefit, and choose the threshold.

        `sample_weight` counts each row as often as it says. `groups` are passed to an estimator that splits rows
        itself, such as `CalibratedClassifier`. They must be None for `coverage` and `error`, because their guarantees
        need independent rows.
        """
        given = [name for name in _RULES_OF_DECISION if getattr(self, name) is not None]
        if len(given) > 1:
            msg = f"give at most one of {', '.join(_RULES_OF_DECISION)}; got {' and '.join(given)}"
            raise ValueError(msg)
        X, labels, weight = _check_rows(X, y, sample_weight)
        guaranteed = given in (["coverage"], ["error"])
        if guaranteed and groups is not None:
            msg = f"groups must be None for {given[0]}: its guarantee needs independent rows"
            raise ValueError(msg)
        trained, held = self._split_rows(labels, weight) if guaranteed else (np.arange(len(labels)),) * 2
        self.estimator_ = self._fit_estimator(X, labels, weight, groups, trained)
        self.classes_ = check_several_classes(check_known_classes(self.estimator_, labels))
        self.costs_ = None if self.costs is None else check_costs(self.costs, len(self.classes_))
        self.threshold_: float | Threshold | None = self.threshold
        options: dict[str, Any] = {
            "confidence": self.confidence,
            "sample_weight": None if weight is None else weight[held],
        }
        if self.coverage is not None:
            P = _posteriors_of(self.estimator_, _safe_indexing(X, held))
            self.threshold_ = threshold_for_coverage(P, self.coverage, **options)
        elif self.error is not None:
            P = _posteriors_of(self.estimator_, _safe_indexing(X, held))
            self.threshold_ = threshold_for_error(labels[held], P, self.error, labels=self.classes_, **options)
        elif self.cost is not None:
            self.threshold_ = chow_threshold(self.cost)
        elif self.threshold is not None:
            check_proportion("threshold", float(self.threshold), low=True, high=True)
        may_reject = self.threshold_ is not None or (
            self.costs_ is not None and self.costs_.shape[1] > len(self.classes_)
        )
        self.reject_label_ = _choose_reject_label(self.classes_, self.reject_label) if may_reject else None
        return self

    def predict_proba(self, X: Any) -> Floats:
        """Return the posteriors of the estimator, one column per class."""
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
        answers = self.classes_
        if self.reject_label_ is not None:  # REJECT is -1, the last of the answers
            kind = object if answers.dtype == object else None
            answers = np.append(answers, np.array([self.reject_label_], dtype=kind))
        return np.asarray(answers[decision])

    def __sklearn_tags__(self) -> Any:
        """Accept the input that the estimator accepts."""
        tags = super().__sklearn_tags__()
        return _restrict_tags(tags, [self.estimator])

    def _split_rows(self, labels: NDArray[Any], weight: Any) -> tuple[Index, Index]:
        """Return the rows to train on and the rows to choose the threshold on."""
        every = np.arange(len(labels))
        if self.prefit or isinstance(self.estimator, FrozenEstimator):
            return every, every
        check_proportion("holdout", self.holdout)
        seed = FIXED_SEED if self.random_state is None else self.random_state
        # Not stratified: the guarantee needs independent rows.
        shuffled = check_random_state(seed).permutation(every if weight is None else np.flatnonzero(weight))
        count = max(1, round(self.holdout * len(shuffled)))
        if len(shuffled) < 2:
            msg = f"holdout={self.holdout} needs at least two rows; got 1 sample"
            raise ValueError(msg)
        trained, held = np.sort(shuffled[count:]), np.sort(shuffled[:count])
        lacking = np.setdiff1d(labels[held], labels[trained])
        if len(lacking):
            msg = (
                f"holdout={self.holdout} leaves no row of class {lacking[0]} to train on; "
                "give more rows, or a fitted estimator with prefit=True"
            )
            raise ValueError(msg)
        return trained, held

    def _fit_estimator(self, X: Any, labels: NDArray[Any], weight: Any, groups: Any, rows: Index) -> Any:
        """Return the prefit estimator, or a clone trained on these rows."""
        params = {} if groups is None or self.prefit else group_params(self.estimator, check_groups(groups, labels))
        if groups is not None and not params:
            who = "a prefit estimator" if self.prefit else type(self.estimator).__name__
            msg = f"groups must be None: {who} does not split rows"
            raise ValueError(msg)
        if self.prefit:
            return self.estimator
        params |= _weight_params(self.estimator, None if weight is None else weight[rows])
        X, labels = (X, labels) if len(rows) == len(labels) else (_safe_indexing(X, rows), labels[rows])
        return clone(self.estimator).fit(X, labels, **params)


class CombiningClassifier(FittedCardMixin, FeaturesMixin, ClassifierMixin, MetaEstimatorMixin, _BaseComposition):  # type: ignore[misc]
    """A classifier that combines the posteriors of several others, and can calibrate the result.

    Parameters
    ----------
    members : list of classifiers, or of (name, classifier) pairs as in scikit-learn, at least two.
    rule : str or pool, default="mean"
        "max", "median", "min", "mean", "product" or "vote" (Duin & Tax 1998, sec. 4); "linear" or "log" for a pool
        whose weights are fitted to out-of-fold posteriors; or a pool with given weights.
    calibrate : str or callable, default=None
        A method of `calibrant.METHODS` with which each member is calibrated first. A member that is already a
        `CalibratedClassifier` does not need it.
    recalibrate : bool, str or callable, default=False
        Calibrate the combined posterior on out-of-fold rows, by a method of `calibrant.METHODS`; True is "platt". Rules
        do not know how much the members depend on each other, so their confidence is reliable only after this.
    prefit : bool, default=False
        If True, the members are used as they are, and the pool and the calibration are fitted to the rows given to
        `fit`, which the members must not have been trained on. A member that is a `FrozenEstimator` is prefit.
    cv : int or splitter, default=3
        Folds that give the out-of-fold posteriors to which a pool and the calibration of the combined posterior are
        fitted. The members are then trained on all rows.
    n_jobs : int, default=None
        Number of folds, or members, trained in parallel.
    random_state : int or RandomState, default=None
        Shuffles the folds; with None they are shuffled the same way every time.

    Attributes
    ----------
    classes_ : the classes, sorted.
    members_ : the fitted classifiers, trained on all rows.
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
        """Train the members, and fit the pool and the calibration to their out-of-fold posteriors.

        `sample_weight` counts each row as often as it says. Rows of one of the `groups` stay together in the folds of
        `cv`, and in the folds of members that split rows.
        """
        method = self._check_parameters()
        X, labels, weight = _check_rows(X, y, sample_weight)
        jobs = self._make_jobs(X, labels, weight, groups)
        self.classes_ = jobs[0].classes
        self.rule_, self.recalibration_ = self.rule, None
        needs_folds = self.rule in POOLS or method is not None
        members_take_groups = any("groups" in name for job in jobs for name in job.fit_params)
        if groups is not None and not (needs_folds or members_take_groups):
            msg = "groups must be None: neither the members nor the rule split rows"
            raise ValueError(msg)
        if needs_folds:
            rows, posteriors = _predict_out_of_fold(jobs)
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
        """Return the combined posteriors, one column per class."""
        check_is_fitted(self)
        P = combine([_posteriors_of(member, X) for member in self.members_], self.rule_)
        return P if self.recalibration_ is None else self.recalibration_(P)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class of each object."""
        P = self.predict_proba(X)
        return np.asarray(self.classes_[P.argmax(axis=1)])

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: FBT001, FBT002
        """Return the parameters, including those of named members."""
        return dict(self._get_params("members", deep=deep))

    def set_params(self, **params: Any) -> Self:
        """Set parameters, including named members and their parameters."""
        self._set_params("members", **params)
        return self

    def __sklearn_tags__(self) -> Any:
        """Accept the input that all members accept."""
        tags = super().__sklearn_tags__()
        return _restrict_tags(tags, self._unnamed_members())

    def _unnamed_members(self) -> list[Any]:
        """Return the members without their names."""
        return [member[1] if isinstance(member, tuple) else member for member in self.members]

    def _check_parameters(self) -> Any:
        """Check the parameters and return the method that calibrates the combined posterior, or None."""
        count = len(self._unnamed_members())
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

    def _make_jobs(self, X: Any, labels: NDArray[Any], weight: Any, groups: Any) -> list[Job]:
        """Return one training job per member, all with the same classes."""
        members = [FrozenEstimator(each) if self.prefit else each for each in self._unnamed_members()]
        classes = _common_classes([each for each in members if isinstance(each, FrozenEstimator)], labels)
        if self.calibrate is not None:
            members = [
                CalibratedClassifier(
                    each,
                    self.calibrate,
                    protocol="prefit" if isinstance(each, FrozenEstimator) else "cv",
                    random_state=self.random_state,
                )
                for each in members
            ]
        first = Job(
            members[0],
            X,
            labels,
            np.searchsorted(classes, labels),
            classes,
            choose_scheme("ovr", members[0], len(classes)),
            "probability",
            cv=self.cv,
            random_state=self.random_state,
            n_jobs=self.n_jobs,
            groups=None if groups is None else check_groups(groups, labels),
            weight=weight,
        )
        return [
            replace(first, estimator=each, fit_params=_weight_params(each, weight) | group_params(each, first.groups))
            for each in members
        ]


def _check_rows(X: Any, y: ArrayLike, sample_weight: ArrayLike | None) -> tuple[Any, NDArray[Any], NDArray[Any] | None]:
    """Return checked objects, labels and weights."""
    X, labels = check_rows(X, y)
    return X, labels, None if sample_weight is None else check_weights("sample_weight", sample_weight, labels)


def _predict_out_of_fold(jobs: list[Job]) -> tuple[Index, list[Floats]]:
    """Return rows, and the posteriors that each member, trained on the other folds, gives them.

    All members have the same folds. Rows of folds in which a class was missing from training are left out.
    """
    if not too_few_to_fold(jobs[0]):
        same = make_folds(jobs[0])
        jobs = [replace(job, cv=same) for job in jobs]
    found = [collect_scores("cv", job)[0] for job in jobs]
    known = np.logical_and.reduce([each.complete for each in found])
    if not known.any():
        msg = f"cv={jobs[0].cv!r} must leave rows of every class to train on in at least one fold; it does in none"
        raise ValueError(msg)
    scores = [each.scores[known] for each in found]
    return found[0].rows[known], [
        normalise(each) if each.shape[1] > 1 else np.column_stack([1.0 - each, each]) for each in scores
    ]


def _common_classes(fitted: list[Any], labels: NDArray[Any]) -> NDArray[Any]:
    """Return the classes of the fitted members, which must be the same, or of the labels if no member is fitted."""
    classes = check_known_classes(fitted[0], labels) if fitted else np.unique(labels)
    for member in fitted[1:]:
        if not np.array_equal(check_known_classes(member, labels), classes):
            msg = f"members must know the same classes; got {classes.tolist()[:5]} and {member.classes_.tolist()[:5]}"
            raise ValueError(msg)
    return check_several_classes(classes)


def _posteriors_of(classifier: Any, X: Any) -> Any:
    """Return the posteriors of a classifier, or raise if it has no `predict_proba`."""
    refuse_masked("X", X)
    if not hasattr(classifier, "predict_proba"):
        msg = f"{type(classifier).__name__} has no predict_proba; wrap it in CalibratedClassifier"
        raise ValueError(msg)
    return classifier.predict_proba(X)


def _weight_params(estimator: Any, weight: Any) -> dict[str, Any]:
    """Return the weights under the name that an estimator's fit expects; warn if it takes no weights."""
    if weight is None:
        return {}
    name = weight_parameter(estimator)
    if name is None:
        warn(f"{type(estimator).__name__} takes no sample_weight and is trained without weights")
        return {}
    return {name: weight}


def _choose_reject_label(classes: NDArray[Any], label: Any) -> Any:
    """Return the given reject label, or a default: of the type of the classes, and different from all of them."""
    strings = isinstance(classes[0], str)
    if label is None:
        label = "reject" if strings else min(-1, int(np.floor(classes[0])) - 1)
    if strings != isinstance(label, str):
        msg = f"reject_label must be of the type of the classes, {classes.tolist()[:5]}; got {label!r}"
        raise ValueError(msg)
    if label in classes:
        msg = f"reject_label must differ from the classes {classes.tolist()[:5]}; got {label!r}"
        raise ValueError(msg)
    return label


def _restrict_tags(tags: Any, estimators: list[Any]) -> Any:
    """Return tags that accept only the input that all of the estimators accept."""
    inner = [get_tags(each) for each in estimators]
    for name in ("sparse", "allow_nan", "pairwise"):
        setattr(tags.input_tags, name, all(getattr(each.input_tags, name) for each in inner))
    tags.classifier_tags.multi_class = all(
        each.classifier_tags is None or each.classifier_tags.multi_class for each in inner
    )
    return tags
