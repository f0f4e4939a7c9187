"""An arena for calibration methods: real classifiers on real data, many calibration sizes, ours beside the peers'.

`python -m bench.arena` runs that of two classes, `python -m bench.arena classes` that of several. In the order of a
run:

* `binary` and `classes` have what each arena has of its own, a record of `arenas`: the table of data sets, each with
  its source (family), the split of the sources, the classifiers and the table of methods;
* `data` reads data sets; `methods` has what the methods of both share;
* `pools` trains the classifiers and keeps the scores of the other rows: a pool;
* `running` cuts tasks from the pools, measures every method on them and keeps the results;
* `harm` measures what methods cost when nothing is wrong;
* `summary` turns results into tables;
* `page` writes the tables and the figure.
"""
