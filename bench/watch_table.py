"""The tables of docs/watching.md: false alarms of watches, with and without the error of the map's fit, and delays.

Run `python -m bench.watch_table`; with `--write` it replaces the tables in the page.
"""

from __future__ import annotations

import sys
import warnings

import numpy as np
from scipy.special import expit, logit
from scipy.stats import chi2, norm

import calibrant
from bench.pages import DOCS, replace_table
from calibrant.evidence.betting import place_bets, play, start_wealth
from calibrant.maps.fitting import fit_map
from calibrant.samples import Sample

SUPPORT = 60  # equally likely scores, the quantiles of a normal distribution
ALPHA = 0.05
RUN = 1000.0  # of the e-detector
DAYS = 200
VALID = ("e-process", "e-detector")
CLASSIC = ("Hosmer-Lemeshow", "Spiegelhalter", "sum of differences")
GROUPS, GROUP_ROWS = 20, 100  # groups that are watched, and the rows of each on a day
PARTS = np.arange(0, SUPPORT, SUPPORT // 10)


def population(base):
    """Return 60 equally likely probabilities with mean `base`, their logits normal with standard deviation 1.2."""
    z = norm.ppf((np.arange(SUPPORT) + 0.5) / SUPPORT)
    low, high = -20.0, 20.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if expit(middle + 1.2 * z).mean() < base else (low, middle)
    return expit(low + 1.2 * z)


def reference(p):
    """Return center and scale of the bets: mean and standard deviation of the logit, weighted by p (1 - p)."""
    t, weight = logit(p), p * (1 - p)
    center = weight @ t / weight.sum()
    return center, np.sqrt(weight @ (t - center) ** 2 / weight.sum())


def run(bets, p, truth, batch, days, streams, rng, *, classic=True):
    """Return the day of the first alarm of each method in each stream, days + 1 where there is none.

    `bets` has one set for all streams, or one per stream; p are the forecasts, `truth(day)` the true probabilities.
    """
    names = [*VALID, *(f"{name}, {how}" for name in CLASSIC if classic for how in ("daily", "Bonferroni"))]
    first = {name: np.full(streams, days + 1) for name in names}
    wealth, total, spread = start_wealth(streams), np.zeros(streams), np.zeros(streams)
    for day in range(1, days + 1):
        n = rng.multinomial(batch, np.full(SUPPORT, 1 / SUPPORT), size=streams)
        k = rng.binomial(n, np.broadcast_to(truth(day), n.shape)).astype(float)
        ratio = (
            bets.settle(n.astype(float), k)[0]
            if not isinstance(bets, tuple)
            else np.einsum("sc,sck->sk", k, bets[0]) + np.einsum("sc,sck->sk", n - k, bets[1])
        )
        wealth = play(wealth, ratio, ratio)
        found = {"e-process": wealth.log_e >= -np.log(ALPHA), "e-detector": wealth.log_m >= np.log(RUN)}
        if classic:
            total, spread = total + (k - n * p).sum(1), spread + (n * p * (1 - p)).sum(1)
            for name, value in classical(n, k, p, total, spread).items():
                found |= {f"{name}, daily": value < ALPHA, f"{name}, Bonferroni": value < ALPHA / days}
        for name, hit in found.items():
            first[name][hit & (first[name] > days)] = day
    return first


def classical(n, k, p, total, spread):
    """Return the p-values of the day's Hosmer-Lemeshow and Spiegelhalter tests, and of the sum of all differences."""
    difference, variance = k - n * p, n * p * (1 - p)
    observed, expected = (np.add.reduceat(each, PARTS, 1) for each in (difference, variance))
    z = (difference * (1 - 2 * p)).sum(1) / np.sqrt((variance * (1 - 2 * p) ** 2).sum(1))
    return {
        "Hosmer-Lemeshow": chi2.sf((observed**2 / np.maximum(expected, 1e-12)).sum(1), 10),
        "Spiegelhalter": 2 * norm.sf(np.abs(z)),
        "sum of differences": 2 * norm.sf(np.abs(total) / np.sqrt(spread)),
    }


def percent(first, days):
    return f"{100 * np.mean(first <= days):.1f} %"


def false_alarms(streams=1000):
    """Return the shares of streams with an alarm in 200 days, of forecasts that are right."""
    names = [*VALID, *(f"{name}, {how}" for name in CLASSIC for how in ("daily", "Bonferroni"))]
    lines = ["| positives | rows per day | " + " | ".join(names) + " |", "|---" * (len(names) + 2) + "|"]
    rng = np.random.default_rng(0)
    for base in (0.5, 0.05, 0.005):
        p = population(base)
        bets = place_bets(p, *reference(p))
        for batch in (100, 1_000, 10_000, 100_000):
            first = run(bets, p, lambda day, p=p: p, batch, DAYS, streams, rng)
            lines.append(
                f"| {base:.1%} | {batch:,} | " + " | ".join(percent(first[name], DAYS) for name in names) + " |"
            )
    return "\n".join(lines)


def fit_and_bet(method, truth, rows, rng, *, strict):
    """Return the bets on the forecasts of a map that was fitted to so many rows of the population."""
    n = rng.multinomial(rows, np.full(SUPPORT, 1 / SUPPORT))
    k = rng.binomial(n, truth)
    score = logit(truth)[n > 0]
    n, k = n[n > 0], k[n > 0]
    fitted = fit_map(method, Sample(score, k / n, n.astype(float), None, (0, 1), rows), "logit")
    p = np.clip(fitted(logit(truth)), 1e-9, 1 - 1e-9)
    known = fitted.origin.information
    t = logit(p)
    if strict:
        return place_bets(p, known.center, max(known.scale, 0.1))
    low, high = known.ends
    tolerance = np.where((t < high) & (t > low), np.maximum(0.05, known.bound(t)), 0.05)
    return place_bets(
        expit(np.clip(t, low, high)), known.center, max(known.scale, 0.1), tolerance, rising=t < high, falling=t > low
    )


def fitting_error(streams=200):
    """Return the shares of streams with an alarm in 200 days without drift, of maps with the error of their fit."""
    lines = ["| method | positives | rows of the fit | rows per day | tolerance 0 | the fit's error and 0.05 |"]
    lines.append("|---" * 6 + "|")
    rng = np.random.default_rng(1)
    for method in ("platt", "kull_beta", "auto", "isotonic"):
        for base, rows, batch in (
            (0.5, 2_000, 1_000),
            (0.05, 2_000, 1_000),
            (0.05, 20_000, 1_000),
            (0.05, 2_000, 10_000),
        ):
            truth, cells = population(base), []
            for strict in (True, False):
                placed = [fit_and_bet(method, truth, rows, rng, strict=strict) for _ in range(streams)]
                bets = np.stack([each.positive for each in placed]), np.stack([each.negative for each in placed])
                first = run(bets, truth, lambda day, p=truth: p, batch, DAYS, streams, rng, classic=False)
                cells.append(percent(first["e-process"], DAYS))
            lines.append(f"| `{method}` | {base:.0%} | {rows:,} | {batch:,} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def delays(streams=200, days=100):
    """Return the median days from a change to the alarm, and the share of streams with one within 100 days."""
    names = (*VALID, "Spiegelhalter, Bonferroni", "sum of differences, Bonferroni")
    lines = [
        "| positives | rows per day | change | on day | " + " | ".join(names) + " |",
        "|---" * (len(names) + 4) + "|",
    ]
    rng = np.random.default_rng(2)
    for base in (0.5, 0.05, 0.005):
        p = population(base)
        center, scale = reference(p)
        bets = place_bets(p, center, scale)
        t = logit(p)
        changes = {"shift 0.1": t + 0.1, "shift 0.3": t + 0.3, "slope 0.8": center + 0.8 * (t - center)}
        for batch in (100, 1_000, 10_000) if base == 0.05 else (1_000,):
            for name, changed in changes.items():
                for start in (0, 60):
                    q = expit(changed)
                    first = run(
                        bets, p, lambda day, q=q, p=p, s=start: q if day > s else p, batch, start + days, streams, rng
                    )
                    cells = []
                    for each in names:
                        delay = (first[each] - start)[first[each] > start]  # without false alarms before the change
                        median = np.median(delay)
                        told = f"{median:.0f}" if median <= days else f"> {days}"
                        cells.append(f"{told} ({np.mean(delay <= days):.0%})")
                    lines.append(f"| {base:.1%} | {batch:,} | {name} | {start + 1} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def watch_groups(rows, days, shift, rng, *, strict):
    """Return which of 20 groups a watch calls, of maps fitted to so many rows of each; group 0 shifts on day 1."""
    offset, groups = rng.normal(0.0, 0.5, GROUPS), np.arange(GROUPS)

    def draw(count, moved):
        place = np.repeat(groups, count)
        f = rng.normal(-1.0, 1.2, len(place))
        return f, rng.random(len(place)) < expit(f + offset[place] + moved * (place == 0)), place

    f, y, place = draw(rows, 0.0)
    maps = calibrant.fit("platt", f, y, kind="margin", groups=place)
    f, y, place = draw(days * GROUP_ROWS, shift)
    day = np.tile(np.arange(days * GROUP_ROWS) // GROUP_ROWS, GROUPS)
    found = calibrant.watch(maps, f, y, groups=place, batch=day, strict=strict)
    return {int(each.group) for each in found.findings if each.group is not None and each.alarm}


def groups(streams=24):
    """Return how often the group that changed is called, and others, by the rows of each group in the fit."""
    lines = [
        "| rows of each group in the fit | watch | called within 20 days of a shift of 1 | within 60 days | "
        "streams without drift in which a group is called, 60 days |"
    ]
    lines.append("|---" * 5 + "|")
    for rows in (200, 1_000, 5_000):
        for strict in (False, True):
            rng = np.random.default_rng(3)
            soon, late, never = (
                [watch_groups(rows, days, shift, rng, strict=strict) for _ in range(streams)]
                for days, shift in ((20, 1.0), (60, 1.0), (60, 0.0))
            )
            seen = [sum(0 in called for called in each) for each in (soon, late)]
            shares = [*seen, sum(bool(called) for called in never)]
            told = " | ".join(f"{share} of {streams}" for share in shares)
            lines.append(f"| {rows:,} | {'strict' if strict else 'with bands'} | {told} |")
    return "\n".join(lines)


TABLES = {"false_alarms": false_alarms, "fitting_error": fitting_error, "delays": delays, "groups": groups}


def main():
    """Print the tables, or put them into the page."""
    warnings.simplefilter("ignore", UserWarning)
    for name in [each for each in sys.argv[1:] if each in TABLES] or TABLES:
        table = TABLES[name]()
        print(f"\n{name}\n\n{table}", flush=True)
        if "--write" in sys.argv[1:]:
            replace_table(table, DOCS / "watching.md", f"python -m bench.watch_table {name}")


if __name__ == "__main__":
    main()
