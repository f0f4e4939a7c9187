"""Changes that a test should notice."""

from bench.mutate import list_changes


def test_each_sign_comparison_and_number_is_changed_alone():
    changes = list_changes("def near(a, b=True):\n    return 0 < a - 2 <= 9 and b")
    assert [(line, before, after) for line, before, after, _ in changes] == [
        (1, "True", "False"),
        (2, "0 < a - 2 <= 9 and b", "0 < a - 2 <= 9 or b"),
        (2, "0 < a - 2 <= 9", "0 <= a - 2 <= 9"),
        (2, "0 < a - 2 <= 9", "0 < a - 2 < 9"),
        (2, "0", "1"),
        (2, "a - 2", "a + 2"),
        (2, "9", "10"),
        (2, "2", "3"),
    ]
    assert changes[-1][-1] == "def near(a, b=True):\n    return 0 < a - 3 <= 9 and b"
