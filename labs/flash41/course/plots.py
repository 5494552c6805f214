"""Figures that read well on paper, in light and in dark: inline SVG whose text takes the page's own colour.

A figure is drawn with matplotlib as usual and handed to `show` with a text for those who cannot see it. Series colours are
Okabe and Ito's, which survive colour blindness and a grey printer; markers and line styles differ as well.
"""

from __future__ import annotations

import html
import io
import re
from dataclasses import dataclass
from itertools import count

import matplotlib
from matplotlib.figure import Figure

from ..budget import ladder_steps
from ..config import Config

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")
INK = "#010203"  # drawn in this colour, replaced by the page's text colour in the finished SVG
FAINT = "#807f7e"

STYLE = {
    "axes.edgecolor": INK, "axes.labelcolor": INK, "text.color": INK, "xtick.color": INK, "ytick.color": INK,
    "axes.facecolor": "none", "figure.facecolor": "none", "legend.frameon": False,
    "axes.spines.top": False, "axes.spines.right": False, "axes.titlelocation": "left", "axes.titlesize": 11.5,
    "axes.grid": False, "grid.color": FAINT, "grid.alpha": 0.4, "font.size": 10.5, "svg.fonttype": "path",
    "axes.prop_cycle": matplotlib.cycler(color=COLOURS, marker=["o", "s", "^", "D", "v", "P"], linestyle=["-", "--", "-.", ":", "-", "--"]),
}  # fmt: skip

_serial = count()


@dataclass(frozen=True)
class Picture:
    """An SVG and the text that stands for it. Notebooks and pages show it as it is."""

    svg: str
    alt: str

    def _repr_html_(self) -> str:
        return f'<div class="flash41-figure">{self.svg}</div>'

    def __repr__(self) -> str:
        return f"Figure: {self.alt}"


def figure(width: float = 5.8, height: float = 3.2, **subplots):
    """A matplotlib figure and its axes in the course's style, sizes in inches. Finish it with `show`.

    The default width keeps letters legible when a phone shrinks the picture to 340 pixels.
    """
    with matplotlib.rc_context(STYLE):
        fig = Figure(figsize=(width, height), layout="constrained")
        return fig, fig.subplots(**subplots)


def show(fig: Figure, alt: str) -> Picture:
    """Turn a figure into a Picture. `alt` says what it shows, with its numbers; an empty one is refused."""
    if not alt.strip():
        raise ValueError("alt = '': a figure needs a text for readers who cannot see it")
    _ink(fig)
    serial = next(_serial)
    buffer = io.StringIO()
    with matplotlib.rc_context(STYLE | {"svg.hashsalt": f"flash41-{serial}"}):
        fig.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    return Picture(_inline(buffer.getvalue(), alt, f"fig{serial}-"), alt)


def _ink(fig: Figure) -> None:
    """Give what was drawn in matplotlib's default black the page's colour, and move titles to the left edge."""
    for artist in fig.findobj(lambda artist: hasattr(artist, "get_color") and hasattr(artist, "set_color")):
        if isinstance(artist.get_color(), str) and artist.get_color() in ("black", "k"):
            artist.set_color(INK)
        arrow = getattr(artist, "arrow_patch", None)
        if arrow is not None and arrow.get_edgecolor() == (0, 0, 0, 1):
            arrow.set_color(INK)
    for ax in fig.axes:
        if legend := ax.get_legend():
            legend.set_frame_on(False)
        if title := ax.get_title(loc="center"):
            ax.set_title("", loc="center")
            ax.set_title(title, loc="left", color=INK, fontsize=STYLE["axes.titlesize"])


def _inline(svg: str, alt: str, prefix: str) -> str:
    """Make a matplotlib SVG part of a page: own ids, fluid width, the page's text colour, a name for screen readers."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.S)
    svg = re.sub(r'\bid="', f'id="{prefix}', svg)
    svg = re.sub(r'(href="#|url\(#)', rf"\g<1>{prefix}", svg)
    svg = svg.replace(INK, "currentColor")
    width = re.search(r'width="([\d.]+)pt"', svg)[1]
    svg = re.sub(r'width="[\d.]+pt" height="[\d.]+pt"|height="[\d.]+pt" width="[\d.]+pt"', "", svg, count=1)
    name = html.escape(alt, quote=True)
    opening = f'<svg role="img" aria-label="{name}" style="width:100%;height:auto;max-width:{1.2 * float(width):.0f}pt"'
    return svg.replace("<svg", opening, 1)


# -- pictures that several pages share ---------------------------------------------------------------------------------


def bars(labels: list[str], values: list[float], title: str, unit: str, *, log: bool = True, lit: int | None = None) -> Picture:
    """Horizontal bars, each with its value written beside it; `lit` is the one that the page is about."""
    fig, ax = figure(height=0.55 + 0.42 * len(labels))
    places = range(len(labels))[::-1]
    shades = [COLOURS[0] if lit in (None, row) else FAINT for row in range(len(labels))]
    ax.barh(places, values, color=shades, height=0.62)
    ax.set_yticks(list(places), labels)
    if log:
        ax.set_xscale("log")
        ax.set_xlim(min(values) / 3, max(values) * 12)
    else:
        ax.set_xlim(0, max(values) * 1.22)
    for place, value in zip(places, values, strict=True):
        ax.annotate(f"{value:,.6g}" if value < 1e6 else f"{value:,.0f}", (value, place), xytext=(4, 0), textcoords="offset points", va="center")
    ax.set_xlabel(unit + (", logarithmic" if log else ""))
    ax.set_title(title)
    pairs = "; ".join(f"{label}: {value:,.10g}" for label, value in zip(labels, values, strict=True))
    return show(fig, f"Bar chart. {title}. {unit}: {pairs}.")


def ladder_strip(here: str) -> Picture:
    """The price of a token on every rung, the rung of this page lit. here: "mha", "gqa", "mla" or "budget"."""
    rungs = {"mha": "MHA, 64 heads", "gqa": "MQA, one head", "mla": "one latent", "budget": "4 layers, pairs, FP4"}
    if here not in rungs:
        raise ValueError(f"here = {here!r}, must be one of {sorted(rungs)}")
    steps = {step.name: step.bytes_per_token for step in ladder_steps(Config.flash())}
    values = [steps["mha"], steps["mqa"], steps["latent"], steps["index"]]
    return bars(list(rungs.values()), values, "Bytes of cache per token, 40 layers", "B per token", lit=list(rungs).index(here))
