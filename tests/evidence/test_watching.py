"""A watch on a deployed map: what counts, what is said, what is refused, what is kept."""

import json
from dataclasses import fields, replace

import numpy as np
import pytest
from scipy.special import expit, logit

import calibrant
from calibrant import Watch, watch
from calibrant.evidence.betting import Wealth
from calibrant.evidence.counting import Cells, Counts, count_cells
from calibrant.evidence.watching import start_watch, update
from calibrant.maps.records import Lines, Sigmoid

TRUE = Sigmoid(-1.5, 1.0)


def rows(n=6000, shift=lambda day: 0.0, days=30, seed=0):
    """Return scores, labels and days of rows whose log-odds are 1.5 f - 1, moved by a shift."""
    rng = np.random.default_rng(seed)
    f, day = rng.normal(size=n), np.arange(n) * days // n
    return f, rng.random(n) < expit(1.5 * f - 1 + np.array([shift(d) for d in range(days)])[day]), day


@pytest.fixture(scope="module")
def platt():
    f, y, _ = rows(5000, seed=9)
    return calibrant.fit("platt", f, y)


def same(one, other, close=1e-9):
    assert one.seen == other.seen
    assert one.groups.keys() == other.groups.keys()
    for mine, theirs in [(one.whole, other.whole), *((one.groups[k], other.groups[k]) for k in one.groups)]:
        for each in fields(Wealth):
            np.testing.assert_allclose(
                getattr(mine.wealth, each.name), getattr(theirs.wealth, each.name), atol=close, rtol=1e-9
            )
        assert len(mine.lines) == len(theirs.lines)


# Counting -------------------------------------------------------------------------------------------------------------


def test_rows_weights_order_and_parts_count_the_same(platt):
    f, y, day = rows()
    group = np.where(np.arange(len(f)) % 3, "de", "fr")
    plain = watch(platt, f, y, batch=day, groups=group)
    order = np.random.default_rng(1).permutation(len(f))
    same(plain, watch(platt, f[order], y[order], batch=day[order], groups=group[order]))
    doubled = watch(platt, np.tile(f, 2), np.tile(y, 2), batch=np.tile(day, 2), groups=np.tile(group, 2))
    weights = np.full(len(f) + 5, 2)
    weights[-5:] = 0
    more = [np.concatenate([each, each[:5]]) for each in (f, y, day, group)]
    same(doubled, watch(platt, *more[:2], batch=more[2], groups=more[3], sample_weight=weights))
    parted = None
    for d in range(30):
        for part in range(3):
            here = (day == d) & (np.arange(len(f)) % 3 == part)
            given = {"batch": d, "groups": group[here], "state": parted, "partial": part < 2}
            parted = watch(platt, f[here], y[here], **given)
            assert (parted.pending is None) is (part == 2)
    same(plain, parted)


def test_cells_hold_all_rows_and_add_in_any_order():
    rng = np.random.default_rng(0)
    parts = [count_cells(expit(rng.normal(size=50)), rng.random(50) < 0.4) for _ in range(3)]
    one, other = parts[0] + (parts[1] + parts[2]), (parts[2] + parts[0]) + parts[1]
    for each in fields(Cells):
        np.testing.assert_allclose(getattr(one, each.name), getattr(other, each.name), rtol=1e-12)
    assert one.rows.sum() == 150
    assert (np.diff(one.number) > 0).all()
    ends = count_cells(np.array([0.0, 1.0]), np.array([0, 1]))
    assert np.isfinite(ends.predicted).all()


def test_numbers_and_dates_are_taken_in_their_own_order(platt):
    f, y, day = rows(600, days=12)
    assert watch(platt, f, y, batch=day).seen == tuple(map(str, range(12)))
    dates = np.datetime64("2026-02-25") + day
    assert watch(platt, f, y, batch=dates).seen[:5] == tuple(
        f"2026-{each}" for each in ("02-25", "02-26", "02-27", "02-28", "03-01")
    )


@pytest.mark.parametrize(("classes", "only"), [((1, 2), 1), (("no", "yes"), "no"), ((0, 1), 0), ((-1, 1), -1)])
def test_a_batch_may_lack_a_class(classes, only):
    f, y, _ = rows(500)
    fitted = calibrant.fit("platt", f, np.array(classes)[y.astype(int)])
    state = watch(fitted, f[:40], np.full(40, only), batch="a")
    assert state.whole.lines[0].positive == 0
    state = watch(fitted, f[:40], np.full(40, classes[1]), batch="b", state=state)
    assert state.whole.lines[1].positive == 40


