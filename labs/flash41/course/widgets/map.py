"""The map: ten blocks in four columns, what travels between them, and the path that a token takes."""

from __future__ import annotations

from html import escape

from ...config import Config
from ..atlas import LANGUAGES, PLACES, REPOSITORY, Atlas, Block, Edge, atlas
from .host import widget


def show_map(highlight: str = "", config: Config | None = None, trace: dict | None = None, language: str = "en"):
    """The map of the model, with the card of one block open.

    highlight: a label 1A … 6B, or "" for none. config: whose shapes and bytes to show, by default the released model's.
    trace: facts of one run, label -> list of {"what": text, "value": text or number}; they appear on the cards.
    language: "en", "vi" or "zh"; the map has a switch. In a notebook `.selected` is the open card, and setting it opens one.
    Raises ValueError for an unknown label or language and for a trace of another form.
    """
    if highlight not in ("", *PLACES):
        raise ValueError(f"highlight = {highlight!r}, must be '' or one of {list(PLACES)}")
    if language not in LANGUAGES:
        raise ValueError(f"language = {language!r}, must be one of {list(LANGUAGES)}")
    facts = _checked(trace or {})
    drawn = atlas(config)
    return widget("map", _data(drawn, facts, language), _table(drawn), selected=highlight)


def _checked(trace: dict) -> dict[str, list[dict]]:
    """The trace with its values as text."""
    if not isinstance(trace, dict) or not set(trace) <= set(PLACES):
        raise ValueError(f"trace must map labels of {list(PLACES)} to lists of facts, got {trace!r:.200}")
    for label, facts in trace.items():
        if not isinstance(facts, list | tuple) or not all(isinstance(f, dict) and {"what", "value"} <= set(f) for f in facts):
            raise ValueError(f"trace[{label!r}] must be a list of {{'what': …, 'value': …}}, got {facts!r:.200}")
    return {label: [{"what": str(f["what"]), "value": _text(f["value"])} for f in facts] for label, facts in trace.items()}


def _text(value) -> str:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _data(drawn: Atlas, trace: dict, language: str) -> dict:
    """The atlas as the picture reads it: a text is a string where all languages agree, else one string per language."""
    def text(words):
        return words[0] if len(set(words)) == 1 else list(words)

    def block(b: Block) -> dict:
        return {
            "label": b.label, "column": b.column, "short": text(b.short), "name": text(b.name), "tag": text(b.tag),
            "purpose": text(b.purpose), "facts": [{"what": text(fact.what), "value": fact.value} for fact in b.facts],
            "links": _links(b), **({"reading": text(b.reading)} if b.reading else {}),
            **({"trace": trace[b.label]} if b.label in trace else {}),
        }  # fmt: skip

    return {
        "languages": [[key, name] for key, name in LANGUAGES.items()], "language": language, "repository": REPOSITORY,
        "ui": {key: text(words) for key, words in drawn.ui.items()},
        "columns": [{"number": number, "title": text(title)} for number, title in drawn.columns.items()],
        "blocks": [block(b) for b in drawn.blocks.values()],
        "edges": [[e.source, e.target, e.kind, text(e.what), e.shape] for e in drawn.edges],
        "paths": [{"mode": mode, "name": text(name), "steps": [[s.label, s.edges, text(s.what)] for s in steps]}
                  for mode, (name, steps) in drawn.paths.items()],
    }  # fmt: skip


def _links(b: Block) -> list[dict]:
    """Where a block is explained, tried and written down; a page that does not exist yet is named and not linked."""
    links = [{"kind": "chapter", "path": b.chapter, "ready": b.has_chapter}]
    links += [{"kind": "more", "path": page, "ready": True} for page in b.pages]
    links += [{"kind": "lab", "path": b.lab, "ready": b.has_lab}]
    return links + [{"kind": "code", "path": f"labs/flash41/{module}.py", "ready": True} for module in b.modules]


# -- without JavaScript, and on paper ------------------------------------------------------------------------------------


def _table(drawn: Atlas) -> str:
    """The same ten cards as a table in English, with the names in all three languages; each row is the target of #LABEL."""
    rows = "".join(_row(drawn, block) for block in drawn.blocks.values())
    heads = "".join(f'<th scope="col">{text}</th>' for text in ("Block", "What it does", "In and out", "Numbers"))
    widths = "".join(f'<col style="width: {share}%">' for share in (17, 29, 31, 23))
    caption = "<caption>The ten blocks, along the path of a token</caption>"
    return f"<table>{caption}<colgroup>{widths}</colgroup><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>"


def _page_name(doc: str) -> str:
    """ "ladder/mla" of book/ladder/mla, "lab 3B" of labs/student/3B/3B."""
    return f"lab {doc.rsplit('/', 1)[1]}" if doc.startswith("labs/") else doc.removeprefix("book/")


def pages_of(b: Block) -> list[str]:
    """The pages of the book that a card leads to: its chapter, others that speak of it, its lab step."""
    return [*([b.chapter] if b.has_chapter else []), *b.pages, *([b.lab] if b.has_lab else [])]


def _row(drawn: Atlas, b: Block) -> str:
    names = f'{escape(b.name.en)}<br><span lang="vi">{escape(b.name.vi)}</span><br><span lang="zh">{escape(b.name.zh)}</span>'
    docs = [page.rsplit(".", 1)[0] for page in pages_of(b)]
    see = "".join(f'<br><a data-doc="{doc}">{_page_name(doc)}</a>' for doc in docs)
    moves = [_move("from", edge.source, edge) for edge in b.inputs] + [_move("to", edge.target, edge) for edge in b.outputs]
    facts = "<br>".join(f"{escape(fact.what.en)}: {escape(fact.value)}" for fact in b.facts)
    note = f"<br><em>{escape(b.reading.en)}</em>" if b.reading else ""
    column = f"column {b.column}: {escape(drawn.columns[b.column].en)}"
    return (
        f'<tr id="{b.label}"><th scope="row">{b.label} · {names}</th><td>{escape(b.purpose.en)}{note}<br>{column}{see}</td>'
        f'<td>{"<br>".join(moves)}</td><td>{facts}</td></tr>'
    )


def _move(way: str, other: str, edge: Edge) -> str:
    return f"{way} {other or 'outside'}: {escape(edge.what.en)} <code>{escape(edge.shape)}</code>"
