"""The two forms of a kernel matrix that solvers use: products K v, and a factor of low rank."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Floats, Index
from calibrant.kernels.functions import Gram, Workers, blocks
from calibrant.kernels.settings import SETTINGS, Settings
from calibrant.numerics.blas import blas_controller

__all__ = [
    "Factor",
    "Products",
    "coefficients_of",
    "column_products",
    "invert_lower",
    "is_complete",
    "pivoted_cholesky",
    "rows_of",
    "threads",
    "with_workers",
]


_STEP = 1.0 / 65_535.0  # resolution of kernels between 0 and 1 that are stored as 16-bit integers
_ROUNDING = {  # by precision: smallest share of the trace, and of the largest diagonal entry, that is not rounding
    np.dtype(np.float32): (3e-6, 1e-5),
    np.dtype(np.float64): (1e-13, 1e-12),
}


class Products:
    """Products K v from tiles of the upper triangle of K.

    As many tiles as `memory` bytes hold are stored; the others are computed again for each product. All tiles take
    2 n^2 bytes in single precision and 4 n^2 in double precision. With `coarse`, kernels of single precision, which are
    between 0 and 1, are stored as multiples of 1/65535, in n^2 bytes, where they would take more than a quarter of the
    memory: memory that was never used before costs about as much time as a kernel. Sums over tiles are in double
    precision. Rows are tiled in the given order.
    """

    __slots__ = ("block", "error", "gram", "in_steps", "known", "order", "pack", "places", "stored", "tile", "tiles")

    def __init__(
        self,
        gram: Gram,
        memory: float,
        order: Index | None = None,
        *,
        coarse: bool = False,
        settings: Settings = SETTINGS,
    ) -> None:
        self.gram, self.tile, self.pack = gram, min(gram.n, settings.tile), settings.tiles_per_array
        self.order = np.arange(gram.n) if order is None else order
        self.block = gram.block if order is None else gram.reorder(order)
        self.tiles = blocks(gram.n, self.tile)
        # Places of the upper triangle, column by column: the tiles among the first rows come first.
        self.places = [(i, j) for j in range(len(self.tiles)) for i in range(j + 1)]
        size = self.tile**2 * len(self.places)
        self.in_steps = coarse and gram.dtype == np.float32 and memory < 16 * size
        dtype = np.dtype(np.uint16 if self.in_steps else gram.dtype)
        self.error = 0.3 * _STEP if self.in_steps else 0.5 * float(np.finfo(gram.dtype).eps)  # typical of one kernel
        room = int(memory // (dtype.itemsize * self.tile**2))
        self.known = np.zeros(min(room, len(self.places)), bool)
        # Many tiles share one array: large arrays get large memory pages, which saves a third of the time.
        packs = blocks(len(self.known), self.pack)
        self.stored = [np.empty((pack.stop - pack.start, self.tile, self.tile), dtype) for pack in packs]

    def __call__(self, v: Floats, first: int = 0, last: int | None = None) -> Floats:
        """Return K v, v of shape (n,) or (n, k), at the rows of tiles `first` to `last` and 0 at the other rows.

        Tiles that meet only zeros of v are skipped.
        """
        ordered = v[self.order].astype(self.gram.dtype)
        nonzero = [bool(ordered[rows].any()) for rows in self.tiles]
        wanted = [first <= i < (len(nonzero) if last is None else last) for i in range(len(nonzero))]
        numbers = [
            n for n, (i, j) in enumerate(self.places) if (wanted[i] and nonzero[j]) or (wanted[j] and nonzero[i])
        ]

        def add_up(numbers: Sequence[int]) -> Floats:
            total, buffer = np.zeros(v.shape), np.empty((self.tile, self.tile), self.gram.dtype)
            units = ordered, ordered * ordered.dtype.type(_STEP)
            for number in numbers:
                i, j = self.places[number]
                (tile, in_steps), above, beside = self._tile(number, buffer), self.tiles[i], self.tiles[j]
                u = units[in_steps]
                if wanted[i]:
                    total[above] += tile @ u[beside]
                if i != j and wanted[j]:
                    total[beside] += (u[above].T @ tile).T  # in this order three times as fast for several columns
            return total

        out = np.empty(v.shape)
        out[self.order] = sum(self.gram.workers.map(add_up, self.gram.workers.split(numbers)))
        return out

    def _tile(self, number: int, buffer: NDArray[Any]) -> tuple[NDArray[Any], bool]:
        """Return a tile, from the store or computed in the buffer, and whether its numbers are in steps."""
        i, j = (self.tiles[place] for place in self.places[number])
        shape = np.s_[: i.stop - i.start, : j.stop - j.start]
        if number >= len(self.known):
            return self.block(i, j, buffer[shape]), False
        stored = self.stored[number // self.pack][number % self.pack][shape]
        known = bool(self.known[number])
        if not self.in_steps:
            computed = stored if known else self.block(i, j, stored)
            if computed is not stored:
                stored[...] = computed
            self.known[number] = True
            return stored, False
        tile = buffer[shape]
        if known:
            np.copyto(tile, stored)
        else:  # the tile that was just computed is returned without rounding
            tile = self.block(i, j, tile)
            tile *= 1.0 / _STEP
            np.add(tile, 0.5, out=stored, casting="unsafe")
            self.known[number] = True
        return tile, True


def rows_of(K: Products, tiles: int) -> Index:
    """Return the rows of the first `tiles` tiles, at least one."""
    return K.order[: K.tiles[tiles - 1].stop]


def with_workers(K: Products, workers: Workers) -> Products:
    """Return products with the same stored kernels, computed by other workers."""
    again = copy(K)
    again.gram = replace(K.gram, workers=workers)
    return again


@contextmanager
def threads(rows: int, settings: Settings = SETTINGS) -> Iterator[Workers]:
    """Yield as many workers as BLAS has threads, and limit BLAS to one thread per worker; few rows get one worker."""
    found = blas_controller()
    count = max([library["num_threads"] for library in found.info()], default=1) if found else 1
    one = Workers(columns=settings.columns)
    if count == 1:
        yield one
        return
    with found.limit(limits=1):
        if rows < settings.rows_for_threads:
            yield one
            return
        with ThreadPoolExecutor(count) as pool:
            yield Workers(count, pool.map, settings.columns)


@dataclass(frozen=True, slots=True)
class Factor:
    """A factor of low rank, K = F'F + a rest, from the rows `pivots`.

    `F` has shape (m + 1, n); its last row is ones, for the intercept, and no part of K. `rest` is the diagonal of the
    rest.
    """

    F: NDArray[Any]
    pivots: Index
    rest: Floats

    @property
    def rank(self) -> int:
        """The number of pivots."""
        return len(self.pivots)


def pivoted_cholesky(
    gram: Gram,
    rank: int,
    rng: np.random.Generator,
    start: Factor | None = None,
    importance: Floats | float = 1.0,
) -> Factor:
    """Return a factor of at most this rank by randomly pivoted Cholesky; `start` is a factor to add pivots to.

    A row is drawn as pivot with probability proportional to its entry of the rest's diagonal (Chen, Epperly, Tropp &
    Webber 2024) times its importance. Pivots are proposed in blocks and accepted by rejection sampling, which gives the
    same distribution as drawing one at a time (Epperly et al. 2024). It stops early where the rest is rounding error.
    Cost: n m^2 operations and n m kernels.
    """
    n, done = gram.n, 0 if start is None else start.rank
    if rank >= n and not done:
        return _full_cholesky(gram)
    F = np.empty((rank + 1, n), gram.dtype)
    pivots = np.empty(rank, np.intp)
    rest = gram.diagonal.copy() if start is None else start.rest.copy()
    if start is not None:
        F[:done], pivots[:done] = start.F[:done], start.pivots
    share, smallest = _ROUNDING[np.dtype(gram.dtype)]
    size, tries = int(np.clip(rank // 3, 16, 128)), 0
    while done < rank and tries < 4 and rest.sum() > share * gram.diagonal.sum():
        total = np.cumsum(rest * importance)
        drawn = np.minimum(np.searchsorted(total, rng.random(size) * total[-1]), n - 1)
        chosen, lower = _accept_proposals(gram, F[:done, drawn], drawn, rng, smallest * gram.diagonal.max())
        chosen, lower = chosen[: rank - done], lower[: rank - done, : rank - done]
        tries = 0 if len(chosen) else tries + 1
        if len(chosen):
            new = slice(done, done + len(chosen))
            _append_rows(gram, F, new, drawn[chosen], lower, rest)
            pivots[new], done = drawn[chosen], new.stop
    F[done] = 1.0
    return Factor(F[: done + 1], pivots[:done], rest)


def _full_cholesky(gram: Gram) -> Factor:
    """Return a factor of full rank, by the largest pivot each time until the rest is rounding error."""
    from scipy.linalg import lapack

    every, (_, smallest) = slice(0, gram.n), _ROUNDING[np.dtype(gram.dtype)]
    factorise = lapack.spstrf if gram.dtype == np.float32 else lapack.dpstrf
    upper, order, rank, _ = factorise(gram.block(every, every), tol=smallest * gram.diagonal.max())
    F, pivots = np.ones((rank + 1, gram.n), gram.dtype), np.asarray(order - 1, np.intp)
    F[:rank, pivots] = np.triu(upper)[:rank]
    return Factor(F, pivots[:rank], np.maximum(gram.diagonal - column_products(F[:rank], F[:rank]), 0.0))


def _accept_proposals(
    gram: Gram, known: NDArray[Any], drawn: Index, rng: np.random.Generator, floor: float
) -> tuple[Index, Floats]:
    """Return which proposals are accepted, with probability (rest now)/(rest when drawn), and their Cholesky factor."""
    rest = gram.block(drawn, drawn).astype(np.float64) - known.T.astype(np.float64) @ known
    needed = np.maximum(rng.random(len(drawn)) * rest.diagonal(), floor).tolist()
    upper = np.empty_like(rest)
    accepted: list[int] = []
    for j, least in enumerate(needed):
        own = rest[j, j]
        if own > least:
            row = np.multiply(rest[j], own**-0.5, out=upper[len(accepted)])
            rest -= np.multiply.outer(row, row)
            accepted.append(j)
    chosen = np.array(accepted, np.intp)
    return chosen, np.tril(upper[: len(chosen), chosen].T)


def _append_rows(gram: Gram, F: NDArray[Any], new: slice, pivots: Index, lower: Floats, rest: Floats) -> None:
    """Write the new rows of the factor, L^-1 (K_pivots - F_pivots' F), and subtract their squares from the rest."""
    old, inverse = F[: new.start], invert_lower(lower).astype(F.dtype)
    at_pivots = np.ascontiguousarray(old[:, pivots].T)

    def write(columns: slice) -> None:
        kernel = gram.block(pivots, columns)
        if new.start:
            known = at_pivots @ old[:, columns]
            kernel = np.subtract(kernel, known, out=known)
        rows = np.matmul(inverse, kernel, out=F[new, columns])
        rest[columns] -= column_products(rows, rows)

    gram.workers.map(write, blocks(gram.n, gram.workers.columns))
    np.maximum(rest, 0.0, out=rest)
    rest[pivots] = 0.0


def invert_lower(lower: NDArray[Any]) -> NDArray[Any]:
    """Return L^-1 for the lower triangle L of a matrix."""
    from scipy.linalg import lapack

    invert = lapack.strtri if lower.dtype == np.float32 else lapack.dtrtri
    return np.tril(invert(lower, lower=1)[0])


def column_products(u: NDArray[Any], v: NDArray[Any]) -> NDArray[Any]:
    """Return u_j'v_j for every pair of columns j."""
    return np.asarray(np.einsum("ij,ij->j", u, v))


def coefficients_of(factor: Factor, z: Floats) -> Floats:
    """Return beta with w = sum_j beta_j K(x_j, .), zero except at the pivots, from w's coordinates z in the factor."""
    from scipy.linalg import solve_triangular

    beta = np.zeros((factor.F.shape[1], *z.shape[1:]))
    upper = factor.F[: factor.rank, factor.pivots].astype(np.float64)
    beta[factor.pivots] = solve_triangular(upper, z, lower=False, check_finite=False)
    return beta


def is_complete(gram: Gram, factor: Factor) -> bool:
    """Return whether the factor is the whole kernel, but for a negligible rest."""
    return float(factor.rest.sum()) <= 1e-6 * float(gram.diagonal.sum())
