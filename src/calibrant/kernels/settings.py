"""The tuning numbers of kernel logistic regression, all of them.

They change what a fit costs, not its answer: with any of them twice or half as large, a fit still ends with a gap below
`tol` (`tests/kernels/test_settings.py` tries each). Two exceptions: the numbers under "Choosing C" also decide how
closely a leave-one-out loss is approximated, within the errors that docs/kernel_machines.md shows; and a machine of
low rank has other landmarks, about as good, if other rows are looked at. Each was set on the cases of
`python -m bench --only KLR` that its comment names; `python -m bench.ablation` measures each one again.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["SETTINGS", "Settings"]


@dataclass(frozen=True, slots=True)
class Settings:
    """Numbers that trade one kind of work for another."""

    # Sizes.
    few_rows: int = 250
    """Rows (times classes, if more than two) up to which the factor has full rank and a fit goes on to rounding error;
    up to as many rows, each is left out alone. Above, n^3 operations cost more than conjugate gradients. Overlapping,
    300 and 1,000 rows."""
    rank_scale: float = 0.3
    """The factor has at most rank_scale n^0.75 pivots, and at least half of that. Overlapping, 10,000 rows; nearly
    separable, 10,000 and 30,000 rows."""
    coarse_rank: int = 30
    """Pivots from which a coarse solution, in a quarter of the largest rank, is worth while: it shows where pivots and
    kernels are needed. Nearly separable, 2,000 and 10,000 rows."""
    unknowns: int = 1_000
    """Unknowns of the Newton system of several classes, rank times classes, that a chosen rank may lead to. Five
    classes, 5,000 rows."""

    # Newton's method in the factor.
    rough_gain: float = 0.1
    """Share of the objective that the last Newton step in the factor may still gain, before the exact problem takes
    over. Overlapping and nearly separable, 10,000 rows: a smaller share helps the one and hurts the other."""
    sampling: float = 8.0
    """Rows sampled for a Newton system, per unit of curvature and pair of classes; few rows lie between two classes
    that are far apart. Ten classes, 3,500 rows, C = 3,000; nearly separable, 50,000 rows."""

    # Newton's method on the exact problem.
    forcing: float = 0.3
    """A Newton system is solved to a gap of this times the relative gap to the power 1.5, of the objective. Covtype,
    5,000 rows; five and ten classes, 3,500 rows, C = 3,000."""
    inactive: float = 0.05
    """Share of the error allowed to a Newton system that may be left in the rows that do not take part in it. Nearly
    separable, 10,000 rows, C = 1,000: 1.4 times as long if all take part; ten classes, 3,500 rows, C = 3,000: 1.15."""
    most_cg_steps: int = 300
    """Steps of conjugate gradients in one Newton step at most. Several classes, C = 1,000."""
    poor_steps: int = 25
    """Steps of conjugate gradients after which the rank of the factor is doubled. Overlapping, 10,000 rows."""
    factor_speed: float = 10.0
    """Operations on the factor run this many times as fast as those on the kernel matrix; if twice the rank would cost
    more than the steps, it is not doubled. Ten classes, 3,500 rows, C = 3,000."""
    slope_left: float = 0.1
    """Share of its first slope with which a line search may end. Several classes, C = 1,000."""

    # Low rank.
    pool: float = 6.0
    """Rows per landmark from which landmarks are drawn, and whose Hessian is the preconditioner. Covtype, 50,000 rows,
    rank 1,000."""

    # Work and memory.
    tile: int = 512
    """Rows and columns of a tile of the kernel matrix: in single precision it stays in the second-level cache while it
    is used twice. Overlapping, 10,000 rows."""
    tiles_per_array: int = 24
    """Tiles that share one array: large pages of memory, but below 32 MB, up to which the system reuses what was
    freed. Overlapping, 10,000 rows."""
    columns: int = 2_048
    """Columns of a factor, or rows with landmarks, in one block of work. Overlapping, 10,000 rows."""
    rows_for_threads: int = 3_000
    """Rows from which work is shared among threads. Overlapping, 2,000 and 5,000 rows."""
    rounding: float = 0.1
    """Share of `tol` by which rounding errors of kernels may change the objective of a rough solution; else kernels are
    stored in more bits. Overlapping, 50,000 rows; C = 1,000 to 1e6 with smooth kernels, 1,500 rows."""

    # Choosing C.
    groups: int = 9
    """Groups that many rows are divided into, to be left out one at a time. C by leave-one-out, 2,000 rows."""
    rows_left_out: int = 1_750
    """Rows to leave out at least, in as few of the groups as hold them. C by leave-one-out, 5,000 rows."""
    group_residual: float = 2e-3
    """Share of its squared residual that conjugate gradients may leave of a group's system, divided by the number of
    pairs of classes. C by leave-one-out, 2,000 rows; with as much for seven classes as for two, losses of 700 rows of
    segment are 29 % off, and another C is chosen."""
    group_steps: int = 12
    """Steps of conjugate gradients for a group's system at most. C by leave-one-out, 2,000 rows."""
    following_steps: int = 4
    """Steps that follow the absence of one of few rows. `make loo-table`, 160 rows."""
    followed_effect: float = 0.05
    """Rows are followed if leverage times change of f times error of the probability is above this; one whose last
    step changed f by more than twice this counts as poor. `make loo-table`, 160 rows."""
    poor_leverage: float = 0.9
    """Leverage above which one Newton step is a poor approximation of a row's absence. `make loo-table`."""


SETTINGS = Settings()
