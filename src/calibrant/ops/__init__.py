"""The operations a map's formula may use besides + - * / and comparisons, and the engines that offer them.

A formula written with them runs on NumPy arrays (`ops/numpy.py`) and compiles to SQL (`ops/sql.py`) and ONNX
(`ops/onnx.py`). A new engine is one file with one `Ops`; what it cannot compute by itself it gets as piecewise
polynomials (`ops/pieces.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from calibrant.arrays import Floats
from calibrant.checks import LARGEST

__all__ = ["EDGE", "NUMPY", "Columns", "Ops", "run_blocks"]

Columns = Sequence[Any]
EDGE = 1e-15


@dataclass(frozen=True, slots=True)
class Ops:
    """What an engine must offer to evaluate a formula.

    `run(function, score)` evaluates a formula of one column of scores; `run_columns(function, scores, count, meaning)`
    one of `count` columns (None: any number), which gives one column per class.

    `logit(p, clip)` is log(p/(1 - p)) with p cut to [clip, 1 - clip], by 1e-15 if not given. `steps(x, edges, values)`
    is values[j] for edges[j - 1] <= x < edges[j]; `lines(x, corners, values)` joins the corners by straight lines.
    `softmax(columns)` is exp(x_c)/sum_j exp(x_j) for each column; `largest(columns)` the largest number of each row;
    `linear(columns, weights)` the columns of W x, `weights` the array W; `split(columns, conditions, branches)` gives
    each row the columns of the branch whose condition holds. `share(x)` marks what a formula uses many times.

    `smooth(function, x, low, high)` is function(clip(x, low, high)) for a smooth function of NumPy arrays whose values
    are logits; `smooth_parts(function, x, parts)` is function(x), smooth in each of the `Part`s that `parts()` lists.
    Engines that lack the function get polynomials. `solve(matrix, right)` solves symmetric positive definite equations
    whose entries are columns. `compute(function, columns, refusal, written)` is for what has no short formula: NumPy
    takes the function of an array, ONNX the formula `written()`, which may use `solve`, where there is one; else an
    engine refuses with that sentence. `in_unit(score)` is the score; an engine that sees the values refuses those
    outside [0, 1], SQL gives NULL for them and ONNX NaN.
    """

    run: Callable[[Callable[[Any], Any], Any], Any]
    run_columns: Callable[[Callable[[Columns], Columns], Any, int | None, str], Any]
    exp: Callable[[Any], Any]
    log: Callable[[Any], Any]
    sqrt: Callable[[Any], Any]
    logit: Callable[..., Any]
    cos: Callable[[Any], Any]
    sign: Callable[[Any], Any]
    expit: Callable[[Any], Any]
    where: Callable[[Any, Any, Any], Any]
    clip: Callable[[Any, float, float], Any]
    steps: Callable[[Any, Sequence[float] | Floats, Sequence[float] | Floats], Any]
    lines: Callable[[Any, Sequence[float], Sequence[float]], Any]
    softmax: Callable[[Columns], Columns]
    largest: Callable[[Columns], Any]
    linear: Callable[[Columns, Floats], Columns]
    split: Callable[[Columns, Callable[[Columns, int], Any], Sequence[Callable[[Columns], Columns]]], Columns]
    share: Callable[[Any], Any]
    smooth: Callable[[Callable[[Floats], Floats], Any, float, float], Any]
    smooth_parts: Callable[[Callable[[Floats], Floats], Any, Callable[[], Sequence[Any]]], Any]
    solve: Callable[[Sequence[Columns], Columns], Columns]
    compute: Callable[..., Columns]
    in_unit: Callable[[Any], Any]

    def times(self, factor: float, x: Any) -> Any:
        """Return factor * x, with 0 * inf = 0 and inf * 0 = 0; NaN stays NaN.

        >>> import numpy as np
        >>> NUMPY.times(0.0, np.array([np.inf, np.nan])), NUMPY.times(np.inf, np.array([-1.0, 0.0]))
        (array([ 0., nan]), array([-1.79769313e+308,  0.00000000e+000]))
        """
        if factor == 0 or math.isinf(factor):
            return self.sign(x) * min(max(factor, -LARGEST), LARGEST)
        return x * factor

    def normalise(self, columns: Columns) -> Columns:
        """Return columns divided by their sum; where that is 0, all are equal (Duin & Tax 1998).

        Sums below 1e-290 count as 0: where a probability of 1e-308 becomes 0 depends on the engine.
        """
        total = self.share(sum(columns[1:], start=columns[0]))
        return [self.where(total < 1e-290, 1.0 / len(columns), x / total) for x in columns]

    def log_softmax(self, columns: Columns) -> Columns:
        """Return x_c - top - log sum_j exp(x_j - top), top the largest x: logarithms that do not underflow.

        >>> import numpy as np
        >>> NUMPY.log_softmax([np.array([-2000.0]), np.array([0.0])])
        [array([-2000.]), array([0.])]
        """
        columns = [self.share(x) for x in columns]
        top = self.share(self.largest(columns))
        ahead = [self.share(x - top) for x in columns]
        tilted = [self.exp(self.clip(x, -700.0, 0.0)) for x in ahead]
        total = self.share(self.log(sum(tilted[1:], start=tilted[0])))
        return [x - total for x in ahead]


from calibrant.ops.numpy import NUMPY, run_blocks  # noqa: E402 (the default engine needs `Ops`)
