"""Commands that write a map for other places to run: onnx."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

import calibrant
from calibrant.checks import check_one_of
from calibrant.cli.console import print_json, print_line
from calibrant.cli.reading import AsJson, require_place
from calibrant.files import write_whole

__all__ = ["onnx"]


def onnx(
    map_file: Annotated[Path, typer.Argument(metavar="MAP", help="A map written by `calibrant fit`.")],
    *,
    output: Annotated[Path, typer.Option("--output", "-o", help="The ONNX file to write.")],
    dtype: Annotated[str, typer.Option(help="The type of scores and probabilities: float32, float64.")] = "float64",
    as_json: AsJson = False,
) -> None:
    """Write a map as an ONNX model, to run without Python.

    The model takes scores of the kind that the map was fitted to and gives one
    column of probabilities per class. A missing score (NaN) gets a missing
    probability, an infinite score the limit of the map; a map of probabilities
    gives NaN for a score outside [0, 1].

    [bold]Example[/bold]

      calibrant onnx map.json -o map.onnx --dtype float32
    """
    check_one_of("--dtype", dtype, ("float32", "float64"))
    require_place(output, map_file)
    if not map_file.is_file():
        msg = f"{map_file} does not exist or is not a file"
        raise ValueError(msg)
    mapping: Any = calibrant.load(map_file)
    from calibrant.maps.exporting import classes_of_columns  # needs the extra `onnx`

    model = calibrant.onnx(mapping, dtype=dtype)
    write_whole(output, model.SerializeToString())
    origin = getattr(mapping, "origin", None)
    [given], [found] = model.graph.input, model.graph.output
    summary = {
        "map": type(mapping).__name__,
        "method": None if origin is None else origin.method,
        "kind": None if origin is None else origin.kind,
        "classes": classes_of_columns(mapping),
        "dtype": dtype,
        "input": {"name": given.name, "shape": _shape(given)},
        "output": {"name": found.name, "shape": _shape(found)},
        "bytes": output.stat().st_size,
        "written_to": str(output),
    }
    if as_json:
        print_json(summary)
    else:
        _print_summary(summary)


def _shape(tensor: Any) -> list[str | int]:
    """Return the shape of an input or output: numbers, and names for what may be any number."""
    return [each.dim_param or each.dim_value for each in tensor.type.tensor_type.shape.dim]


def _print_summary(told: dict[str, Any]) -> None:
    """Print what was written, its input and output, and how to run it."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="cyan", no_wrap=True)
    table.add_column()
    fitted = "" if told["method"] is None else f", fitted by {told['method']}"
    table.add_row("map", Text(f"{told['map']}{fitted}"))
    sides = {
        "input": "" if told["kind"] is None else f", the kind {told['kind']}",
        "output": "" if told["classes"] is None else f", the classes {', '.join(map(str, told['classes']))}",
    }
    for side, more in sides.items():
        shape = ", ".join(map(str, told[side]["shape"]))
        table.add_row(side, Text(f"{told[side]['name']}: {told['dtype']} of shape [{shape}]{more}"))
    table.add_row("written to", Text(f"{told['written_to']}, {told['bytes']:,} bytes"))
    Console(highlight=False).print(table)
    columns = told["input"]["shape"][1:]
    example = f"np.zeros((1, {columns[0]})" if columns else "np.array([0.5]"
    print_line("Run it in Python, or in any other language of onnxruntime:")
    print_line("  import numpy as np, onnxruntime")
    session = f"onnxruntime.InferenceSession({told['written_to']!r})"
    print_line(f"  {session}.run(None, {{{told['input']['name']!r}: {example}, np.{told['dtype']})}})[0]")
