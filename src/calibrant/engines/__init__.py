"""Tables that stay where they are: fit, apply, assess and compare in DuckDB, Polars, PyArrow, Spark, or on files.

>>> import pyarrow
>>> from calibrant import engines
>>> table = pyarrow.table({"f": [-2.0, -1.0, 0.5, 1.0, 2.0], "y": ["no", "no", "yes", "no", "yes"]})
>>> engines.fit("isotonic", table, score="f", label="y")
Lines(x=(-2.0, -1.0, 0.5, 1.0, 2.0), y=(0.0, 0.0, 0.5, 0.5, 1.0))
"""

from __future__ import annotations

from calibrant.extras import require_extra

with require_extra("calibrant.engines", "engine"):
    from calibrant.engines.applying import apply
    from calibrant.engines.assessing import assess
    from calibrant.engines.comparing import compare
    from calibrant.engines.fitting import fit
    from calibrant.engines.sessions import open_spark, read_spark
    from calibrant.engines.summaries import Summary, summarise
    from calibrant.engines.watching import watch

__all__ = ["Summary", "apply", "assess", "compare", "fit", "open_spark", "read_spark", "summarise", "watch"]
