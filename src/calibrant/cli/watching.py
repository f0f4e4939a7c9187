"""The command that watches a deployed map for drift: watch."""

from __future__ import annotations

import html
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

import calibrant
from calibrant.checks import check_one_of
from calibrant.cli.console import print_json, print_line, print_next, repeat_options
from calibrant.cli.reading import AsJson, Label, Weight, require_place
from calibrant.evidence.steps import name_order
from calibrant.evidence.watching import Watch
from calibrant.files import hide_address, read_limited, write_whole
from calibrant.maps.groups import SeparateMaps

__all__ = ["watch"]

_DRIFT = 1  # exit code
_LARGEST = 2**28  # bytes of a state
_PICTURES = ("svg", "html", "png", "pdf")
_MOST_GROUPS = 20  # in JSON on the terminal, the largest evidence first


def watch(
    map_file: Annotated[Path, typer.Argument(metavar="MAP", help="A map written by `calibrant fit`.")],
    tables: Annotated[
        list[str],
        typer.Argument(
            metavar="TABLE...",
            help="CSV, Parquet or Arrow files, patterns, - for the standard input, or the address of a table in a "
            "database, as sqlite:///FILE?table=NAME: the rows of one batch.",
        ),
    ],
    *,
    score: Annotated[str, typer.Option(help="The column of scores.")],
    label: Label,
    state: Annotated[Path, typer.Option(help="The file that keeps what has been seen; made by the first batch.")],
    batch: Annotated[
        str | None, typer.Option(help="The name of the batch, as a date.", show_default="the name of the file")
    ] = None,
    batches: Annotated[
        str | None, typer.Option(help="A column with the name of the batch, for a table of several.")
    ] = None,
    partial: Annotated[
        bool,
        typer.Option("--partial", metavar="", help="More rows of this batch will follow; it is judged with the last."),
    ] = False,
    by: Annotated[str | None, typer.Option(help="A column of groups; each is watched beside all rows.")] = None,
    weight: Weight = None,
    alpha: Annotated[
        float | None, typer.Option(help="The probability of a false alarm, for ever.", show_default="0.05")
    ] = None,
    tolerance: Annotated[
        float | None, typer.Option(help="Log-odds that nobody minds.", show_default="0.05, with --strict 0")
    ] = None,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict", metavar="", help="Do not allow for the error of the map's own fit: any difference counts."
        ),
    ] = False,
    skip_missing: Annotated[
        bool,
        typer.Option(
            "--skip-missing", metavar="", help="Leave out rows with a missing value instead of refusing them."
        ),
    ] = False,
    picture: Annotated[
        Path | None, typer.Option(help="A picture over time to write: .svg, .html, .png or .pdf.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Has calibration drifted since a map was fitted? Run it on every batch.

    The evidence may be looked at after every batch: the probability that it ever
    raises a false alarm is at most --alpha. The error of the map's own fit is
    allowed for. What has been seen is kept in --state, a small file; each batch
    counts once. After a new fit, start a new one.

    Exit status: 0 no drift, 1 drift, 2 error, for cron.

    [bold]Examples[/bold]

      calibrant watch map.json 2026-03-01.parquet --score f --label y --state watch.json
      calibrant watch map.json year.parquet --score f --label y --batches day \
          --by country --state watch.json --picture watch.svg
    """
    from calibrant.cli.formats import open_files
    from calibrant.cli.running import open_in_engine
    from calibrant.engines import watch as watch_table

    if not map_file.is_file():
        msg = f"{map_file} does not exist or is not a file"
        raise ValueError(msg)
    require_place(state, map_file, *tables, name="--state")
    if picture is not None:
        require_place(picture, map_file, state, *tables, name="--picture")
        check_one_of("the ending of --picture", picture.suffix.lower().lstrip("."), _PICTURES)
    named = batch is not None
    if not named and batches is None:
        if len(tables) > 1 or "*" in tables[0] or tables[0] == "-" or "?" in tables[0]:
            msg = (
                "give --batch, the name of the batch, or --batches, the column that has it, where no file name says it"
            )
            raise ValueError(msg)
        batch = Path(tables[0]).name
    mapping: Any = calibrant.load(map_file)
    if hasattr(mapping, "scheme"):
        msg = f"{map_file} must be a map of one column of scores; it is of several: give each batch to assess instead"
        raise ValueError(msg)
    known = _read_state(state, alpha, tolerance, strict=strict)
    others = [*dict.fromkeys(each for each in (label, by, batches, *getattr(mapping, "by", ())) if each)]
    try:
        with (
            open_files(tables) as files,
            open_in_engine(files, [each for each in (score, weight) if each], others) as running,
            running.show(f"watching {files.name}"),
        ):
            found = watch_table(
                mapping,
                running.table,
                score=score,
                label=label,
                batch=batch,
                batches=batches,
                weight=weight,
                by=by,
                missing="skip" if skip_missing else "error",
                state=known,
                partial=partial,
                alpha=alpha,
                tolerance=tolerance,
                strict=strict,
            )
    except RuntimeError as error:  # the table changed
        raise ValueError(str(error)) from None
    except ValueError as error:
        raise ValueError(str(error).replace("strict=True", "--strict")) from None
    drawn = None if picture is None or not found.findings else _draw(found, picture)
    write_whole(state, found.to_json().encode())
    if drawn is not None and picture is not None:
        write_whole(picture, drawn)
    refit = [
        "fit",
        *map(hide_address, tables),
        *repeat_options(score=score, label=label, weight=weight, **_repeat_fit(mapping, found)),
        *repeat_options(skip_missing=skip_missing),
        "-o",
        str(map_file),
    ]
    if as_json:
        print_json(_summarise(found, str(state), refit))
    else:
        print_line(found.verdict)
        if found.drifted:
            print_next(*refit)
        else:
            columns = repeat_options(score=score, label=label, by=by, weight=weight, batches=batches, state=str(state))
            others = repeat_options(batch="NEXT" if named else None, skip_missing=skip_missing)
            print_next("watch", map_file, _name_next(tables), *columns, *others)
    if found.drifted:
        raise typer.Exit(_DRIFT)


def _name_next(tables: Sequence[str]) -> str:
    """Return what stands for the table of the next batch: a file of another name, or the same table of a database."""
    from calibrant.engines.databases import is_address

    return hide_address(tables[0]) if is_address(tables[0]) else "NEXT.parquet"


def _repeat_fit(mapping: Any, found: Watch) -> dict[str, Any]:
    """Return the options of the fit of a map like this one: its method, kind of scores, positive class and groups."""
    options: dict[str, Any] = {}
    origin = getattr(mapping, "origin", None)
    if origin is not None:  # where the map never fitted, its shape may be wrong: `auto` has none of its own
        misfit = any(each.status == "misfit" for each in found.findings[:1])
        options |= {"method": "auto" if misfit else origin.method, "kind": origin.kind}
        if origin.classes is not None and name_order(origin.classes):
            options["pos_label"] = str(origin.positive)
    if hasattr(mapping, "groups"):
        options |= {"by": list(mapping.by), "no_pool": isinstance(mapping, SeparateMaps)}
    return options


def _read_state(path: Path, alpha: float | None, tolerance: float | None, *, strict: bool) -> Watch | None:
    """Return the state of a file, None where there is none yet; the settings of a watch must stay the same."""
    if not path.exists():
        return None
    try:
        found = Watch.from_json(read_limited(path, _LARGEST))
    except ValueError as error:
        msg = f"{path} is not the state of a watch: {error}"
        raise ValueError(msg) from None
    for name, given, kept in (("alpha", alpha, found.alpha), ("tolerance", tolerance, found.tolerance)):
        if given not in (None, kept):
            msg = f"--{name} must stay the same over a watch; {path} has {kept}, got {given}: start a new --state"
            raise ValueError(msg)
    if strict and not found.strict:
        msg = f"--strict must be given from the first batch on; {path} was started without: start a new --state"
        raise ValueError(msg)
    return found


def _summarise(found: Watch, path: str, refit: list[str]) -> dict[str, Any]:
    """Return the result as a dictionary for JSON."""
    whole, *groups = found.findings or (None,)
    return {
        "drifted": found.drifted,
        "verdict": found.verdict,
        "all": whole,
        "groups": groups[:_MOST_GROUPS],
        "groups_watched": len(groups),
        "batches": len(found.seen),
        "pending": None if found.pending is None else found.pending.batch,
        "fitting_error_covered": found.information is not None,
        "state": path,
        "refit": ["calibrant", *refit],
    }


def _draw(found: Watch, path: Path) -> bytes:
    """Return the picture of a watch in the format that the ending of a file says."""
    from calibrant.plots import WatchDisplay

    content = io.BytesIO()
    kind = path.suffix.lower().lstrip(".")
    figure: Any = WatchDisplay(found).plot().figure_
    figure.savefig(content, format="svg" if kind == "html" else kind)
    if kind != "html":
        return content.getvalue()
    text = content.getvalue().decode()
    head = "<!doctype html><html lang='en'><meta charset='utf-8'><title>calibrant watch</title>"
    return f"{head}{text[text.index('<svg') :]}<p>{html.escape(found.verdict)}</p></html>\n".encode()
