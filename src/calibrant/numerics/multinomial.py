"""Penalised multinomial regression: class probabilities that are a softmax, linear in the coefficients.

The logits of a row of k classes are

    f_c = x_c (1 + sum_m a_m h_m) + sum_m e_m S_mc + sum_g B_gc D_gc + sum_j M_cj x_j,        q = softmax(f),

with x_c, S_mc and D_gc numbers per row and class, h_m numbers per row. The coefficients theta = (a, e, B, M) minimise

    F(theta) = -sum_i w_i sum_c t_ic log q_ic + 1/2 sum_j lambda_j theta_j^2,

t the shares of the classes in a row, lambda > 0. F is strictly convex. `minimise` takes Newton steps where the Hessian
is small enough to be dense. Else it takes L-BFGS steps scaled by a block approximation of it, `Blocks`, anew where they
are many, and Newton steps after all where these are too slow, solved on the scale of each class's block, `_Classes`.
Either way the result has passed the Newton decrement as its certificate. Rows are read in blocks, by several threads
where there is much to do: the memory needed does not grow with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from calibrant.arrays import Floats
from calibrant.numerics.blas import one_blas_thread
from calibrant.numerics.simplex import row_sums
from calibrant.threads import run_in_turn

__all__ = ["Blocks", "Dense", "Labels", "Minimum", "Problem", "Terms", "minimise"]

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class _Tuning:
    """The constants."""

    block: int = 32_768  # numbers per array of a block of rows: it stays in the cache
    wide: int = 60_000  # the same of arrays with a row per coefficient; 200,000 took a fifth longer at 10,000 x 10
    deep: int = 128  # the least rows of such a block; with 256 a fit of 10,000 x 1,000 took 3.1 times the input
    kept: int = 500_000  # rows times classes up to which the terms are computed once; beyond, anew in every pass
    threaded: float = 2e7  # products of a pass over the rows from which there are threads, two ...
    parallel: int = 2_000_000  # ... or as many as have so many coefficients together
    dense_work: float = 6e9  # rows times squared coefficients up to which the Hessian is dense
    dense_size: int = 1_500  # coefficients up to which it is
    dense_last: int = 4_000  # coefficients up to which it is where L-BFGS has not ended; 130 MB
    decrement: float = 1e-10  # of a Newton minimum, per unit of the total weight
    rough_decrement: float = 2e-7  # the same of an L-BFGS minimum: 1/100 nat in 50,000 rows
    alike: float = 0.01  # share of a decrement that the next may be, for a Hessian to serve another step; its error is
    # the root of that, 10 %. Fits of 10,000 x 10 and 50,000 x 100 took half the time of a new one for every step
    newton_steps: int = 200
    lbfgs_steps: int = 50  # on one scale; vector scaling of 3,000 x 1,000 took 220 on the first alone, else 73 in all
    lbfgs_scales: int = 5  # beyond the first
    cg_newton_steps: int = 60
    cg_steps: int = 300  # of conjugate gradients in a Newton step ...
    cg_rest: float = 0.03  # ... that end when the residual has fallen to this share
    class_numbers: int = 16_000_000  # of all classes' blocks of the Hessian up to which they are its scale; 130 MB
    memory: int = 20  # pairs of steps and gradients that L-BFGS keeps ...
    least_memory: int = 5  # ... or so many ...
    memory_numbers: int = 7_000_000  # ... where more would have more coefficients than these
    armijo: float = 1e-4
    halvings: int = 40


_TUNING = _Tuning()
_UNFINISHED = "the scores or weights are beyond double precision: the fit of all classes did not converge in {} steps"


@dataclass(frozen=True, slots=True)
class Labels:
    """The classes of rows: their numbers, or the share `target` of each class in each row; and the rows' weights."""

    index: NDArray[np.intp]
    weight: Floats
    target: Floats | None = None

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.index)

    @property
    def total(self) -> float:
        """The weight of all rows."""
        return float(self.weight.sum())

    def part(self, rows: Any) -> Labels:
        """Return those of some rows."""
        return Labels(self.index[rows], self.weight[rows], None if self.target is None else self.target[rows])

    def counts(self, classes: int) -> Floats:
        """Return the weight of each class."""
        if self.target is not None:
            return np.asarray(self.weight @ self.target)
        return np.asarray(np.bincount(self.index, self.weight, minlength=classes), np.float64)

    def likelihood(self, logs: Floats) -> float:
        """Return sum_i w_i sum_c t_ic log q_ic."""
        if self.target is not None:
            return float(self.weight @ row_sums(self.target * logs))
        place = np.arange(0, logs.size, logs.shape[1])
        place += self.index
        return float(self.weight @ logs.ravel().take(place))  # faster than by two indices

    def residuals(self, q: Floats) -> Floats:
        """Return q - t, in the memory of q."""
        if self.target is not None:
            q -= self.target
        else:
            q[np.arange(len(q)), self.index] -= 1.0
        return q

    def cases(self) -> tuple[NDArray[np.intp], NDArray[np.intp], Floats]:
        """Return (row, class, weight) of every class that has a share in a row."""
        if self.target is None:
            return np.arange(len(self.index)), self.index, self.weight
        row, which = np.nonzero(self.target)
        return row, which, self.weight[row] * self.target[row, which]


