"""The artificial data of Duin & Tax (1998) and of PRTools: two normal classes, 0 and 1.

Each function takes the number of objects of each class (one number for both, or one per class) and a seed or a random
generator, and returns (X, y), the objects of class 0 first.

>>> X, y = crossing(3, random_state=0)
>>> X.shape, y
((6, 2), array([0, 0, 0, 1, 1, 1]))
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from calibrant.arrays import Floats
from calibrant.checks import check_whole
from calibrant.papers.cells import Labels

__all__ = ["crossing", "difficult", "easy", "highleyman", "normal_classes"]

_Sizes = int | Sequence[int]
_Seed = int | np.random.Generator | None
_Objects = tuple[Floats, Labels]

_ROTATION = np.array([[1.0, -1.0], [1.0, 1.0]]) / np.sqrt(2.0)  # 45 degrees


def normal_classes(n: _Sizes, means: ArrayLike, covariances: ArrayLike, random_state: _Seed = None) -> _Objects:
    """Draw the objects of each class from a normal distribution of its own.

    Parameters
    ----------
    n : how many objects of each class, one number or one per class.
    means : one row per class.
    covariances : one matrix per class.
    random_state : the seed, a generator, or None for a new one.

    Returns
    -------
    (X, y) : one row per object, and the number of its class

    Raises
    ------
    ValueError : if a number of objects is negative, or another argument is outside its range.

    >>> X, y = normal_classes([2, 1], means=[[0.0], [9.0]], covariances=[[[1.0]], [[1.0]]], random_state=0)
    >>> X.round(2).ravel().tolist(), y.tolist()
    ([0.13, -0.13, 9.64], [0, 0, 1])
    """
    centers, spreads = np.asarray(means, np.float64), np.asarray(covariances, np.float64)
    given, classes = np.asarray(n), len(centers)
    if given.dtype.kind not in "iu" or given.shape not in ((), (classes,)) or given.min() < 0:
        msg = f"n must be a number of objects, or {classes} of them, one per class; got {n!r}"
        raise ValueError(msg)
    sizes = np.broadcast_to(given, classes)
    rng = np.random.default_rng(random_state)
    # A Cholesky factor, not the eigenvectors, whose signs differ between machines.
    drawn = [
        mean + rng.standard_normal((size, len(mean))) @ np.linalg.cholesky(covariance).T
        for size, mean, covariance in zip(sizes, centers, spreads, strict=True)
    ]
    return np.concatenate(drawn), np.repeat(np.arange(classes), sizes)


def crossing(n: _Sizes = 100, *, random_state: _Seed = None) -> _Objects:
    """Draw two crossing classes of two features, like set a of Duin & Tax (1998).

    The paper does not give its parameters. These were tuned until seven classifiers had the published error rates. So
    only agreement of confidence errors is evidence of a reproduction; agreement of error rates is not.

    Parameters
    ----------
    n : how many objects of each class, one number or one per class.
    random_state : the seed, a generator, or None for a new one.

    Returns
    -------
    (X, y) : one row per object, and its class 0 or 1

    Raises
    ------
    ValueError : if a number of objects is negative, or another argument is outside its range.

    >>> X, y = crossing(3, random_state=0)
    >>> X.shape, y.tolist()
    ((6, 2), [0, 0, 0, 1, 1, 1])
    """
    covariances = [
        [[0.753025, -0.427773], [-0.427773, 0.259075]],
        [[0.986722, 2.393388], [2.393388, 6.691378]],
    ]
    return normal_classes(n, [[0.0, 0.0], [0.7, -1.6]], covariances, random_state)


def difficult(
    n: _Sizes = 100, *, features: int = 10, distance: float = 3.0, rotated: bool = False, random_state: _Seed = None
) -> _Objects:
    """Draw two classes of equal covariance that differ in two features (Duin & Tax 1998, set b; gendatd of PRTools).

    The variances are (1, 40, 1, ..., 1) and the means differ by `distance` in the first two features; the other
    features are redundant. `rotated` rotates the first two by 45 degrees, as PRTools does but the published
    experiment did not.

    Parameters
    ----------
    n : how many objects of each class, one number or one per class.
    features : how many features.
    distance : between the means, in each of the first two features.
    rotated : whether to rotate the first two features by 45 degrees.
    random_state : the seed, a generator, or None for a new one.

    Returns
    -------
    (X, y) : one row per object, and its class 0 or 1

    Raises
    ------
    ValueError : if a number of objects is negative, or another argument is outside its range.

    >>> X, y = difficult(3, features=4, random_state=0)
    >>> X.shape, y.tolist()
    ((6, 4), [0, 0, 0, 1, 1, 1])
    """
    features = check_whole("features", features, low=2)
    means = np.zeros((2, features))
    means[1, :2] = distance
    variances = np.ones(features)
    variances[1] = 40.0
    X, y = normal_classes(n, means, np.stack([np.diag(variances)] * 2), random_state)
    if rotated:
        X[:, :2] = X[:, :2] @ _ROTATION
    return X, y


def easy(n: _Sizes = 100, *, features: int = 2, distance: float = 2.0, random_state: _Seed = None) -> _Objects:
    """Draw two spherical classes whose means differ by `distance` in the first feature (gendats of PRTools).

    The error of the best classifier is Phi(-distance/2).

    Parameters
    ----------
    n : how many objects of each class, one number or one per class.
    features : how many features.
    distance : between the means, in the first feature.
    random_state : the seed, a generator, or None for a new one.

    Returns
    -------
    (X, y) : one row per object, and its class 0 or 1

    Raises
    ------
    ValueError : if a number of objects is negative, or another argument is outside its range.

    >>> X, y = easy(3, random_state=0)
    >>> X.shape, y.tolist()
    ((6, 2), [0, 0, 0, 1, 1, 1])
    """
    features = check_whole("features", features)
    means = np.zeros((2, features))
    means[1, 0] = distance
    return normal_classes(n, means, np.stack([np.eye(features)] * 2), random_state)


def highleyman(n: _Sizes = 100, *, rotated: bool = False, random_state: _Seed = None) -> _Objects:
    """Draw the classes N((1, 1), diag(1, 1/4)) and N((2, 0), diag(1/100, 4)) (Highleyman 1962, gendath of PRTools).

    `rotated` rotates them by 45 degrees, so that no single feature shows the shapes of the classes.

    Parameters
    ----------
    n : how many objects of each class, one number or one per class.
    rotated : whether to rotate by 45 degrees.
    random_state : the seed, a generator, or None for a new one.

    Returns
    -------
    (X, y) : one row per object, and its class 0 or 1

    Raises
    ------
    ValueError : if a number of objects is negative, or another argument is outside its range.

    >>> X, y = highleyman(3, random_state=0)
    >>> X.shape, y.tolist()
    ((6, 2), [0, 0, 0, 1, 1, 1])
    """
    covariances = [np.diag([1.0, 0.25]), np.diag([0.01, 4.0])]
    X, y = normal_classes(n, [[1.0, 1.0], [2.0, 0.0]], covariances, random_state)
    return (X @ _ROTATION if rotated else X), y
