"""Opens pages in headless Chromium.

Run as a program, it takes pictures of a page and of each of its sections, for documentation and for
a reader to look at:
python3 analysis/tests/browser.py PAGE.html FOLDER
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image, ImageChops
from programs import find_program

PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
SECONDS = 120  # of a page; a loaded machine needs more than 10


def chromium():
    """Returns the path of Chromium; skips the test if it is missing, or fails it if
    LOCKSTEP_REQUIRE_CHROMIUM=1."""
    return find_program("CHROMIUM", PROGRAMS, "chromium-headless-shell", "LOCKSTEP_CHROMIUM")


def browse(page, *options, width=1280, height=900):
    """Opens the page and returns (output, messages)."""
    with tempfile.TemporaryDirectory() as profile:
        done = subprocess.run(
            [chromium(), "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
             "--enable-logging=stderr", "--proxy-server=127.0.0.1:9", "--disable-dev-shm-usage",
             f"--user-data-dir={profile}", f"--window-size={width},{height}", *options,
             Path(page).resolve().as_uri()],
            capture_output=True, timeout=SECONDS, check=True)
    return done.stdout.decode(), done.stderr.decode(errors="replace")


def console_messages(messages):
    """Returns what the page wrote to the console, such as violations of its security policy."""
    return [line for line in messages.splitlines() if re.search(r"CONSOLE|Refused", line)]


def measure(page, script, **options):
    """Returns the value of a JavaScript expression after the page has loaded, as text. Its copy of
    the page permits this script."""
    text = Path(page).read_text(encoding="utf-8")
    text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text)
    text = text.replace("</body>", f"<script>document.body.textContent = String({script});"
                                   "</script></body>")
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "page.html"
        copy.write_text(text, encoding="utf-8")
        output, _ = browse(copy, "--dump-dom", **options)
    return re.search(r"<body>(.*)</body>", output, re.S)[1].strip()


def section_pictures(page, folder):
    """Writes a picture of each section of the page, without the others and without the empty rest."""
    start, *sections = re.split(r"(?=<section )", Path(page).read_text(encoding="utf-8"))
    end = sections[-1].split("</section>", 1)[1]
    with tempfile.TemporaryDirectory() as copies:
        for text in sections:
            name = re.search(r'id="([^"]+)"', text)[1]
            copy, picture = Path(copies) / "page.html", folder / f"{name}.png"
            head = re.sub(r"<body.*", "<body><main>", start, flags=re.S)
            copy.write_text(head + text.split("</section>", 1)[0] + "</section>" + end,
                            encoding="utf-8")
            browse(copy, f"--screenshot={picture}", width=1000, height=8000)
            image = Image.open(picture)
            empty = Image.new(image.mode, image.size, image.getpixel((0, image.height - 1)))
            image.crop((0, 0, image.width, ImageChops.difference(image, empty).getbbox()[3] + 16)).save(
                picture, optimize=True)


def pictures(page, folder):
    """Writes pictures of the page, its sections and its printed form to `folder`."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name, width, height, options in (
            ("first", 1000, 1180, ()), ("wide", 1280, 12000, ()), ("phone", 390, 16000, ()),
            ("dark", 1280, 12000, ("--blink-settings=preferredColorScheme=0",))):
        browse(page, f"--screenshot={folder / name}.png", *options, width=width, height=height)
    section_pictures(page, folder)
    browse(page, f"--print-to-pdf={folder / 'print'}.pdf", "--no-pdf-header-footer")


if __name__ == "__main__":
    pictures(*sys.argv[1:])