# Judging --------------------------------------------------------------------------------------------------------------


def test_without_drift_nothing_is_found_and_the_numbers_are_those_of_the_rows(platt):
    f, y, day = rows()
    state = watch(platt, f, y, batch=day)
    (found,) = state.findings
    assert not state.drifted
    assert (found.status, found.batches, found.rows) == ("fine", 30, 6000)
    assert found.predicted == pytest.approx(platt(f).mean())
    assert found.happened == pytest.approx(y.mean())
    assert found.low < 0 < found.high
    for said in (
        "No drift. In 30 batches (6,000 rows): predicted",
        "; 20 is an alarm.",
        "are put down to the map's own",
    ):
        assert said in state.verdict


def test_drift_is_dated_sized_and_priced(platt):
    f, y, day = rows(20_000, shift=lambda day: 0.7 * (day >= 12))
    state = watch(platt, f, y, batch=[f"2026-03-{d + 1:02}" for d in day])
    (found,) = state.findings
    assert (found.status, found.since, found.first) == ("drift", "2026-03-13", 13)
    late = day >= 12
    assert found.rows == late.sum()
    assert found.low < y[late].mean() - TRUE(f[late]).mean() < found.high
    assert found.shift in (0.64, 1.28)
    repaired = expit(logit(platt(f[late])) + 0.7)
    losses = [-np.mean(np.where(y[late], np.log(p), np.log1p(-p))) for p in (platt(f[late]), repaired)]
    assert found.loss == pytest.approx(1000 * (losses[0] - losses[1]), rel=0.1)
    for said in (
        "Drift since batch '2026-03-13'. Since then (18 of 30 batches, 12,000 rows)",
        "shift of the log-odds by +",
    ):
        assert said in state.verdict
    assert "nats of log loss per 1,000 rows" in state.verdict


def test_misfit_from_the_start_is_another_sentence(platt):
    f, y, day = rows(20_000, shift=lambda day: 0.7)
    state = watch(platt, f, y, batch=day)
    assert state.drifted
    assert state.findings[0].status == "misfit"
    assert state.verdict.startswith(
        "Misfit from the start, from batch '0' on: the map has not drifted, it never fitted"
    )


def test_a_small_misfit_from_the_start_is_not_dated_later_by_chance(platt):
    statuses = []
    for seed in range(12):
        f, y, day = rows(12_000, shift=lambda day: 0.35, days=12, seed=seed)
        statuses.append(watch(platt, f, y, batch=day).findings[0].status)
    assert "drift" not in statuses
    assert statuses.count("misfit") >= 8


def test_an_early_warning_is_no_alarm(platt):
    f, y, day = rows(60_000, shift=lambda day: 0.3 * (day >= 100), days=120)
    state, statuses = None, []
    for d in range(120):
        state = watch(platt, f[day == d], y[day == d], batch=d, state=state)
        statuses.append(state.findings[0].status)
        if statuses[-1] == "warning":
            assert not state.drifted
            assert "An early warning, no proof of drift: rows since batch" in state.verdict
    assert set(statuses[:100]) == {"fine"}
    assert "warning" in statuses
    assert statuses[-1] == "drift"


def test_groups_that_drift_are_named_and_others_not(platt):
    f, y, day = rows(24_000, shift=lambda day: 0.0)
    group = np.array([f"g{k}" for k in range(6)])[np.arange(len(f)) % 6]
    late = (group == "g4") & (day >= 15)
    y[late] = np.random.default_rng(3).random(late.sum()) < expit(1.5 * f[late] + 0.2)
    state = watch(platt, f, y, batch=day, groups=group)
    assert [each.group for each in state.findings if each.alarm and each.group] == ["g4"]
    assert "Of 6 groups of 'groups', 1 has drifted by e-BH at 0.025. g4: Drift since batch '15'." in state.verdict
    assert state.drifted
    assert state.findings[0].alarm_at == 40
    assert not state.findings[0].alarm
    assert state.verdict.startswith("An alarm in 1 of 6 groups: g4. All rows together: ")
    calm = watch(platt, f[~late], y[~late], batch=day[~late], groups=group[~late])
    assert "Of 6 groups of 'groups', none have drifted" in calm.verdict


