"""Pools: the scores that a classifier gives rows it was not trained on, kept in files."""

from __future__ import annotations

import hashlib
import os
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import sklearn
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier

from bench.arena.arenas import MARGIN, PROBABILITY, Arena
from calibrant.files import replace_file

TRAIN = 2_000  # rows that a classifier is trained on, at most a third of the set
NETWORK = "network"  # the model of the scores that come without one

# Settings are such as people use, good and bad; the over-fitted ones are meant to be so.
MODELS = {
    "logistic": LogisticRegression(max_iter=1_000),
    "linear_svm": LinearSVC(C=0.1, random_state=0),
    "rbf_svm": SVC(C=3.0),
    "naive_bayes": GaussianNB(),
    "forest": RandomForestClassifier(200, random_state=0),
    "extra_trees": ExtraTreesClassifier(200, random_state=0),
    "boosting_under": HistGradientBoostingClassifier(max_iter=20, learning_rate=0.05, random_state=0),
    "boosting_over": HistGradientBoostingClassifier(max_iter=300, learning_rate=0.2, random_state=0),
    "mlp": MLPClassifier((64, 64), max_iter=120, random_state=0),
    "knn": KNeighborsClassifier(10),
    "tree": DecisionTreeClassifier(max_depth=6, random_state=0),
}


@dataclass(frozen=True, slots=True)
class Pool:
    """Where the scores of a model on the rows of a data set are kept."""

    data: str
    model: str
    kind: str  # of the scores: `predict_proba`, where a model has it, else margins
    path: Path

    @property
    def name(self) -> str:
        """The name of the pool."""
        return f"{self.data}/{self.model}"

    def load(self) -> tuple[np.ndarray, np.ndarray]:
        """Return scores, one column or one per class, and labels."""
        with np.load(self.path) as kept:
            return kept["score"], kept["label"].astype(int)


def choose_folder() -> Path:
    """Return the folder of pools and results: CALIBRANT_ARENA, or one in the user's cache."""
    return Path(os.environ.get("CALIBRANT_ARENA") or Path.home() / ".cache" / "calibrant" / "arena")


def digest(*parts: str | bytes) -> str:
    """Return a short name for what these say."""
    found = hashlib.sha256()
    for part in parts:
        found.update(part if isinstance(part, bytes) else part.encode())
        found.update(b"\0")
    return found.hexdigest()[:16]


def list_pools(arena: Arena, name: str, folder: Path) -> list[Pool]:
    """Return the pools of a data set, whether or not their files are there yet."""
    data = arena.data[name]
    pools = []
    for key, model in ({NETWORK: None} if data.scored else arena.models).items():
        settings = "" if model is None else repr(model.get_params())
        kind = PROBABILITY if model is None or hasattr(model, "predict_proba") else MARGIN
        made = digest(data.describe(), key, settings, str((TRAIN, arena.most)), sklearn.__version__)
        pools.append(Pool(name, key, kind, folder / "pools" / f"{name}-{key}-{made}.npz"))
    return pools


def build_pools(arena: Arena, pools: list[Pool]) -> str:
    """Write the files that are missing of pools of one data set; return why they cannot be had, or nothing."""
    missing = [pool for pool in pools if not pool.path.exists()]
    if not missing:
        return ""
    data = arena.data[missing[0].data]
    try:
        X, y = data.load()
    except (FileNotFoundError, ModuleNotFoundError) as absent:
        return str(absent)
    order = np.random.default_rng(0).permutation(len(y))
    if data.scored:
        rows = order[: arena.most]
        keep_pool(missing[0], X[rows], y[rows])
        return ""
    train = order[: min(TRAIN, len(y) // 3)]
    known, label = np.unique(y[train], return_inverse=True)
    # A classifier says nothing of a class that it has not seen.
    rest = order[len(train) :]
    rest = rest[np.isin(y[rest], known)][: arena.most]
    prepare = make_pipeline(SimpleImputer(strategy="median"), StandardScaler()).fit(X[train])
    seen, unseen = prepare.transform(X[train]), prepare.transform(X[rest])
    for pool in missing:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a network that has not converged is one of those people use
            model = clone(arena.models[pool.model]).fit(seen, label)
        score = model.decision_function(unseen) if pool.kind == MARGIN else model.predict_proba(unseen)
        # Two classes are one column, as margins are.
        keep_pool(pool, score[:, 1] if score.shape[1:] == (2,) else score, np.searchsorted(known, y[rest]))
    return ""


def keep_pool(pool: Pool, score: np.ndarray, label: np.ndarray) -> None:
    """Write the file of a pool."""
    pool.path.parent.mkdir(parents=True, exist_ok=True)
    with replace_file(pool.path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, score=np.asarray(score, float), label=np.asarray(label, np.int16))
