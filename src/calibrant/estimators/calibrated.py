"""Any classifier with calibrated probabilities, and the successor to `SVC(probability=True)`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from inspect import Parameter, Signature, signature
from typing import Any, Self

import numpy as np
import sklearn
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.model_selection import ParameterGrid, StratifiedGroupKFold
from sklearn.svm import SVC
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.metadata_routing import UNUSED, MetadataRouter, MethodMapping, process_routing
from sklearn.utils.validation import check_is_fitted

from calibrant.arrays import Floats
from calibrant.checks import check_one_of, check_several_classes, check_weights, refuse_masked
from calibrant.estimators.calibrator import FeaturesMixin, check_rows
from calibrant.estimators.protocols import (
    GROUPED,
    MULTICLASS,
    PROTOCOLS,
    Job,
    KernelMachine,
    Scored,
    check_groups,
    choose_scheme,
    collect_scores,
    group_params,
    make_folds,
    prepare_machine,
    refuse_unused_groups,
    score_columns,
    select_rows,
    train,
    weight_parameter,
)
from calibrant.estimators.showing import FittedCardMixin
from calibrant.maps.classes import SCHEMES, Plan, Sight, log_classes
from calibrant.maps.coupling import COUPLINGS
from calibrant.maps.fitting import check_method
from calibrant.maps.lifting import choose_row, lift
from calibrant.maps.methods import NEEDS, Method
from calibrant.maps.records import Map
from calibrant.metrics import log_loss
from calibrant.samples import ClassSample
from calibrant.svm.leave_one_out import LEAVE_ONE_OUT
from calibrant.warning import warn

__all__ = [
    "CalibratedClassifier",
    "check_known_classes",
    "require_classifier",
    "svc",
]


_KINDS = ("auto", "margin", "probability", "logit")
_UNSEEN = ("cv", "holdout", "loo")  # protocols whose pooled scores of unseen rows can choose among machines


class CalibratedClassifier(FittedCardMixin, FeaturesMixin, ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Any classifier with calibrated probabilities: scores of unseen rows, a map fitted to them, and a refit.

    Parameters
    ----------
    estimator : a classifier with `decision_function` or `predict_proba`; pipelines and searches too.
    method : str or callable, default="auto"
        How scores become probabilities: a name of `calibrant.METHODS`, or a function from a `Sample` to a map. "auto"
        averages smooth curves; "platt" is the sigmoid of `SVC(probability=True)`. The two methods of
        `calibrant.MACHINE_METHODS`, "moderated" (Kwok 1999) and "local_cosine" (Vapnik 1998), both reconstructions,
        also look at the support vectors of an `SVC`.
    protocol : {"cv", "holdout", "loo", "ensemble", "train", "prefit"}, default="cv"
        Where the calibration scores come from; see `calibrant.estimators.protocols` for what each costs.
    cv : int or splitter, default=3
        Folds for "cv" and "ensemble": a number of shuffled stratified folds, which keep `groups` together, or any
        splitter of scikit-learn. A row that several folds score gets its mean score; rows that no fold scores are left
        out of the map, and so are the scores of a class in folds whose training rows lack it. It is an error if a map
        is left without rows of both its sides.
    kind : {"auto", "margin", "probability", "logit"}, default="auto"
        What is calibrated. "auto": decision values where there are any, else probabilities (through their logit if the
        map is defined on the real line).
    multiclass : {"auto", "ovo", "ovr", "matrix"}, default="auto"
        "ovo": one map per pair of classes, then coupling, as LIBSVM does; unless the machine is made of pairs, as `SVC`
        is, one machine is trained per pair. "ovr": one map per class, normalised. "matrix": one map of all scores, if
        the method has one. "auto": "ovo" for machines made of pairs, as `SVC` is, unless the method needs all classes
        at once; for others "matrix", if the method has a map of all classes, as "auto" and "temperature" have, else
        "ovr".
    consistent : bool, default=False
        True: `predict` is the most probable class. False: `predict` is the machine's own answer, and
        `disagreement_` says how often the two differ.
    coupling : {"wu_lin_weng", "hastie_tibshirani", "price"}, default="wu_lin_weng"
        How pairwise probabilities become class probabilities.
    temper : bool, default=True
        With more than two classes, raise the combined probabilities to the power that fits the calibration rows best:
        each map is smoothed for the few rows of its pair, and combined they are not confident enough. LIBSVM does not.
    loo : {"span", "drop_own", "exact"}, default="span"
        How the leave-one-out scores of an `SVC` are computed; see `calibrant.svm.svc_leave_one_out`.
    search : dict or list, default=None
        Candidates: a grid of parameters of `estimator`, or a list of estimators. The best log loss of the calibrated
        probabilities of the calibration rows wins, and only the winner is refitted: the choice needs no training beyond
        that of the scores (Platt 1999, sec. 2.1).
    options : dict, default=None
        Options of the method.
    n_jobs : int, default=None
        Number of folds trained in parallel.
    random_state : int or RandomState, default=None
        Shuffles the folds; None shuffles them the same way every time.

    Attributes
    ----------
    classes_ : the classes, sorted.
    estimator_ : the machine trained on all rows (the first of them for "ensemble").
    calibrated_ : list of (machine, map of its scores): one pair, or one per fold for "ensemble".
    disagreement_ : share of calibration rows for which the class that the machine's scores decide for is not the most
        probable class.
    consistency_cost_ : accuracy of the machine's own decisions minus that of the most probable class, on those rows.
    search_results_ : list of dicts, one per candidate, if `search` was given; `best_index_` is the winner's position.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.svm import SVC
    >>> from calibrant import CalibratedClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = CalibratedClassifier(SVC(C=10)).fit(X, y)
    >>> model.predict_proba(X[[0, 77]]).round(2)
    array([[1.  , 0.  , 0.  ],
           [0.  , 0.63, 0.37]])
    """

    __metadata_request__fit = {"groups": UNUSED}  # the splitter's request decides  # noqa: RUF012

    def __init__(
        self,
        estimator: Any,
        method: str | Callable[..., Map] = "auto",
        *,
        protocol: str = "cv",
        cv: Any = 3,
        kind: str = "auto",
        multiclass: str = "auto",
        consistent: bool = False,
        coupling: str = "wu_lin_weng",
        temper: bool = True,
        loo: str = "span",
        search: Any = None,
        options: Mapping[str, Any] | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.method = method
        self.protocol = protocol
        self.cv = cv
        self.kind = kind
        self.multiclass = multiclass
        self.consistent = consistent
        self.coupling = coupling
        self.temper = temper
        self.loo = loo
        self.search = search
        self.options = options
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, *, groups: Any = None, **fit_params: Any
    ) -> Self:
        """Make the calibration scores, fit the maps to them, and train the final machine.

        `sample_weight` is used by the estimator and by the maps. Rows of one of the `groups` stay together wherever
        rows are split: by `cv`, also if it is a number, by the holdout, and by a search or another
        `CalibratedClassifier` inside. Other fit parameters are passed to the estimator; those with one value per row
        are split with the rows. If scikit-learn's metadata routing is enabled, it decides who gets what.
        """
        row, job = self._check(X, y, sample_weight, groups)
        tried = [self._calibrate(candidate, row) for candidate in self._candidates(job, row, fit_params)]
        best = int(np.argmin([each.log_loss for each in tried])) if len(tried) > 1 else 0
        chosen = tried[best]
        machines = [train(chosen.job) if scored.machine is None else scored.machine for scored, _ in chosen.fits]
        self.classes_ = job.classes
        self.calibrated_ = [(machine, fitted) for machine, (_, fitted) in zip(machines, chosen.fits, strict=True)]
        self.estimator_ = machines[0].trained_ if isinstance(machines[0], KernelMachine) else machines[0]
        self.disagreement_ = chosen.disagreement
        self.consistency_cost_ = chosen.own_accuracy - chosen.accuracy
        if self.search is not None:
            self.best_index_ = best
            self.search_results_ = [
                {
                    "estimator": each.job.estimator,
                    "log_loss": each.log_loss,
                    "accuracy": each.accuracy,
                    "own_accuracy": each.own_accuracy,
                }
                for each in tried
            ]
        return self

    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of each class, one row per row of X."""
        check_is_fitted(self)
        return np.asarray(sum(fitted(self._scores(machine, X)) for machine, fitted in self.calibrated_)) / len(
            self.calibrated_
        )

    def predict_log_proba(self, X: Any) -> Floats:
        """Return the logarithm of each probability; with two classes it is exact even if one of them rounds to 1."""
        check_is_fitted(self)
        if len(self.calibrated_) == 1:
            machine, fitted = self.calibrated_[0]
            return log_classes(fitted, self._scores(machine, X))
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.predict_proba(X)))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the machine's own answer, or the most probable class if `consistent` (and for "ensemble")."""
        check_is_fitted(self)
        if self.consistent or len(self.calibrated_) > 1:
            return np.asarray(self.classes_[self.predict_proba(X).argmax(axis=1)])
        refuse_masked("X", X)
        return np.asarray(self.estimator_.predict(X))

    def to_onnx(self, *, dtype: str = "float64", rows: Any = None) -> Any:
        """Return the fitted classifier as an ONNX model from `X` to `probabilities`; see `calibrant.onnx`."""
        from calibrant.estimators.exporting import export_classifier

        return export_classifier(self, dtype, rows)

    def get_metadata_routing(self) -> MetadataRouter:
        """Return where weights, groups and other metadata go if routing is enabled."""
        router = MetadataRouter(owner=self).add_self_request(self)
        if self.protocol != "prefit":
            router.add(estimator=self.estimator, method_mapping=MethodMapping().add(caller="fit", callee="fit"))
        if self.protocol in GROUPED:
            splits = hasattr(self.cv, "split") and self.protocol != "holdout"
            splitter = self.cv if splits else StratifiedGroupKFold()  # a number of folds asks for groups as this does
            router.add(splitter=splitter, method_mapping=MethodMapping().add(caller="fit", callee="split"))
        return router

    def __sklearn_tags__(self) -> Any:
        """Accept the inputs that the estimator accepts."""
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.input_tags.sparse = inner.input_tags.sparse
        tags.input_tags.allow_nan = inner.input_tags.allow_nan
        tags.input_tags.pairwise = inner.input_tags.pairwise
        tags.classifier_tags.multi_class = inner.classifier_tags is None or inner.classifier_tags.multi_class
        return tags

    def _scores(self, machine: Any, X: Any) -> Any:
        """Return what the machine's map takes: its scores, or its view of the rows."""
        refuse_masked("X", X)
        fitted, kind = self.calibrated_[0][1], None if self.kind == "auto" else self.kind
        found: Any
        if isinstance(machine, KernelMachine):
            found = machine.view(X)
        else:
            found, kind = score_columns(machine, X, self.classes_, fitted.scheme, self.kind)
        if fitted.origin is not None:
            fitted.origin.require_kind(kind)
        return found

    def _check(self, X: Any, y: ArrayLike, sample_weight: Any, groups: Any) -> tuple[Method, Job]:
        """Check parameters and data; return the method's row of the table, and the job without its fit parameters."""
        require_classifier("estimator", self.estimator)
        X, labels = check_rows(X, y)
        for name, value, choices in (
            ("protocol", self.protocol, PROTOCOLS),
            ("kind", self.kind, _KINDS),
            ("coupling", self.coupling, COUPLINGS),
            ("loo", self.loo, LEAVE_ONE_OUT),
            ("multiclass", self.multiclass, MULTICLASS),
        ):
            check_one_of(name, value, choices)
        if self.search is not None and self.protocol not in _UNSEEN:
            msg = f"search needs scores of unseen rows, protocol one of {', '.join(_UNSEEN)}; got {self.protocol!r}"
            raise ValueError(msg)
        if groups is not None:
            refuse_unused_groups(self.protocol, self.estimator, groups)
            groups = check_groups(groups, labels)
        weight = None if sample_weight is None else check_weights("sample_weight", sample_weight, labels)
        prefit = self.protocol == "prefit"
        classes = check_several_classes(check_known_classes(self.estimator, labels) if prefit else np.unique(labels))
        absent = [] if prefit or weight is None else np.setdiff1d(classes, labels[weight > 0]).tolist()
        if absent:
            msg = f"sample_weight must be positive for some rows of each class; class {absent[0]!r} has none"
            raise ValueError(msg)
        options = self.options or {}
        row = check_method(self.method, options, NEEDS)
        if row.needs == "machine" and self.protocol == "loo":
            msg = f"protocol must not be 'loo' for method {self.method!r}, which needs a machine for each row; use 'cv'"
            raise ValueError(msg)
        if row.needs == "machine" and self.kind not in ("auto", "margin"):
            rule = f"kind must be 'auto' or 'margin' for method {self.method!r}, which takes decision values"
            msg = f"{rule}; got {self.kind!r}"
            raise ValueError(msg)
        scheme = choose_scheme(self.multiclass, self.estimator, len(classes), row)
        return choose_row(self.method, row, options, scheme), Job(
            self.estimator,
            X,
            labels,
            np.searchsorted(classes, labels),
            classes,
            scheme,
            self.kind,
            cv=self.cv,
            loo=self.loo,
            random_state=self.random_state,
            n_jobs=self.n_jobs,
            groups=groups,
            weight=weight,
            look=None if row.look is None else partial(row.look, **options),
        )

    def _candidates(self, job: Job, row: Method, fit_params: dict[str, Any]) -> list[Job]:
        """Return one job per candidate, all with the same folds, each with what its fit and the splitter are given."""
        machines = [self.estimator]
        if isinstance(self.search, Mapping):
            machines = [clone(self.estimator).set_params(**point) for point in ParameterGrid(self.search)]
        elif self.search is not None:
            if not isinstance(self.search, (list, tuple)) or not self.search:
                msg = f"search must be a grid of parameters or a list of at least one candidate; got {self.search!r}"
                raise ValueError(msg)
            machines = list(self.search)
            for each in machines:
                require_classifier("search", each)
        jobs, prefit = [], self.protocol == "prefit"
        looking = str(self.method) if row.needs == "machine" else None
        for each in machines:
            estimator = prepare_machine(each, job.scheme, self.kind, fitted=prefit, looking=looking)
            groups, to_estimator, to_splitter = job.groups, dict(fit_params), {}
            if sklearn.get_config()["enable_metadata_routing"]:
                metadata = fit_params if groups is None else {"groups": groups, **fit_params}
                routed = process_routing(self, "fit", sample_weight=job.weight, **metadata)
                to_splitter = dict(routed.get("splitter", {}).get("split", {}))
                groups = to_splitter.pop("groups", groups)
                to_estimator = dict(routed.get("estimator", {}).get("fit", {}))
            else:
                if groups is not None:
                    to_estimator |= group_params(each, groups)
                if job.weight is not None and not prefit:
                    name = weight_parameter(each)
                    if name is None:
                        warn(f"{type(each).__name__} takes no sample_weight: only the map is weighted")
                    else:
                        to_estimator[name] = job.weight
            jobs.append(
                replace(job, estimator=estimator, fit_params=to_estimator, split_params=to_splitter, groups=groups)
            )
        if len(jobs) > 1 and self.protocol == "cv":
            same = make_folds(jobs[0])
            jobs = [replace(each, cv=same) for each in jobs]
        if len(jobs) > 1 and self.protocol == "holdout":
            once = int(check_random_state(job.seed).randint(2**31 - 1))
            jobs = [replace(each, random_state=once) for each in jobs]
        return jobs

    def _calibrate(self, job: Job, row: Method) -> _Calibrated:
        """Make the scores of a machine by the protocol, fit its maps, and compare both with the classes of the rows.

        Only rows with a score in every column are compared; the accuracies are NaN if there are none.
        """
        plan = Plan(self.method, self.options or {}, self.coupling, self.temper)
        scheme, k = SCHEMES[job.scheme], len(job.classes)
        fits: list[tuple[Scored, Any]] = []
        rows, probabilities, decisions = [], [], []
        for scored in collect_scores(self.protocol, job):
            weight = None if job.weight is None else job.weight[scored.rows]
            data = ClassSample(
                scored.scores, job.index[scored.rows], k, scored.kind, weight, tuple(job.classes.tolist())
            )
            found, sight, complete = scored, None, scored.complete
            if row.needs == "machine":
                found = replace(scored, machine=train(job) if scored.machine is None else scored.machine)
                sight = _see(job, found, self.method)
            fitted, p = lift(plan, row, job.scheme, data, sight)
            fits.append((found, fitted))
            rows.append(scored.rows[complete])
            probabilities.append(p)
            decisions.append(scheme.decide(scored.scores[complete], k, 0.5 if scored.kind == "probability" else 0.0))
        kept, P, own = np.concatenate(rows), np.concatenate(probabilities), np.concatenate(decisions)
        if not len(kept):
            if self.search is not None:
                msg = (
                    "search needs rows scored by a machine that knows every class, to compare candidates by; "
                    f"the folds of cv={self.cv!r} all lack a class to train on"
                )
                raise ValueError(msg)
            return _Calibrated(job, fits, np.nan, np.nan, np.nan, np.nan)
        actual, probable = job.index[kept], P.argmax(axis=1)
        weight = None if job.weight is None else job.weight[kept]
        loss = np.nan  # only a search needs it
        if self.search is not None:
            loss = log_loss(actual, P, labels=np.arange(k), sample_weight=weight)
        return _Calibrated(
            job,
            fits,
            accuracy=float(np.average(probable == actual, weights=weight)),
            own_accuracy=float(np.average(own == actual, weights=weight)),
            disagreement=float(np.average(own != probable, weights=weight)),
            log_loss=loss,
        )