@pytest.mark.parametrize("method", ["platt", "isotonic", "auto"])
def test_the_error_of_the_fit_is_no_drift_unless_strict(method):
    """Maps of 400 rows, off by their own error, and 8 batches of 20,000 rows without drift."""
    rng, alarms = np.random.default_rng(0), []
    t = np.linspace(-2.5, 2.5, 40)
    for _ in range(25):
        f = rng.normal(size=400)
        fitted = calibrant.fit(method, f, rng.random(400) < TRUE(f))
        p, n = fitted(t), np.full(40, 500.0)
        states = [start_watch(fitted, strict=strict) for strict in (False, True)]
        for day in range(8):
            k = rng.binomial(500, TRUE(t))
            cells = count_cells(np.tile(p, 2), np.repeat([1, 0], 40), np.concatenate([k, n - k]))
            states = [update(each, Counts(str(day), {"": cells})) for each in states]
        alarms.append([each.drifted for each in states])
    covered, strict = np.mean(alarms, axis=0)
    assert covered <= 0.08
    assert strict >= 0.8


def test_zeros_of_a_step_map_are_no_promise_but_are_watched():
    f, y = np.arange(2000.0), np.arange(2000) % 2 == 0
    y[:600] = False
    steps = calibrant.fit("isotonic", f, y)
    assert steps(10.0) == 0
    rng, calm, worse = np.random.default_rng(0), start_watch(steps), start_watch(steps)
    cells = steps(f[:600])
    for day in range(20):
        calm, worse = (
            update(each, Counts(str(day), {"": count_cells(cells, rng.random(600) < chance)}))
            for each, chance in ((calm, 0.002), (worse, 0.04))
        )
    assert not calm.drifted
    assert worse.drifted


# Keeping --------------------------------------------------------------------------------------------------------------


def test_a_state_comes_back_and_goes_on_as_before(platt):
    f, y, day = rows(shift=lambda day: 0.3 * (day > 20))
    group = np.where(np.arange(len(f)) % 2, "a", "b")
    first, second = day < 15, day >= 15
    state = watch(platt, f[first], y[first], batch=day[first], groups=group[first])
    text = state.to_json()
    assert len(text) < 45_000
    back = Watch.from_json(text)
    assert back.verdict == state.verdict
    assert json.loads(back.to_json()) == json.loads(text)
    ended = [
        watch(platt, f[second], y[second], batch=day[second], groups=group[second], state=s) for s in (state, back)
    ]
    same(*ended, close=1e-4)
    assert ended[0].verdict == ended[1].verdict


def test_a_pending_part_is_kept_too(platt):
    f, y, _ = rows(600)
    half = watch(platt, f[:300], y[:300], batch="a", partial=True)
    assert half.verdict == "No batch has been watched yet."
    assert not half.drifted
    back = Watch.from_json(half.to_json())
    same(watch(platt, f[300:], y[300:], batch="a", state=back), watch(platt, f, y, batch="a"))


def test_long_watches_keep_sums_in_a_small_file(platt):
    f, y, day = rows(3000, days=600)
    state = watch(platt, f, y, batch=day, groups=np.full(len(f), "one"))
    assert (len(state.whole.lines), len(state.groups["one"].lines)) == (366, 60)
    for stream in (state.whole, state.groups["one"]):
        assert sum(line.rows for line in stream.lines) == 3000
        assert sum(line.positive for line in stream.lines) == y.sum()
        assert [line.first for line in stream.lines[1:]] == [line.last + 1 for line in stream.lines[:-1]]
    assert len(state.to_json()) < 100_000


@pytest.mark.parametrize(
    "spoil",
    [
        lambda told: told.pop("whole"),
        lambda told: told.update(format=9),
        lambda told: told.update(alpha=2.0),
        lambda told: told.update(information={"logits": [0.0]}),
        lambda told: told["whole"].update(process=[0.0]),
        lambda told: told["whole"]["process"].__setitem__(0, None),
        lambda told: told["whole"].update(lines=[]),
        lambda told: told["whole"].update(best="high"),
        lambda told: told.update(groups=[1]),
    ],
)
def test_a_spoilt_state_is_refused(platt, spoil):
    f, y, day = rows(600)
    told = json.loads(watch(platt, f, y, batch=day).to_json())
    spoil(told)
    with pytest.raises(ValueError, match="text must be the state of a watch"):
        Watch.from_json(json.dumps(told))


# Refusing -------------------------------------------------------------------------------------------------------------


