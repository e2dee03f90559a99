# SPDX-License-Identifier: BSD-3-Clause
"""Style of all figures, and their rendering as SVG, PNG and PDF. The colours are those of Okabe and Ito,
which colour-blind readers can distinguish."""

import io

import matplotlib

matplotlib.use("Agg")
matplotlib.rcdefaults()  # a matplotlibrc of the user must not change the figures
import matplotlib.pyplot as plt  # noqa: E402  (after the backend is selected)

from lockstep_report.figures.canvas import current, text_size  # noqa: E402
from lockstep_report.figures.svg import svg_of  # noqa: E402
from lockstep_report.runfile.settings import SETTING_PARTS, measured_on, plural, setting_texts  # noqa: E402

SERIES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
MARKERS = "osD^vPX"
STYLE = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "axes.axisbelow": True,
    "axes.formatter.limits": (-12, 12),  # a power of ten above the axis would overlap the title
    "axes.formatter.useoffset": False,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "pdf.fonttype": 42,  # TrueType: texts are embedded and can be searched
    "figure.constrained_layout.use": True,
    "figure.max_open_warning": 0,  # a report has one figure of each kind per setting
}
NO_DATE = {"pdf": {"CreationDate": None}}
DASHED = (0, (4, 3))
IDEAL_LINE = {"color": "#777777", "linewidth": 1, "linestyle": DASHED}


def rc_settings():
    """Returns the settings of Matplotlib for the current canvas."""
    return {**STYLE, "font.size": text_size(), "axes.titlesize": text_size(),
            "legend.fontsize": text_size(), "figure.dpi": current().dpi,
            "lines.linewidth": 1.5 * current().scale}


plt.rcParams.update(rc_settings())


def render(figure, formats=("svg", "png"), name="figure"):
    """Renders a figure in the `formats` (svg, png, pdf) and closes it. Returns {suffix: bytes}; equal
    input gives equal bytes. The identifiers in the SVG of figures with different names differ."""
    images = {}
    with plt.rc_context({"svg.hashsalt": name}):
        for suffix in formats:
            if suffix == "svg":
                images[suffix] = svg_of(figure).encode()
                continue
            buffer = io.BytesIO()
            figure.savefig(buffer, format=suffix, metadata=NO_DATE.get(suffix))
            images[suffix] = buffer.getvalue()
    plt.close(figure)
    return images


def light_grid(axes, axis="y"):
    axes.grid(axis=axis, color="#E5E5E5", linewidth=0.8)
    axes.tick_params(length=0)


def title_of(points):
    setting = points[0].setting
    texts = setting_texts(setting) if len(setting) == len(SETTING_PARTS) else setting
    return ", ".join(text for text in texts if text)


def name_of(point):
    """Returns "1 rank", "4 ranks, overlap"."""
    return point.mode if point.mode.startswith("1 rank") else f"{plural(point.ranks, 'rank')}, {point.mode}"


def short_number(value):
    """Formats with three significant digits, from 1,000 on as an integer without exponent."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def notes_of(points, letters, place_of=lambda note: ""):
    """Returns the lines below a figure: the validity notes of the points with their letters and places, and where the
    points were measured; none on a canvas without notes."""
    if not current().has_notes:
        return []
    return [*(f"({letters[note]}){place_of(note)} {note}" for note in letters if any(note in p.notes for p in points)),
            measured_on(points)]
