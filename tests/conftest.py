"""Data and helpers the tests share."""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections import Counter
from pathlib import Path
from types import FunctionType

import numpy as np
import pytest
from hypothesis import settings

import calibrant
from calibrant import checks

settings.register_profile("calibrant", deadline=None, max_examples=60, derandomize=True)
settings.register_profile("fuzz", settings.get_profile("calibrant"), max_examples=2_000, derandomize=False)
settings.load_profile(os.environ.get("CALIBRANT_PROFILE", "calibrant"))

ROOT = Path(__file__).parents[1]
SPEC = Path(__file__).parent / "oracles"  # numbers that are not ours; its README says where they come from


def pytest_collection_modifyitems(items):
    """Put tests of Spark in front: the first process of pytest-xdist gets them all, so that one cluster is started."""
    items.sort(key=lambda item: item.get_closest_marker("spark") is None)


def data_or_skip(name):
    """Return a data set of the experiments where it is on this machine."""
    try:
        return calibrant.datasets.load(name, download=False)
    except FileNotFoundError as missing:
        pytest.skip(f"the data are not on this machine: {missing}")


def skip_without_folder():
    """Skip a file of tests whose data sets come in no package, unless CALIBRANT_DATA names a folder of them."""
    if not os.environ.get("CALIBRANT_DATA"):
        pytest.skip("CALIBRANT_DATA names no folder of data sets", allow_module_level=True)


@pytest.fixture(scope="session")
def vectors():
    """Expected values computed independently of this package."""
    return json.loads((SPEC / "vectors.json").read_text(encoding="utf-8"))


def paper_tables(paper):
    """Return the numbers printed in a paper: "rueping", "platt", "lin" or "duin_tax"."""
    return json.loads((SPEC / "paper_tables.json").read_text(encoding="utf-8"))[paper]


def quiet_fit(method, *args, **keywords):
    """Fit without the warnings meant for people; floating-point warnings still count as errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return calibrant.fit(method, *args, **keywords)


ARRAY_CHECKS = (
    "check_finite",
    "check_vector",
    "check_binary",
    "check_weights",
    "check_known_labels",
    "check_distributions",
    "check_unit",
)


def count_checks(call):
    """Run a call and return how often it passed each rule of `calibrant.checks`."""
    names = {rule.__code__: name for name, rule in vars(checks).items() if isinstance(rule, FunctionType)}
    found, before = Counter(), sys.getprofile()

    def note(frame, event, argument):
        if event == "call" and frame.f_code in names:
            found[names[frame.f_code]] += 1

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(before)
    return found


def noisy_scores(n=200, seed=0, ties=False):
    """Return overlapping scores of two classes."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(0.3, 1.5, n)
    if ties:
        scores = np.round(scores, 1)
    labels = (rng.random(n) < 1 / (1 + np.exp(0.4 - 1.2 * scores))).astype(int)
    labels[:2] = 0, 1
    return scores, labels
