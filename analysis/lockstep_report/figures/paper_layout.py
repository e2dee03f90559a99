"""Layout of a figure of a fixed width: all texts are inside the figure and do not overlap. Legends and
notes are below the axes; the height is what they need."""

from matplotlib.lines import Line2D
from matplotlib.text import Text

from lockstep_report.figures.canvas import current, length, text_size
from lockstep_report.figures.layout import ATTEMPTS, draw, fix_layout, missing_space, text_width, wrap, wrap_lines

MARGIN = 0.05  # inches
ROTATIONS = (0, 45, 90)  # of the tick labels of horizontal axes, until they do not overlap
LINE = 1.25  # height of a line relative to the size of its text
HANDLE = 3.6  # width of the symbol of a legend entry and its spaces, relative to the text


def arrange_on_paper(figure, title, notes):
    """As `layout.arrange`, for a figure with the width of the canvas."""
    width, height = current().width, length(figure.get_figheight())
    entries = take_legends(figure)
    labels = [wrap(label, width - 4 * HANDLE * length(0.1), text_size())
              for label in entries]
    columns = legend_columns(labels, width)
    rows = [labels[i::max(1, -(-len(labels) // columns))] for i in range(-(-len(labels) // columns))]
    legend_height = sum(max(label.count("\n") + 1 for label in row) * 1.6 for row in rows) * (
        text_size() / 72) + (0.12 if labels else 0)
    note_text = "\n".join(wrap(note, width - 0.2, text_size(8)) for note in notes)
    note_height = (note_text.count("\n") + 1) * LINE * text_size(8) / 72 + 0.05 if note_text else 0
    title_text = wrap(title, width - 0.2, text_size(11))
    title_height = (title_text.count("\n") + 1) * LINE * text_size(11) / 72 + 0.05 if title else 0
    below = legend_height + note_height
    full = height + below + title_height
    titles = {axes: axes.get_title(loc="left") for axes in figure.axes}
    labels_of_axes = {axes: (axes.get_xlabel(), axes.get_ylabel()) for axes in figure.axes}
    texts = [figure.text(0.5, 1, title_text, ha="center", va="top", fontsize=text_size(11)),
             figure.text(0, 0, note_text, ha="left", va="bottom", fontsize=text_size(8))]
    for text in texts:
        text.set_in_layout(False)
    legend = figure.legend(
        list(entries.values()), labels, loc="lower center", ncol=columns, fontsize=text_size(),
        bbox_to_anchor=(0.5, 0), borderaxespad=0, frameon=False) if labels else None
    if legend:
        legend.set_in_layout(False)
    rotation = 0
    for _ in range(ATTEMPTS):
        figure.set_size_inches(width, full)
        place(figure, full, note_height, title_height, below, texts, legend)
        draw(figure)
        if wrap_texts(figure, titles, labels_of_axes):
            draw(figure)
        wider, higher = missing_space(figure)
        if not wider and not higher:
            break
        if wider and rotation + 1 < len(ROTATIONS):
            rotation += 1
            rotate(figure, ROTATIONS[rotation])
        elif wider:
            thin_out(figure)
        if higher:
            full += 0.12 * (full - below - title_height)
    fix_layout(figure)


def take_legends(figure):
    """Removes the legends of all axes. Returns {label: symbol} of their entries."""
    entries = {}
    for axes in figure.axes:
        legend = axes.get_legend()
        if legend is None:
            continue
        handles = getattr(legend, "legend_handles", None) or legend.legendHandles
        for handle, text in zip(handles, legend.get_texts()):
            entries.setdefault(text.get_text(), symbol_of(axes, handle, text.get_text()))
        legend.remove()
    return entries


def symbol_of(axes, handle, label):
    """Returns the artist of the axes with this label, which the legend draws again."""
    handles, labels = axes.get_legend_handles_labels()
    found = dict(zip(labels, handles)).get(label, handle)
    if isinstance(handle, Line2D) and not isinstance(found, Line2D):
        return handle
    return found


def legend_columns(labels, width):
    """Returns the number of columns of the legend that fit in the width."""
    if not labels:
        return 1
    widest = max(text_width(label) for label in labels) + HANDLE * text_size() / 72
    return max(1, min(len(labels), int((width - 0.1) / (widest + 0.1))))


def place(figure, full, note_height, title_height, below, texts, legend):
    width = current().width
    texts[0].set_position((0.5, 1 - MARGIN / full))
    texts[1].set_position((MARGIN / width, MARGIN / full))
    if legend:
        legend.set_bbox_to_anchor((0.5, (note_height + MARGIN) / full))
    figure.get_layout_engine().set(rect=(
        0, (below + MARGIN) / full, 1, max(0.1, 1 - (below + title_height + 2 * MARGIN) / full)))


def wrap_texts(figure, titles, labels):
    """Breaks the titles and the labels of axes that are longer than the axes. Returns whether a text has
    changed."""
    before = [(a.get_title(loc="left"), a.get_xlabel(), a.get_ylabel()) for a in figure.axes]
    for axes in figure.axes:
        box = axes.get_window_extent().transformed(figure.dpi_scale_trans.inverted())
        room = max(0.8, min(box.width + 0.1, figure.get_figwidth() - box.x0 - 0.1))
        if titles[axes]:
            axes.set_title(wrap_lines(titles[axes], room))
        across, up = labels[axes]
        axes.set_xlabel(wrap_lines(across, max(0.8, box.width)))
        axes.set_ylabel(wrap_lines(up, max(0.8, box.height)))
    return before != [(a.get_title(loc="left"), a.get_xlabel(), a.get_ylabel()) for a in figure.axes]


def rotate(figure, angle):
    for axes in figure.axes:
        axes.tick_params(axis="x", rotation=angle)


def thin_out(figure):
    """Removes every second tick label of horizontal axes whose labels are numbers."""
    for axes in figure.axes:
        ticks = axes.get_xticks()
        labels = [text.get_text() for text in axes.get_xticklabels()]
        if len(ticks) > 3 and len(ticks) == len(labels):
            axes.set_xticks(ticks[::2], labels[::2])


def text_sizes(figure):
    """Returns the sizes in points of all visible texts."""
    return [text.get_fontsize() for text in figure.findobj(Text)
            if text.get_visible() and text.get_text().strip()]