@dataclass(frozen=True, slots=True)
class _Calibrated:
    """A candidate's scores with their maps, and how well these and the machine itself classify the scored rows."""

    job: Job
    fits: list[tuple[Scored, Any]]
    accuracy: float
    own_accuracy: float
    disagreement: float
    log_loss: float


def _see(job: Job, scored: Scored, method: Any) -> Sight:
    """Return what the final machine sees in the calibration rows."""
    machine = scored.machine
    numbers = scored.rows if machine.rows_ == len(job.y) else None
    if numbers is None and get_tags(job.estimator).input_tags.pairwise:
        msg = f"protocol must be 'cv', 'holdout' or 'train' for method {method!r} of a precomputed kernel"
        raise ValueError(msg)
    view = machine.view(select_rows(job.estimator, job.X, scored.rows, None))
    looks = np.zeros_like(scored.scores) if scored.looks is None else scored.looks
    return Sight(machine.geometries_, view, numbers, looks)


def require_classifier(name: str, estimator: Any) -> None:
    """Raise unless an argument is an estimator that can be fitted."""
    if isinstance(estimator, type) or not hasattr(estimator, "fit"):
        msg = f"{name} must be a classifier of scikit-learn's kind, an instance with a fit method; got {estimator!r}"
        raise ValueError(msg)