@dataclass(frozen=True, slots=True)
class Terms:
    """What the logits of some rows are made of: x (rows, k), h (rows, m), S and D as arrays of x's shape."""

    x: Floats
    factors: Floats
    common: tuple[Floats, ...] = ()
    own: tuple[Floats, ...] = ()

    def part(self, rows: slice) -> Terms:
        """Return those of some rows."""
        common, own = (tuple(each[rows] for each in group) for group in (self.common, self.own))
        return Terms(self.x[rows], self.factors[rows], common, own)

    def shared(self) -> list[Floats]:
        """Return the derivatives of the logits by (a, e)."""
        return [self.x * h[:, None] for h in self.factors.T] + list(self.common)

    def together(self) -> list[Floats]:
        """Return the derivatives by what moves the logits of all classes: (a, e), or where none is, a row of B."""
        return self.shared() or list(self.own)

    def columns(self) -> tuple[Floats, Floats]:
        """Return the derivatives of each class's logit by (a, e) and by its own B, (k, m + g, rows), and x, (k, rows).

        The arrays are new. Rows come last: products with a number per class and row then have long inner loops.
        """
        return np.stack([each.T for each in (*self.shared(), *self.own)], axis=1), self.x.T.copy()


@dataclass(frozen=True, slots=True)
class Problem:
    """Rows to fit to: `make(rows)` gives the terms of a slice of them; `mixed` says whether there is a matrix M."""

    make: Callable[[slice], Terms]
    labels: Labels
    classes: int
    mixed: bool
    factors: int
    common: int
    own: int
    kept: list[Terms] = field(default_factory=list)

    @classmethod
    def of(cls, make: Callable[[slice], Terms], labels: Labels, *, mixed: bool) -> Problem:
        """Return a problem, its terms computed at once where they are few."""
        first = make(slice(0, 1))
        counts = first.factors.shape[1], len(first.common), len(first.own)
        found = cls(make, labels, first.x.shape[1], mixed, *counts)
        if len(labels) * found.classes <= _TUNING.kept:
            found.kept.extend(make(rows) for rows in found.slices())
        return found

    @property
    def commons(self) -> int:
        """The number of coefficients that all classes share, (a, e)."""
        return self.factors + self.common

    @property
    def size(self) -> int:
        """The number of coefficients."""
        return self.commons + self.own * self.classes + (self.classes**2 if self.mixed else 0)

    @property
    def is_dense(self) -> bool:
        """Whether a dense Hessian is worth its cost."""
        work = len(self.labels) * float(self.size) ** 2
        return work <= _TUNING.dense_work and self.size <= _TUNING.dense_size

    def slices(self) -> Iterator[slice]:
        """Yield the blocks of rows."""
        step = max(1, _TUNING.block // self.classes, self.classes // 4 if self.mixed else 1)  # M is read in every block
        for start in range(0, len(self.labels), step):
            yield slice(start, min(start + step, len(self.labels)))

    def blocks(self) -> Iterator[tuple[slice, Terms, Labels]]:
        """Yield the rows, terms and labels of each block."""
        for number, rows in enumerate(self.slices()):
            yield rows, self.kept[number] if self.kept else self.make(rows), self.labels.part(rows)

    def split(self, theta: Floats) -> tuple[Floats, Floats, Floats | None]:
        """Return (a, e), B and M."""
        k, at = self.classes, self.commons + self.own * self.classes
        own = theta[self.commons : at].reshape(self.own, k)
        return theta[: self.commons], own, theta[at:].reshape(k, k) if self.mixed else None

    def logits(self, terms: Terms, theta: Floats) -> Floats:
        """Return f."""
        common, own, matrix = self.split(theta)
        f = terms.x * (1.0 + terms.factors @ common[: self.factors])[:, None]
        for value, s in zip(common[self.factors :], terms.common, strict=True):
            f += value * s
        for row, d in zip(own, terms.own, strict=True):
            f += row * d
        if matrix is not None:
            f += terms.x @ matrix.T
        return f

    def read(self, function: Callable[[Terms, Labels], _Result], products: float = 0.0) -> Iterator[_Result]:
        """Yield what a function gives for each block, in their order: sums do not depend on how many threads run.

        It takes so many `products` for all rows, or as many as the logits.
        """

        def work(at: tuple[int, slice]) -> _Result:
            """Return what the function gives for one block."""
            number, rows = at
            return function(self.kept[number] if self.kept else self.make(rows), self.labels.part(rows))

        columns = self.commons + self.own + (self.classes if self.mixed else 0)
        products = products or len(self.labels) * float(self.classes) * columns
        most = max(2, _TUNING.parallel // self.size) if products >= _TUNING.threaded else 1
        return run_in_turn(work, enumerate(self.slices()), most)

    def evaluate(self, theta: Floats, precision: Floats) -> tuple[float, Floats]:
        """Return F and its gradient."""
        gradient = precision * theta
        value = 0.5 * float(gradient @ theta)
        for loss, slope in self.read(partial(self._lose, theta)):
            value += loss
            gradient += slope
            del slope  # before the next is begun
        return value, gradient

    def _lose(self, theta: Floats, terms: Terms, labels: Labels) -> tuple[float, Floats]:
        """Return the loss of a block of rows and its gradient."""
        logs, q = _softmax(self.logits(terms, theta))
        return -labels.likelihood(logs), self.slope(terms, labels, q)

    def slope(self, terms: Terms, labels: Labels, q: Floats) -> Floats:
        """Return the gradient of the loss of a block, in which the memory of q is used."""
        r = labels.residuals(q)
        r *= labels.weight[:, None]
        return self._project(terms, r)

    def probabilities(self, theta: Floats) -> list[Floats]:
        """Return softmax(f), one array per block of rows."""
        return [_softmax(self.logits(terms, theta))[1] for _, terms, _ in self.blocks()]

    def curve(self, probabilities: list[Floats], precision: Floats, direction: Floats) -> Floats:
        """Return the Hessian of F times a direction: sum_i w_i J_i' (diag q_i - q_i q_i') J_i d, and the penalty.

        The q are the `probabilities` at the point of the Hessian, which are the same for all directions.
        """
        product = precision * direction
        for (_, terms, labels), q in zip(self.blocks(), probabilities, strict=True):
            moved = self.logits(terms, direction) - terms.x
            moved -= row_sums(q * moved)[:, None]
            moved *= q
            moved *= labels.weight[:, None]
            product += self._project(terms, moved)
        return product

    def _project(self, terms: Terms, r: Floats) -> Floats:
        """Return sum_i J_i' r_i, J the derivative of the logits of a row by theta."""
        total = np.empty(self.size)
        common, own, matrix = self.split(total)
        common[: self.factors] = terms.factors.T @ row_sums(r * terms.x)
        for number, s in enumerate(terms.common, start=self.factors):
            common[number] = np.vdot(r, s)
        for sums, d in zip(own, terms.own, strict=True):
            np.sum(r * d, axis=0, out=sums)
        if matrix is not None:
            np.matmul(r.T, terms.x, out=matrix)
        return total

    def project_each(self, local: Floats, x: Floats, r: Floats) -> Floats:
        """Return J_i' r_i of each row, (size, rows), from its `Terms.columns` and r, (k, rows)."""
        (k, n), m, at = r.shape, self.commons, self.commons + self.own * self.classes
        out = np.empty((self.size, n))
        np.einsum("kmn,kn->mn", local[:, :m], r, out=out[:m])
        np.multiply(local[:, m:].transpose(1, 0, 2), r, out=out[m:at].reshape(self.own, k, n))
        if self.mixed:
            np.multiply(r[:, None], x, out=out[at:].reshape(k, k, n))
        return out

    def move(self, local: Floats, x: Floats, change: Floats) -> Floats:
        """Return J_i delta_i, (k, rows), the change of the logits of rows by a change of theta for each of them."""
        (k, n), m, at = x.shape, self.commons, self.commons + self.own * self.classes
        f = np.einsum("kmn,mn->kn", local[:, :m], change[:m])
        f += np.einsum("kgn,gkn->kn", local[:, m:], change[m:at].reshape(self.own, k, n))
        if self.mixed:
            f += np.einsum("cjn,jn->cn", change[at:].reshape(k, k, n), x)
        return np.asarray(f)

    def hessian(self, theta: Floats) -> Floats:
        """Return the Hessian of the likelihood, sum_i w_i J_i' (diag q_i - q_i q_i') J_i."""
        k, m, g, size = self.classes, self.commons, self.own, self.size
        wide = k if self.mixed else 0

        def look(terms: Terms, labels: Labels) -> tuple[Floats, ...]:
            """Return the sums over a block: of J_i' q_i, of the columns of J_i but M's, of these and x_i, of x_i."""
            means, gram = np.zeros((size, size)), np.zeros((k, m + g, m + g))
            cross, squares = np.zeros((k, m + g, wide)), np.zeros((k, wide, wide))
            for some, mine in self.narrow(terms, labels):
                q = np.ascontiguousarray(_softmax(self.logits(some, theta))[1].T)
                local, x = some.columns()
                root = np.sqrt(mine.weight)
                local *= root
                x *= root
                mean = self.project_each(local, x, q)
                means += mean @ mean.T
                weighted = local * q[:, None]
                gram += weighted @ local.transpose(0, 2, 1)
                if self.mixed:
                    cross += weighted @ x.T
                    squares += (mean[size - k * k :] @ x.T).reshape(k, k, k)
            return means, gram, cross, squares

        sums = self.read(look, len(self.labels) * float(size) ** 2)
        means, gram, cross, squares = next(sums)
        for parts in sums:
            for total, part in zip((means, gram, cross, squares), parts, strict=True):
                total += part
            del parts, part  # before the next are begun
        found, first = np.negative(means, out=means), m + g * k  # first: where M begins
        each = np.arange(k)
        place = [m + number * k + each for number in range(g)]  # where the own terms of all classes are
        found[:m, :m] += gram[:, :m, :m].sum(axis=0)
        for j in range(g):
            found[:m, place[j]] += gram[:, :m, m + j].T
            for i in range(j + 1):
                found[place[i], place[j]] += gram[:, m + i, m + j]
        if self.mixed:
            found[:m, first:] += cross[:, :m].transpose(1, 0, 2).reshape(m, k * k)
            for i in range(g):
                found[place[i][:, None], first + each[:, None] * k + each] += cross[:, m + i]
            for c in range(k):
                at = slice(first + c * k, first + (c + 1) * k)
                found[at, at] += squares[c]
        upper = np.triu(found)
        return np.asarray(upper + np.triu(upper, 1).T)

    def narrow(self, terms: Terms, labels: Labels) -> Iterator[tuple[Terms, Labels]]:
        """Yield so few rows of a block at once that arrays with a column per coefficient stay small."""
        step = max(_TUNING.deep, _TUNING.wide // max(self.size, self.classes * (self.commons + self.own)))
        for start in range(0, len(labels), step):
            some = slice(start, start + step)
            yield terms.part(some), labels.part(some)


def _softmax(f: Floats) -> tuple[Floats, Floats]:
    """Return log q and q, the first in the memory of f."""
    f -= f.max(axis=1, keepdims=True)
    q = np.exp(f)
    total = row_sums(q)
    q /= total[:, None]
    f -= np.log(total)[:, None]
    return f, q


def _factor(hessian: Floats) -> Floats:
    """Return the lower Cholesky factor of a Hessian; of one that is singular to rounding, with that much added.

    Where weights are huge, a direction to which only the penalty objects, such as one number added to all biases, is
    lost in the rounding of the others.
    """
    diagonal, places = np.diagonal(hessian).copy(), np.diag_indices_from(hessian)
    for added in (0.0, *(10.0**power for power in range(-15, -9))):
        hessian[places] = diagonal * (1.0 + added)
        with suppress(linalg.LinAlgError):
            return np.asarray(linalg.cholesky(hessian, lower=True, check_finite=False))
    msg = "the scores or weights are beyond double precision: the Hessian has no Cholesky factor; divide them"
    raise RuntimeError(msg)


@dataclass(frozen=True, slots=True)
class Dense:
    """The inverse of the penalised Hessian, by its Cholesky factor."""

    factor: Floats  # lower
    curvature: Floats  # the Hessian without the penalty

    @classmethod
    def at(cls, problem: Problem, theta: Floats, precision: Floats) -> Dense:
        """Return it at some coefficients."""
        return cls.of(problem.hessian(theta), precision)

    @classmethod
    def of(cls, curvature: Floats, precision: Floats) -> Dense:
        """Return it from the Hessian without the penalty."""
        hessian = curvature.copy()
        hessian[np.diag_indices_from(hessian)] += precision
        return cls(_factor(hessian), curvature)

    def solve(self, right: Floats) -> Floats:
        """Return H^-1 right."""
        return np.asarray(linalg.cho_solve((self.factor, True), right, check_finite=False))

    def invert(self) -> Floats:
        """Return H^-1."""
        lower = self._invert_lower()
        return np.asarray(lower + np.tril(lower, -1).T)

    def diagonal(self) -> Floats:
        """Return the diagonal of the inverse."""
        return np.diagonal(self._invert_lower()).copy()

    def _invert_lower(self) -> Floats:
        """Return the lower triangle of H^-1; on busy processors two BLAS threads took a second for 303 coefficients."""
        with one_blas_thread():
            return np.asarray(np.tril(linalg.lapack.dpotri(self.factor, lower=1)[0]))

    def leave_out(self, problem: Problem, theta: Floats) -> Floats:
        """Return the probability of each case of the labels, approximately as if its row had been left out of the fit.

        It is the softmax of f_i + J_i H^-1 J_i' (q_i - t_i), the infinitesimal jackknife. One count of a row is left
        out, and the whole row if it counts less than 1.
        """
        inverse = self.invert()  # a product with it takes half the time of solving for so many rows

        def leave(terms: Terms, labels: Labels) -> Floats:
            """Return those of a block of rows."""
            out = []
            for some, mine in problem.narrow(terms, labels):
                f = problem.logits(some, theta)
                r = mine.residuals(_softmax(f.copy())[1])
                r *= np.minimum(mine.weight, 1.0)[:, None]
                local, x = some.columns()
                f += problem.move(local, x, inverse @ problem.project_each(local, x, r.T)).T
                row, which, _ = mine.cases()
                out.append(_softmax(f)[1][row, which])
            return np.concatenate(out)

        with one_blas_thread():
            return np.concatenate(list(problem.read(leave, len(problem.labels) * float(problem.size) ** 2)))


@dataclass(frozen=True, slots=True)
class _Spectrum:
    """The eigenvalues, none below 0 by rounding, and the eigenvectors of a semidefinite matrix."""

    eigenvalues: Floats
    eigenvectors: Floats

    @classmethod
    def of(cls, symmetric: Floats) -> _Spectrum:
        """Return them."""
        values, vectors = np.linalg.eigh(symmetric)
        return cls(np.maximum(values, 0.0), vectors)


def _multiply(left: Floats, middle: Floats, right: Floats) -> Floats:
    """Return the product of three square matrices; two threads take half of the rows each where they are large."""
    k = len(left)
    out = np.empty((k, k))

    def work(rows: slice) -> None:
        """Compute some rows."""
        np.matmul(left[rows] @ middle, right, out=out[rows])

    large = k**3 >= _TUNING.threaded
    for _ in run_in_turn(work, [slice(k // 2), slice(k // 2, k)] if large else [slice(k)], 2 if large else 1):
        pass
    return out


@dataclass(frozen=True, slots=True)
class _Kronecker:
    """An approximate inverse of the penalised Hessian of M, sum_i w_i C_i x x_i x_i' + l, C_i = diag q_i - q_i q_i'.

    The sum is taken for the Kronecker product of A = sum w_i C_i/sum w_i tr C_i and S = sum w_i tr C_i x_i x_i', which
    keeps its trace. With A = U diag(alpha) U', S = V diag(s) V' the inverse of a G is U ((U' G V)/(alpha s' + l)) V'.
    """

    left: _Spectrum  # of A
    right: _Spectrum  # of S
    penalty: float

    @property
    def eigenvalues(self) -> Floats:
        """Those of the sum: alpha s' + l."""
        found = np.outer(self.left.eigenvalues, self.right.eigenvalues)
        found += self.penalty
        return found

    def solve(self, gradient: Floats) -> Floats:
        """Return the approximate inverse times a vector."""
        u, v = self.left.eigenvectors, self.right.eigenvectors
        turned = _multiply(u.T, gradient.reshape(len(u), len(v)), v)
        turned /= self.eigenvalues
        return _multiply(u, turned, v.T).ravel()

    def diagonal(self) -> Floats:
        """Return the diagonal of the approximate inverse."""
        u, v = self.left.eigenvectors, self.right.eigenvectors
        return np.asarray((u**2 @ (1.0 / self.eigenvalues) @ (v**2).T).ravel())

    def move(self, x: Floats, r: Floats) -> Floats:
        """Return the change of the logits of each row by the inverse times its own gradient r x'."""
        u, v = self.left.eigenvectors, self.right.eigenvectors
        return np.asarray(((r @ u) * ((x @ v) ** 2 @ (1.0 / self.eigenvalues).T)) @ u.T)


@dataclass(frozen=True, slots=True)
class Blocks:
    """An approximate inverse of the penalised Hessian: common terms, each class's own terms, and M by themselves.

    Without common terms, moves of the own terms of all classes alike take their place: the loss bends far less along
    these than along each by itself, not at all where all biases move.
    """

    common: Floats  # (m, m), inverse, or (g, g) where m = 0
    own: Floats  # (k, g, g), inverses
    matrix: _Kronecker | None
    curvature: _Curvature

    @classmethod
    def at(cls, problem: Problem, theta: Floats, precision: Floats) -> Blocks:
        """Return it at some coefficients."""
        return _survey(problem, theta)[2].invert(precision)

    def solve(self, gradient: Floats) -> Floats:
        """Return the approximate inverse times a vector."""
        m, (k, g) = self.curvature.commons, self.own.shape[:2]
        at = m + g * k
        common, alike = self.solve_together(gradient)
        own = np.einsum("kgh,hk->gk", self.own, gradient[m:at].reshape(g, k)) + alike
        parts = [common, own.ravel()]
        if self.matrix is not None:
            parts.append(self.matrix.solve(gradient[at:]))
        return np.concatenate(parts)

    def solve_together(self, gradient: Floats) -> tuple[Floats, Floats]:
        """Return the same for the common terms, and what it adds to the own terms of all classes alike, (g, 1)."""
        m, (k, g) = self.curvature.commons, self.own.shape[:2]
        if m:
            return np.asarray(self.common @ gradient[:m]), np.zeros((g, 1))
        return gradient[:0], (self.common @ gradient[: g * k].reshape(g, k).sum(axis=1))[:, None]

    def diagonal(self) -> Floats:
        """Return the diagonal of the approximate inverse."""
        common, own = np.diagonal(self.common), np.diagonal(self.own, axis1=1, axis2=2).T
        parts = [common, own.ravel()] if self.curvature.commons else [(own + common[:, None]).ravel()]
        if self.matrix is not None:
            parts.append(self.matrix.diagonal())
        return np.concatenate(parts)

    def leave_out(self, problem: Problem, theta: Floats) -> Floats:
        """Return the probability of each case of the labels, roughly as if its row had been left out of the fit."""

        def leave(terms: Terms, labels: Labels) -> Floats:
            """Return those of a block of rows."""
            f = problem.logits(terms, theta)
            r = labels.residuals(_softmax(f.copy())[1])
            r *= np.minimum(labels.weight, 1.0)[:, None]
            shares = terms.together()
            moved = (
                np.array([row_sums(r * each) for each in shares]).T @ self.common if shares else np.zeros((len(f), 0))
            )
            for number, each in enumerate(shares):
                f += moved[:, number, None] * each
            for i, one in enumerate(terms.own):
                f += one * sum(r * two * self.own[:, i, j] for j, two in enumerate(terms.own))
            if self.matrix is not None:
                f += self.matrix.move(terms.x, r)
            row, which, _ = labels.cases()
            return np.asarray(_softmax(f)[1][row, which])

        with one_blas_thread():
            return np.concatenate(list(problem.read(leave)))


@dataclass(frozen=True, slots=True)
class _Classes:
    """An approximate inverse of the penalised Hessian from the block of each class, its own terms and its row of M.

    Let C = diag q - q q' be the curvature of one row, D its diagonal, q_c (1 - q_c). The eigenvalues of D^-1 C are 0,
    where all logits move alike, and from 1 to 2. So, of the blocks, too, those differ little that move no class like
    all others. Moves u of all rows of M alike meet the penalty L alone; they are solved for by themselves, and the
    blocks for what is left. Unlike that of a Kronecker product the scale is right where each row has a few classes to
    choose from, others than the next: 10 to 30 conjugate gradients where that takes thousands, at scores to 1e-300.
    """

    blocks: Blocks  # of the common terms
    each: Floats  # (k, g + k, g + k), inverses
    penalty: Floats  # (k, k), L of M

    @classmethod
    def fit(cls, problem: Problem) -> bool:
        """Return whether there is a matrix, and all blocks fit into the memory for them."""
        return problem.mixed and problem.classes * (problem.own + problem.classes) ** 2 <= _TUNING.class_numbers

    @classmethod
    def at(cls, problem: Problem, theta: Floats, precision: Floats, blocks: Blocks) -> _Classes:
        """Return it at some coefficients."""
        k, g, m = problem.classes, problem.own, problem.commons
        each = np.zeros((k, g + k, g + k))
        for _, terms, labels in problem.blocks():
            q = _softmax(problem.logits(terms, theta))[1]
            root = np.sqrt(q * (1.0 - q) * labels.weight[:, None])
            for c, block in enumerate(each):
                columns = np.column_stack([*(one[:, c] for one in terms.own), terms.x])
                columns *= root[:, c, None]
                block += columns.T @ columns
        own, penalty = precision[m : m + g * k].reshape(g, k), precision[m + g * k :].reshape(k, k)
        for c, block in enumerate(each):
            block[:] = Dense.of(block, np.concatenate([own[:, c], penalty[c]])).invert()
        return cls(blocks, each, penalty)

    def solve(self, gradient: Floats) -> Floats:
        """Return the approximate inverse times a vector."""
        m, k = self.blocks.curvature.commons, len(self.penalty)
        g = self.each.shape[1] - k
        total = self.penalty.sum(axis=0)
        slopes = gradient[m + g * k :].reshape(k, k)
        alike = slopes.sum(axis=0) / total
        right = np.concatenate([gradient[m : m + g * k].reshape(g, k).T, slopes - self.penalty * alike], axis=1)
        moved = (self.each @ right[:, :, None])[:, :, 0]
        matrix = moved[:, g:]
        matrix += alike - (self.penalty * matrix).sum(axis=0) / total
        common, own = self.blocks.solve_together(gradient)
        return np.concatenate([common, (moved[:, :g].T + own).ravel(), matrix.ravel()])


@dataclass(frozen=True, slots=True)
class _Curvature:
    """Blocks of the Hessian of the loss without the penalty: common terms, each class's own, and A and S of M."""

    commons: int  # m
    common: Floats  # (m, m), or (g, g) where m = 0
    own: Floats  # (k, g, g)
    left: _Spectrum | None  # of A
    right: _Spectrum | None  # of S

    def invert(self, precision: Floats) -> Blocks:
        """Return the inverse of the blocks with a penalty."""
        m, (k, g) = self.commons, self.own.shape[:2]
        own, each = self.own.copy(), precision[m : m + g * k].reshape(g, k)
        own[:, np.arange(g), np.arange(g)] += each.T
        common = self.common + np.diag(precision[:m] if m else each.sum(axis=1))
        matrix = None
        if self.left is not None and self.right is not None:
            penalty = float(precision[m + g * k :].reshape(k, k)[0, 1 % k])
            matrix = _Kronecker(self.left, self.right, penalty)
        return Blocks(np.asarray(np.linalg.inv(common)), np.asarray(np.linalg.inv(own)), matrix, self)


def _survey(problem: Problem, theta: Floats) -> tuple[float, Floats, _Curvature]:
    """Return the loss without the penalty, its gradient and its curvature, by one pass over the rows."""
    k, g = problem.classes, problem.own
    m = problem.commons or g
    sums: list[Any] = [0.0, np.zeros(problem.size), np.zeros((m, m)), np.zeros((g, g, k))]
    sums += [np.zeros((k, k)), np.zeros((k, k)), np.zeros(k), 0.0] if problem.mixed else []

    def look(terms: Terms, labels: Labels) -> tuple[Any, ...]:
        """Return the parts of a block of rows."""
        w = labels.weight
        logs, q = _softmax(problem.logits(terms, theta))
        loss = -labels.likelihood(logs)
        shares = terms.together()
        qw = np.multiply(q, w[:, None], out=logs)
        means = np.array([row_sums(q * each) for each in shares]).reshape(m, len(w))
        common = -(means * w) @ means.T
        for i, one in enumerate(shares):
            weighted = qw * one
            for j in range(i, m):
                part = np.vdot(weighted, shares[j])
                common[i, j] += part
                common[j, i] += part if j > i else 0.0
        del shares
        bend = qw * (1.0 - q)
        own = np.empty((g, g, k))
        for i, one in enumerate(terms.own):
            weighted = bend * one
            for j in range(i, g):
                own[i, j] = own[j, i] = (weighted * terms.own[j]).sum(axis=0)
        found: list[Any] = [loss, None, common, own]
        if problem.mixed:
            diagonal = qw.sum(axis=0)
            t = w * np.maximum(1.0 - row_sums(q * q), 0.0)  # a confident row has large logits and little curvature
            root = np.multiply(q, np.sqrt(w)[:, None], out=bend)
            left = root.T @ root
            np.multiply(terms.x, np.sqrt(t)[:, None], out=root)
            found += [left, root.T @ root, diagonal, float(t.sum())]
        found[1] = problem.slope(terms, labels, q)
        return tuple(found)

    for parts in problem.read(look):
        for number, part in enumerate(parts):
            sums[number] += part
        del parts, part  # before the next are begun
    value, gradient, common, own, *rest = sums
    spectra: list[_Spectrum | None] = [None, None]
    if problem.mixed:
        left, right, diagonal, traces = rest
        np.negative(left, out=left)
        left[np.diag_indices(k)] += diagonal
        left /= max(traces, 1e-300)
        spectra = list(run_in_turn(_Spectrum.of, [left, right], 2 if k**3 >= _TUNING.threaded else 1))
    return value, gradient, _Curvature(problem.commons, common, own.transpose(2, 0, 1).copy(), *spectra)


@dataclass(frozen=True, slots=True)
class Minimum:
    """Coefficients, F there, the Newton decrement g' H^-1 g they passed, and the (approximate) inverse Hessian.

    `loss` and `slope` are F and its gradient without the penalty.
    """

    theta: Floats
    value: float
    decrement: float
    inverse: Dense | Blocks
    loss: float
    slope: Floats

    @classmethod
    def of(
        cls,
        theta: Floats,
        value: float,
        gradient: Floats,
        precision: Floats,
        decrement: float,
        inverse: Dense | Blocks,
    ) -> Minimum:
        """Return it from F and its gradient, whose memory is used."""
        penalty = precision * theta
        gradient -= penalty
        return cls(theta, value, decrement, inverse, value - 0.5 * float(penalty @ theta), gradient)


def _penalise(theta: Floats, precision: Floats, loss: float, slope: Floats) -> tuple[float, Floats]:
    """Return F and its gradient from those without the penalty."""
    gradient = precision * theta
    value = loss + 0.5 * float(gradient @ theta)
    gradient += slope
    return value, gradient


def minimise(problem: Problem, precision: Floats, start: Floats | Minimum, steps: int | None = None) -> Minimum:
    """Return the minimum of F; with `steps`, a point on the way to it after so many of them at most.

    It starts at some coefficients, or at the minimum of the same problem with other lambda, of which it keeps what it
    can.
    """
    with one_blas_thread():  # the blocks of rows have threads
        if problem.is_dense:
            return _newton(problem, precision, start, steps)
        found = _lbfgs(problem, precision, start, steps or _TUNING.lbfgs_steps)
        if steps is not None:
            return found
        enough = _TUNING.rough_decrement * problem.labels.total
        for _ in range(_TUNING.lbfgs_scales):
            if found.decrement <= enough:
                return found
            found = _lbfgs(problem, precision, found.theta, _TUNING.lbfgs_steps)
        if problem.size > _TUNING.dense_last:
            return _newton_cg(problem, precision, found, enough)
        return _newton(problem, precision, found, None)


def _newton(problem: Problem, precision: Floats, start: Floats | Minimum, steps: int | None) -> Minimum:
    """Take damped Newton steps until the decrement is below the rounding that matters.

    A Hessian serves as long as it is alike that of the point: as each step leaves a small share of the decrement. The
    last of a number of `steps` has that of its own point.
    """
    enough = _TUNING.decrement * problem.labels.total
    inverse: Dense | None = None
    if isinstance(start, Minimum):
        theta, (value, gradient) = start.theta, _penalise(start.theta, precision, start.loss, start.slope)
        if isinstance(start.inverse, Dense):
            inverse = Dense.of(start.inverse.curvature, precision)
    else:
        theta, (value, gradient) = start, problem.evaluate(start, precision)
    limit, known = np.inf, False  # a larger decrement shows that the Hessian of another point is not alike
    for number in range(1, 1 + (steps or _TUNING.newton_steps)):
        step = None if inverse is None else inverse.solve(gradient)
        if step is None or number == steps or float(gradient @ step) > limit:
            inverse, known = Dense.at(problem, theta, precision), True
            step = inverse.solve(gradient)
        decrement = float(gradient @ step)
        theta, value, gradient, _ = _search(problem, precision, theta, value, gradient, -step)
        if decrement <= enough and known:
            break
        limit, known = _TUNING.alike * decrement, True
    else:
        if steps is None:
            raise RuntimeError(_UNFINISHED.format(_TUNING.newton_steps))
    assert inverse is not None
    return Minimum.of(theta, value, gradient, precision, decrement, inverse)


def _lbfgs(problem: Problem, precision: Floats, start: Floats | Minimum, steps: int) -> Minimum:
    """Take L-BFGS steps (Nocedal 1980) on the scale of the block approximation at the start."""
    enough = _TUNING.rough_decrement * problem.labels.total
    if isinstance(start, Minimum) and isinstance(start.inverse, Blocks):
        theta, loss, slope, curvature = start.theta, start.loss, start.slope, start.inverse.curvature
    else:
        theta = start.theta if isinstance(start, Minimum) else start
        loss, slope, curvature = _survey(problem, theta)
    value, gradient = _penalise(theta, precision, loss, slope)
    inverse = curvature.invert(precision)
    solved = inverse.solve(gradient)
    decrement = float(gradient @ solved)
    most = min(_TUNING.memory, max(_TUNING.least_memory, _TUNING.memory_numbers // problem.size))
    pairs: list[tuple[Floats, Floats, Floats, float]] = []  # s, y, and y on the scale, which no step solves again
    for _ in range(steps):
        rest, step, shares = gradient.copy(), solved.copy(), []
        for s, y, scaled, sy in reversed(pairs):
            shares.append(float(s @ rest) / sy)
            rest -= shares[-1] * y
            step -= shares[-1] * scaled
        for (s, y, _, sy), share in zip(pairs, reversed(shares), strict=True):
            step += (share - float(y @ step) / sy) * s
        del rest  # each of these is as large as M
        decrement = max(decrement, float(gradient @ step))  # steps tell where it bends less
        if decrement <= enough:
            break
        new, value, slope, moved = _search(problem, precision, theta, value, gradient, np.negative(step, out=step))
        if not moved:
            break
        s, y, after = new - theta, slope - gradient, inverse.solve(slope)
        pairs = [*pairs[1 - most :], (s, y, after - solved, float(s @ y))]
        theta, gradient, solved = new, slope, after
        decrement = float(gradient @ solved)
    return Minimum.of(theta, value, gradient, precision, decrement, inverse)


def _newton_cg(problem: Problem, precision: Floats, start: Minimum, enough: float) -> Minimum:
    """Take Newton steps solved by conjugate gradients: for large problems on which L-BFGS is too slow.

    A step x that leaves the residual r = g - H x shows that the decrement is g'x + x'r + r' H^-1 r. H is not below the
    penalty: with that in its place the last term is a bound, which the last step has to pass, whatever its scale.
    """
    theta, (value, gradient) = start.theta, _penalise(start.theta, precision, start.loss, start.slope)
    for _ in range(_TUNING.cg_newton_steps):
        inverse, probabilities = Blocks.at(problem, theta, precision), problem.probabilities(theta)
        scale = _Classes.at(problem, theta, precision, inverse) if _Classes.fit(problem) else inverse
        step, rest = np.zeros_like(theta), gradient.copy()
        solved = scale.solve(rest)
        direction, size = solved, float(rest @ solved)
        first = size
        for _ in range(_TUNING.cg_steps):
            curved = problem.curve(probabilities, precision, direction)
            length = size / float(direction @ curved)
            step += length * direction
            rest -= length * curved
            solved = scale.solve(rest)
            size, last = float(rest @ solved), size
            found = float(gradient @ step)
            decrement = found + float(step @ rest) + float(rest @ (rest / precision))
            if size <= _TUNING.cg_rest**2 * first and (found > enough or decrement <= enough):
                break
            direction = solved + (size / last) * direction
        theta, value, gradient, _ = _search(problem, precision, theta, value, gradient, -step)
        if decrement <= enough:
            return Minimum.of(theta, value, gradient, precision, decrement, inverse)
    raise RuntimeError(_UNFINISHED.format(_TUNING.cg_newton_steps))


def _search(
    problem: Problem, precision: Floats, theta: Floats, value: float, gradient: Floats, step: Floats
) -> tuple[Floats, float, Floats, bool]:
    """Return the first point on a step, halved as often as needed, that lowers F enough; else the same point."""
    slope = float(gradient @ step)
    rounding = 1e-14 * abs(value)
    length = 1.0
    for _ in range(_TUNING.halvings):
        new = length * step
        new += theta
        found, there = problem.evaluate(new, precision)
        if found <= value + _TUNING.armijo * length * slope + rounding:
            return new, found, there, True
        length *= 0.5
    return theta, value, gradient, False
