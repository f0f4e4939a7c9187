"""The walk of a call: its steps in order, and what is counted of them."""

from bench.walk import count, walk

from calibrant.checks import check_one_of
from calibrant.samples import read_kind


def test_steps_are_the_functions_of_the_package_in_order():
    def call():
        read_kind("logit")
        sorted([3, 1, 2], key=lambda each: -each)  # of no file of the package
        check_one_of("name", "a", ["a"])

    check = ("checks.py", "check_one_of")
    assert walk(call) == [("samples.py", "read_kind"), check, check]


def test_a_change_of_file_is_two_steps_in_different_files():
    assert count([("a.py", "f"), ("b.py", "g"), ("b.py", "h"), ("a.py", "f")]) == (3, 2, 2)
    assert count([]) == (0, 0, 0)
