"""What the watch allows the maps of groups for the errors of their fits."""

import numpy as np
import pytest
from scipy.special import expit, logit

import calibrant
from calibrant.evidence.counting import WIDTH, count_cells
from calibrant.evidence.group_errors import add_error
from tests.conftest import quiet_fit

GROUPS, FITS = 8, 25


def find_worst(spread, rng):
    """Fit maps of groups, and return the largest error in units of what is allowed, over all groups and cells."""
    effect, group = rng.normal(0.0, spread, GROUPS), np.repeat(np.arange(GROUPS), 150)
    f = rng.normal(size=len(group))
    y = (rng.random(len(group)) < expit(1.5 * f - 1.0 + effect[group])).astype(int)
    maps = quiet_fit("platt", f, y, groups=group, kind="margin")
    worst = []
    for place in range(GROUPS):
        scores = np.linspace(-1.8, 1.8, 15)
        p = maps.at(scores, np.full(15, place))
        cells = add_error(maps, place, count_cells(p, np.zeros(15), None))
        low, high = cells.number * WIDTH, (cells.number + 1) * WIDTH
        known = maps.origin.information.bound(low, high)
        allowed = np.hypot(known, cells.error / cells.rows)
        assert (allowed >= known).all()
        number = np.floor(logit(p) / WIDTH).astype(int)
        off = np.abs(logit(p) - (1.5 * scores - 1.0 + effect[place]))
        worst.append((off / allowed[np.searchsorted(cells.number, number)]).max())
    return max(worst)


@pytest.mark.parametrize("spread", [0.0, 0.2, 0.6])
def test_the_truth_is_nearly_always_inside(spread):
    """At 95 % for all groups at once, whether groups agree (their lines then err as the overall map does) or not."""
    rng = np.random.default_rng(0)
    outside = sum(find_worst(spread, rng) > 1.0 for _ in range(FITS))
    assert outside <= 4  # the chance of 5 or more of 25 is 1 % at 5 %


def test_maps_of_their_own_rows_are_allowed_their_own_error_alone():
    rng = np.random.default_rng(0)
    f, group = rng.normal(size=900), np.repeat([0, 1, 2], 300)
    y = (rng.random(900) < expit(f)).astype(int)
    maps = calibrant.fit("platt", f, y, groups=group, pool=False, kind="margin")
    cells = count_cells(maps.at(f[:300], np.zeros(300, int)), y[:300].astype(float), None)
    low, high = cells.number * WIDTH, (cells.number + 1) * WIDTH
    inside = (low >= -1.0) & (high <= 1.0)
    found = np.hypot(maps.origin.information.bound(low, high), add_error(maps, 0, cells).error / cells.rows)
    own = maps.maps[0].origin.information.bound(low, high, 1.0 - 0.05 / 3)
    np.testing.assert_allclose(found[inside], own[inside], rtol=1e-12)
