"""The two forms in which solvers meet a kernel matrix: as products K v, and as a factor of low rank."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Floats, Index
from calibrant.kernels.functions import Each, Gram, blocks, in_turn

__all__ = [
    "COLUMNS",
    "DENSE",
    "Factor",
    "Products",
    "Tiles",
    "Whole",
    "by_column",
    "coefficients",
    "inverse_of",
    "pivoted_cholesky",
    "products",
    "rows_of",
    "shared",
    "threads",
]


_TILE = 512  # rows: a tile of single precision stays in the second-level cache while it is used twice
DENSE = 2_200  # rows up to which the matrix is one array if they are in their own order
COLUMNS = 2_048  # of a factor, worked on at a time
_STEP = 1.0 / 65_535.0  # in which kernels between 0 and 1 can be kept
_MANY = 30_000  # rows from which that pays: with fewer it takes as much time as it saves in fetching memory
_PACK = 24  # tiles in one array: the store of the process hands out up to 32 MB again without asking the system
_SHARED = 3_000  # rows from which work is shared among threads
_TRIES = 4  # empty rounds after which the residual is rounding only
_FINE = {np.dtype(np.float32): (3e-6, 1e-5), np.dtype(np.float64): (1e-13, 1e-12)}  # share of the trace, of a pivot


class Tiles:
    """Products K v, from tiles of the upper triangle: as many as `memory` bytes hold are kept, the others made anew.

    All of them are 2 n^2 bytes in single precision and 4 n^2 in double. If `coarse` ones will do, kernels in single
    precision, which are between 0 and 1, are kept in steps of 1/65535 where there are many: n^2 bytes; a tile just
    computed is not rounded. Sums over tiles are in double precision. Rows are tiled in the given order. Where the tiles
    between the first `busy` of them are less than half of all, only they are kept.
    """

    __slots__ = ("block", "gram", "kept", "known", "order", "places", "steps", "tiles")

    def __init__(
        self,
        gram: Gram,
        memory: float,
        order: Index | None = None,
        busy: int | None = None,
        *,
        coarse: bool = False,
    ) -> None:
        self.gram = gram
        self.order = np.arange(gram.n) if order is None else order
        self.block = gram.block if order is None else gram.arranged(order)
        self.tiles = blocks(gram.n, _TILE)
        self.places = list(_pairs(len(self.tiles)))
        self.steps = coarse and gram.dtype == np.float32 and gram.n >= _MANY
        dtype = np.dtype(np.uint16 if self.steps else gram.dtype)
        room = int(memory // (dtype.itemsize * _TILE * _TILE))
        among = sum(j * _TILE < (gram.n if busy is None else busy) for _, j in self.places)
        worth = among if 2 * among < len(self.places) else len(self.places)
        self.known = np.zeros(min(room, worth), bool)
        # Many tiles in one array: the system hands out large arrays in large pages, which saves a third of the time.
        packs = blocks(len(self.known), _PACK)
        self.kept = [np.empty((pack.stop - pack.start, _TILE, _TILE), dtype) for pack in packs]

    def __call__(self, v: Floats, first: int = 0, last: int | None = None) -> Floats:
        """Return K v, v of shape (n,) or (n, k), at the rows of some tiles and 0 elsewhere; zeros of v cost nothing."""
        ordered = v[self.order].astype(self.gram.dtype)
        there = [bool(ordered[rows].any()) for rows in self.tiles]
        asked = [first <= i < (len(there) if last is None else last) for i in range(len(there))]
        numbers = [n for n, (i, j) in enumerate(self.places) if (asked[i] and there[j]) or (asked[j] and there[i])]
        shares = [(share, ordered, asked) for share in self.gram.each.shares(numbers)]
        out = np.empty(v.shape)
        out[self.order] = sum(self.gram.each(self.share, shares))
        return out

    def share(self, task: tuple[list[int], NDArray[Any], list[bool]]) -> Floats:
        """Return what some tiles contribute to K v, in the order of the tiles."""
        numbers, v, asked = task
        out, room, units = np.zeros(v.shape), np.empty((_TILE, _TILE), self.gram.dtype), (v, v * v.dtype.type(_STEP))
        for number in numbers:
            i, j = self.places[number]
            (tile, steps), above, beside = self.tile(number, room), self.tiles[i], self.tiles[j]
            u = units[steps]
            if asked[i]:
                out[above] += tile @ u[beside]
            if i != j and asked[j]:
                out[beside] += tile.T @ u[above]
        return out

    def tile(self, number: int, room: NDArray[Any]) -> tuple[NDArray[Any], bool]:
        """Return a tile, computed in some room or kept, and whether it is in steps."""
        i, j = (self.tiles[place] for place in self.places[number])
        shape = np.s_[: i.stop - i.start, : j.stop - j.start]
        if number >= len(self.known):
            return self.block(i, j, room[shape]), False
        kept = self.kept[number // _PACK][number % _PACK][shape]
        known = bool(self.known[number])
        if not self.steps:
            computed = kept if known else self.block(i, j, kept)
            if computed is not kept:
                kept[...] = computed
            self.known[number] = True
            return kept, False
        tile = room[shape]
        if known:
            np.copyto(tile, kept)
        else:
            tile = self.block(i, j, tile)
            tile *= 1.0 / _STEP
            np.add(tile, 0.5, out=kept, casting="unsafe")
            self.known[number] = True
        return tile, True


class Whole:
    """Products K v with a matrix of few rows in one array, of which BLAS makes twice as much as of tiles.

    It is one tile. What is above its diagonal is enough for one v; for several the rest is filled as well.
    """

    __slots__ = ("gram", "known", "matrix", "order", "tiles")

    def __init__(self, gram: Gram) -> None:
        self.gram, self.order, self.tiles = gram, np.arange(gram.n), [slice(0, gram.n)]
        self.matrix, self.known = np.empty((gram.n, gram.n), gram.dtype), np.zeros(2, bool)

    def __call__(self, v: Floats, first: int = 0, last: int | None = None) -> Floats:
        """Return K v, v of shape (n,) or (n, k), or zeros where no tile is asked for."""
        from scipy.linalg import blas

        if first > 0 or last == 0:
            return np.zeros(v.shape)
        above, u = self.above(), v.astype(self.gram.dtype)
        if v.ndim == 1:
            symv = blas.ssymv if above.dtype == np.float32 else blas.dsymv
            return np.asarray(symv(1.0, above.T, u, lower=1), np.float64)
        matrix, out = self.both(), np.empty(v.shape)

        def fill(rows: slice) -> None:
            out[rows] = matrix[rows] @ u

        self.gram.each(fill, blocks(self.gram.n, -(-self.gram.n // self.gram.each.count)))
        return out

    def above(self) -> NDArray[Any]:
        """Return the matrix, right on and above its diagonal."""

        def fill(rows: slice) -> None:
            place = self.matrix[rows, rows.start :]
            part = self.gram.block(rows, slice(rows.start, self.gram.n), place)
            if part is not place:
                place[...] = part

        if not self.known[0]:
            self.gram.each(fill, blocks(self.gram.n, _TILE))
            self.known[0] = True
        return self.matrix

    def both(self) -> NDArray[Any]:
        """Return the matrix, right below its diagonal as well."""
        if not self.known[1]:
            for rows in blocks(self.gram.n, _TILE):
                self.matrix[rows.stop :, rows] = self.matrix[rows, rows.stop :].T
            self.known[1] = True
        return self.matrix


Products = Tiles | Whole


def products(
    gram: Gram, memory: float, order: Index | None = None, busy: int | None = None, *, coarse: bool = False
) -> Products:
    """Return products with a kernel matrix, of tiles or of few rows in one array."""
    if order is None and gram.n <= DENSE and gram.n**2 * np.dtype(gram.dtype).itemsize <= memory:
        return Whole(gram)
    return Tiles(gram, memory, order, busy, coarse=coarse)


def rows_of(K: Products, tiles: int) -> Index:
    """Return the rows of the first tiles, of one at least."""
    return K.order[: K.tiles[tiles - 1].stop]


def shared(K: Products, each: Each) -> Products:
    """Return the same products, their work done in another way."""
    again = copy(K)
    again.gram = replace(K.gram, each=each)
    return again


@cache
def _controller() -> Any:
    """Return what tells and sets how many threads BLAS uses, or None; looking for it takes some milliseconds."""
    import scipy.linalg  # noqa: F401  # brings its own BLAS, if that is another

    try:
        from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]  # comes with scikit-learn
    except ImportError:
        return None
    return ThreadpoolController().select(user_api="blas")


@contextmanager
def threads(rows: int) -> Iterator[Each]:
    """Give a way to share work among as many threads as BLAS would use, each of which uses BLAS alone.

    Work on few rows is done in turn: handing it over would take longer.
    """
    found = _controller()
    count = max([library["num_threads"] for library in found.info()], default=1) if found else 1
    if count == 1:
        yield in_turn
        return
    with found.limit(limits=1):
        if rows < _SHARED:
            yield in_turn
            return
        with ThreadPoolExecutor(count) as pool:
            yield Each(count, pool.map)


def _pairs(count: int) -> Iterator[tuple[int, int]]:
    """Yield the places of the upper triangle, column by column: those among the first rows come first."""
    return ((i, j) for j in range(count) for i in range(j + 1))


@dataclass(frozen=True, slots=True)
class Factor:
    """K = F'F + rest: `F` of shape (m + 1, n), its last row of ones the intercept, `pivots`, the rest's diagonal."""

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
    """Return a factor of at most this rank by randomly pivoted Cholesky, many pivots at a time, or one of more pivots.

    A pivot is drawn with probability proportional to the rest's diagonal (Chen, Epperly, Tropp & Webber 2024), times
    the rows' importance; blocks of proposals are thinned by rejection, so that the pivots are those of one-at-a-time
    drawing (Epperly et al. 2024). It ends early where the rest is rounding. Cost: n m^2 operations and n m kernels.
    """
    n, done = gram.n, 0 if start is None else start.rank
    if rank >= n and not done:
        return _full_cholesky(gram)
    F = np.empty((rank + 1, n), gram.dtype)
    pivots = np.empty(rank, np.intp)
    rest = gram.diagonal.copy() if start is None else start.rest.copy()
    if start is not None:
        F[:done], pivots[:done] = start.F[:done], start.pivots
    share, fine = _FINE[np.dtype(gram.dtype)]
    size, tries = int(np.clip(rank // 3, 16, 128)), 0
    while done < rank and tries < _TRIES and rest.sum() > share * gram.diagonal.sum():
        drawn = _proposals(rest * importance, size, rng)
        chosen, lower = _thinned(gram, F[:done, drawn], drawn, rng, fine * gram.diagonal.max())
        chosen, lower = chosen[: rank - done], lower[: rank - done, : rank - done]
        tries = 0 if len(chosen) else tries + 1
        if len(chosen):
            new = slice(done, done + len(chosen))
            _append_rows(gram, F, new, drawn[chosen], lower, rest)
            pivots[new], done = drawn[chosen], new.stop
    F[done] = 1.0
    return Factor(F[: done + 1], pivots[:done], rest)


def _full_cholesky(gram: Gram) -> Factor:
    """Return the factor of all of the kernel, by the largest pivots until the rest is rounding."""
    from scipy.linalg import lapack

    every, (_, fine) = slice(0, gram.n), _FINE[np.dtype(gram.dtype)]
    factorise = lapack.spstrf if gram.dtype == np.float32 else lapack.dpstrf
    upper, order, rank, _ = factorise(gram.block(every, every), tol=fine * gram.diagonal.max())
    F, pivots = np.ones((rank + 1, gram.n), gram.dtype), np.asarray(order - 1, np.intp)
    F[:rank, pivots] = np.triu(upper)[:rank]
    return Factor(F, pivots[:rank], np.maximum(gram.diagonal - by_column(F[:rank], F[:rank]), 0.0))


def _proposals(share: Floats, size: int, rng: np.random.Generator) -> Index:
    """Draw rows in proportion to their shares."""
    total = np.cumsum(share)
    return np.asarray(np.minimum(np.searchsorted(total, rng.random(size) * total[-1]), len(share) - 1), np.intp)


def _thinned(
    gram: Gram, known: NDArray[Any], drawn: Index, rng: np.random.Generator, floor: float
) -> tuple[Index, Floats]:
    """Return which proposals are accepted, each with probability (rest now)/(rest when drawn), and their factor."""
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
    """Write the new rows of the factor, L^-1 (K_pivots - F_pivots' F), and take them off the rest."""
    old, inverse = F[: new.start], inverse_of(lower).astype(F.dtype)
    at_pivots = np.ascontiguousarray(old[:, pivots].T)

    def write(columns: slice) -> None:
        kernel = gram.block(pivots, columns)
        if new.start:
            known = at_pivots @ old[:, columns]
            kernel = np.subtract(kernel, known, out=known)
        rows = np.matmul(inverse, kernel, out=F[new, columns])
        rest[columns] -= by_column(rows, rows)

    gram.each(write, blocks(gram.n, COLUMNS))
    np.maximum(rest, 0.0, out=rest)
    rest[pivots] = 0.0


def inverse_of(lower: NDArray[Any]) -> NDArray[Any]:
    """Return L^-1 from the lower triangle of a matrix."""
    from scipy.linalg import lapack

    invert = lapack.strtri if lower.dtype == np.float32 else lapack.dtrtri
    return np.tril(invert(lower, lower=1)[0])


def by_column(u: NDArray[Any], v: NDArray[Any]) -> NDArray[Any]:
    """Return the products u'v of columns."""
    return np.asarray(np.einsum("ij,ij->j", u, v))


def coefficients(gram: Gram, factor: Factor, z: Floats) -> Floats:
    """Return beta, zero but at the pivots, with w = sum_j beta_j K(x_j, .), z being w's coordinates in the factor."""
    from scipy.linalg import solve_triangular

    beta = np.zeros((gram.n, *z.shape[1:]))
    upper = factor.F[: factor.rank, factor.pivots].astype(np.float64)
    beta[factor.pivots] = solve_triangular(upper, z, lower=False, check_finite=False)
    return beta