def test_each_batch_counts_once(platt):
    f, y, _ = rows(300)
    state = watch(platt, f, y, batch="monday")
    with pytest.raises(ValueError, match="'monday' has been watched already, and would count twice"):
        watch(platt, f, y, batch="monday", state=state)
    with pytest.raises(ValueError, match="'1' has been watched already"):
        watch(platt, f, y, batch=1.0, state=watch(platt, f, y, batch=1))
    with pytest.raises(ValueError, match="'1' has been watched already"):
        watch(platt, f, y, batch=np.full(300, 1.0), state=watch(platt, f, y, batch=1))
    for missing in (None, np.nan, np.datetime64("NaT")):
        with pytest.raises(ValueError, match="batch must be the name of a batch"):
            watch(platt, f, y, batch=missing)
    open_ = watch(platt, f, y, batch="tuesday", state=state, partial=True)
    with pytest.raises(ValueError, match=r"batch 'tuesday' must be finished first, .* got 'wednesday'"):
        watch(platt, f, y, batch="wednesday", state=open_)


def test_what_is_not_finite_or_no_count_is_refused(platt):
    f, y, _ = rows(300)
    with pytest.raises(ValueError, match="scores must be finite"):
        watch(platt, np.where(np.arange(300) == 7, np.nan, f), y, batch="a")
    good, state = count_cells(platt(f), y), start_watch(platt)
    for name in ("rows", "predicted", "positive"):
        wrong = replace(good, **{name: np.where(np.arange(len(good.rows)) == 2, np.nan, getattr(good, name))})
        with pytest.raises(ValueError, match="must be finite"):
            update(state, Counts("a", {"": wrong}))
    with pytest.raises(ValueError, match="no more positives than rows"):
        update(state, Counts("a", {"": replace(good, positive=good.rows + 1)}))
    with pytest.raises(ValueError, match="at least one row"):
        update(state, Counts("a", {}))
    with pytest.raises(ValueError, match="weights must be whole numbers"):
        watch(platt, f, y, batch="a", sample_weight=np.full(300, 0.3))
    with pytest.raises(ValueError, match="weights count rows, and must sum to less than"):
        watch(platt, f, y, batch="a", sample_weight=np.full(300, 1e300))
    with pytest.raises(ValueError, match="counts must be of one batch"):
        Counts("a", {"": good}) + Counts("b", {"": good})
    with pytest.raises(ValueError, match=r"batch must have one|batch has"):
        watch(platt, f, y, batch=["a", "b"])


def test_a_map_without_information_needs_strict(platt):
    f, y, day = rows(600)
    with pytest.raises(ValueError, match=r"map must carry the Fisher information .* give strict=True"):
        watch(TRUE, f, y, batch=day)
    state = watch(TRUE, f, y, batch=day, strict=True)
    assert "The error of the map's own fit is not allowed for." in state.verdict
    assert state.tolerance == 0.0
    assert watch(TRUE, f, y, batch=day, strict=True, tolerance=0.2).tolerance == 0.2
    same(state, watch(lambda score: TRUE(score), f, y, batch=day, strict=True))  # a function that cannot be stored


def test_a_state_belongs_to_one_map_and_one_set_of_groups(platt):
    f, y, _ = rows(600)
    state = watch(platt, f, y, batch="a")
    with pytest.raises(ValueError, match="state must be of a watch on the same map"):
        watch(calibrant.fit("platt", f, y), f, y, batch="b", state=state)
    with pytest.raises(ValueError, match="the state has no groups, got groups of 'groups'"):
        watch(platt, f, y, batch="b", groups=np.zeros(600), state=state)
    with pytest.raises(ValueError, match="map must be a map of one column"):
        start_watch(calibrant.fit("platt", np.eye(3)[np.arange(90) % 3] + f[:90, None], np.arange(90) % 3))
    with pytest.raises(ValueError, match="alpha must"):
        start_watch(platt, alpha=1.5)
    with pytest.raises(ValueError, match="tolerance must"):
        start_watch(platt, tolerance=-1.0)


def test_a_constant_map_can_be_watched():
    constant = calibrant.fit(lambda data: Lines((0.0,), (0.3,)), [0.0, 1.0, 2.0], [0, 1, 0])
    rng = np.random.default_rng(0)
    state = start_watch(constant, strict=True)
    for day in range(10):
        state = update(state, Counts(str(day), {"": count_cells(np.full(400, 0.3), rng.random(400) < 0.3)}))
    assert not state.drifted
    for day in range(10, 20):
        state = update(state, Counts(str(day), {"": count_cells(np.full(400, 0.3), rng.random(400) < 0.5)}))
    assert (state.drifted, state.findings[0].since) == (True, "10")
