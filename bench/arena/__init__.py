"""An arena for calibration methods: real classifiers on real data, many calibration sizes, ours beside the peers'.

`python -m bench.arena` runs it. In the order of a run:

* `data` has the table of data sets, each with its source (family), and the split of the sources;
* `pools` trains the classifiers and keeps the scores of the other rows: a pool;
* `methods` has the table of methods;
* `running` cuts tasks from the pools, measures every method on them and keeps the results;
* `summary` turns results into tables;
* `page` writes the tables and the figure.
"""
