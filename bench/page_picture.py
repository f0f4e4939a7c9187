"""The picture of the page in README.md, docs/page.png: `make picture` opens the page of the demo in a browser."""

from __future__ import annotations

import io
import shutil
import tempfile
from pathlib import Path

from calibrant.cli import demo
from calibrant.report import write_report

__all__ = ["main"]

_PICTURE = Path(__file__).parents[1] / "docs" / "page.png"
_SIZE = {"width": 1280, "height": 1640}
_COLOURS = 64  # enough for a page; the file is a third as large
_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
_LARGEST = 200_000  # bytes


def main() -> None:
    """Write the first screen of the page of the demo."""
    from PIL import Image
    from playwright.sync_api import sync_playwright

    browser_path = next(filter(None, map(shutil.which, _BROWSERS)), None)
    if browser_path is None:
        msg = f"the picture needs a browser, one of {', '.join(_BROWSERS)}: see `make browser`"
        raise FileNotFoundError(msg)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        page_file = Path(folder) / "page.html"
        write_report(demo.run().comparison, page_file, title=demo.TITLE, about=demo.ABOUT)
        browser = driver.chromium.launch(executable_path=browser_path, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport=_SIZE, color_scheme="light")
        page.goto(page_file.as_uri())
        page.wait_for_load_state("networkidle")
        content = page.screenshot()
        browser.close()
    Image.open(io.BytesIO(content)).convert("RGB").quantize(_COLOURS).save(_PICTURE, optimize=True)
    size = _PICTURE.stat().st_size
    print(f"{_PICTURE.name}: {size:,} bytes")
    if size > _LARGEST:
        msg = f"the picture must be smaller than {_LARGEST:,} bytes; got {size:,}"
        raise ValueError(msg)


if __name__ == "__main__":
    main()
