"""The speed of calibrant next to its peers: the same data, the same process, in turn. Run `python -m bench`."""
