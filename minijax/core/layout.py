"""Laying text out within a width: documents with places where a line may break.

A group is printed on one line if it fits into what is left of the line; otherwise its
own breaks become line breaks, and each group inside is asked in turn. The width that a
document takes on one line is known when it is made, so layout takes one pass.

Source: Wadler, "A prettier printer" (2003); Lindig, "Strictly pretty" (2000).
"""

from __future__ import annotations

from collections.abc import Sequence


class Doc:
    """A document; `width` is what it takes on one line."""

    __slots__ = ("width",)
    width: int


class Text(Doc):
    """Text that is never broken."""

    __slots__ = ("text",)

    def __init__(self, text: str):
        self.text = text
        self.width = len(text)


class Break(Doc):
    """A line break, or `text` where its group is on one line."""

    __slots__ = ("text",)

    def __init__(self, text: str):
        self.text = text
        self.width = len(text)


class Concat(Doc):
    """Documents one after the other."""

    __slots__ = ("parts",)

    def __init__(self, parts: Sequence[Doc]):
        self.parts = parts
        self.width = sum(p.width for p in parts)


class Nest(Doc):
    """A document whose lines, after the first, are indented by more."""

    __slots__ = ("by", "doc")

    def __init__(self, doc: Doc, by: int):
        self.doc = doc
        self.by = by
        self.width = doc.width


class Group(Doc):
    """A document that is on one line if it fits there."""

    __slots__ = ("doc",)

    def __init__(self, doc: Doc):
        self.doc = doc
        self.width = doc.width


def lay_out(doc: Doc, width: int) -> str:
    """The text of a document, in lines of at most `width` characters where possible.

    >>> items = Concat([Text("a,"), Break(" "), Text("b")])
    >>> lay_out(Group(items), 4)
    'a, b'
    >>> print(lay_out(Group(items), 3))
    a,
    b
    """
    out: list[str] = []
    column = 0
    todo: list[tuple[Doc, int, bool]] = [(Group(doc), 0, False)]
    while todo:
        doc, indent, flat = todo.pop()
        if isinstance(doc, Concat):
            todo.extend((p, indent, flat) for p in reversed(doc.parts))
        elif isinstance(doc, Nest):
            todo.append((doc.doc, indent + doc.by, flat))
        elif isinstance(doc, Group):
            todo.append((doc.doc, indent, flat or doc.width <= width - column))
        elif isinstance(doc, Break) and not flat:
            out.append("\n" + " " * indent)
            column = indent
        elif isinstance(doc, (Text, Break)):
            out.append(doc.text.replace("\n", "\n" + " " * column))
            column += len(doc.text.rpartition("\n")[2])
    return "".join(out)