def check_known_classes(estimator: Any, labels: NDArray[Any]) -> NDArray[Any]:
    """Return the classes of a fitted estimator, after checking that it knows the labels."""
    check_is_fitted(estimator)
    classes = np.asarray(estimator.classes_)
    strange = np.setdiff1d(labels, classes)
    if len(strange):
        msg = f"y must hold classes the prefit estimator knows, {classes.tolist()[:5]}; got {strange.tolist()[0]!r}"
        raise ValueError(msg)
    return classes


def svc(method: str | Callable[..., Map] = "auto", **parameters: Any) -> CalibratedClassifier:
    """Return a support vector classifier with probabilities: the successor to `SVC(probability=True)`.

    Parameters
    ----------
    method : str or callable, default="auto"
        How scores become probabilities, as in `CalibratedClassifier`; "platt" has sigmoids, as LIBSVM.
    C, kernel, degree, gamma, coef0, shrinking, tol, cache_size, class_weight, verbose, max_iter :
        those of scikit-learn's `SVC`, and so are `decision_function_shape` and `break_ties`. `probability` is accepted
        and ignored: every result has probabilities.
    protocol, cv, kind, multiclass, consistent, coupling, temper, loo, search, options, n_jobs :
        those of `CalibratedClassifier`.
    random_state : int or RandomState, default=None
        Shuffles the folds.

    Returns
    -------
    CalibratedClassifier
        not yet fitted.

    Raises
    ------
    ValueError : in `fit`, if an option is unknown.

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> svc(C=10, gamma="auto", cv=5).fit(X, y).predict_proba(X[:1]).shape
    (1, 3)
    """
    parameters.pop("probability", None)  # every result has probabilities
    own = set(signature(CalibratedClassifier).parameters) - {"estimator", "method"}
    machine = SVC(**{name: value for name, value in parameters.items() if name not in own})
    return CalibratedClassifier(machine, method, **{name: parameters[name] for name in own & parameters.keys()})


def _join_signatures() -> Signature:
    """Return the signature of `svc`: the method, the parameters of `SVC`, and those of `CalibratedClassifier`."""
    own = {name: each for name, each in signature(CalibratedClassifier).parameters.items() if name != "estimator"}
    machine = {name: each for name, each in signature(SVC).parameters.items() if name not in {*own, "probability"}}
    method = own.pop("method")
    keywords = [each.replace(kind=Parameter.KEYWORD_ONLY) for each in [*machine.values(), *own.values()]]
    return Signature([method, *keywords], return_annotation=CalibratedClassifier)


svc.__signature__ = _join_signatures()  # type: ignore[attr-defined]
