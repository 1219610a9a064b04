"""Markdown to the text that a reader would say."""

from __future__ import annotations

from typing import TYPE_CHECKING

import regex
from markdown_it import MarkdownIt

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from markdown_it.token import Token

# Quotes and lists are taken off line by line below: the parser drops what is nested too deeply.
# Links are taken out afterwards: the parser is quadratic on brackets that never close. Indented
# code and definitions are off because ordinary text looks like them ("[Ann]: hello"), and so is
# HTML: its names are listed below, so that List<String> and 1 < 2 survive.
PARSER = (
    MarkdownIt("commonmark", {"html": False})
    .enable(["table", "strikethrough"])
    .disable(["blockquote", "code", "image", "link", "list", "reference"])
)

RULE = regex.compile(r"^[ \t]*(?:(?:\*[ \t]*+){3,}|(?:-[ \t]*+){3,}|(?:_[ \t]*+){3,})$", regex.M)
LINE_MARKS = regex.compile(
    r"^[ \t]*+(?:>(?![ \t]?[\d=])[ \t]*+|[-*+•‣◦▪●][ \t]++(?:\[[ xX]\][ \t]++)?)+", regex.M
)
# A star between letters or digits is a product ("2*3*4"), though CommonMark makes it italics.
PRODUCT = regex.compile(r"(?<=[0-9A-Za-z)])\*(?=[0-9A-Za-z(])")
STAR = "\uf8ff"  # a private character: none is left in a text that was cleaned

IMAGE = regex.compile(r"!\[([^\[\]]*+)\]\([^()\s]*+(?:\([^()\s]*+\)[^()\s]*+)*+(?:\s[^()]*+)?\)")
LINK = regex.compile(
    r"\[((?:[^\[\]]|\[[^\[\]]*+\])*+)\]\([^()\s]*+(?:\([^()\s]*+\)[^()\s]*+)*+(?:\s\"[^\"]*+\")?\)"
)
FOOTNOTE = regex.compile(r"\[\^[^\[\]\s]++\]")
# CommonMark leaves stars that stand between a Chinese letter and a quotation mark.
BOLD_IN_CHINESE = regex.compile(r"(?<![0-9A-Za-z*])\*\*(?=[^\s*])([^*\n]*+)(?<!\s)\*\*")
LAST_CELL = regex.compile(r"(?:, )++\n")
LINE_TAG = regex.compile(
    r"</?(?:br|p|div|h[1-6]|li|ul|ol|tr|table|hr|blockquote|pre|section|article)"
    r"(?:\s[^<>]*+)?/?>",
    regex.I,
)
INLINE_TAG = regex.compile(
    r"</?(?:a|abbr|b|big|center|cite|code|del|details|dfn|em|font|i|img|ins|kbd|mark|q|s|samp|"
    r"small|span|strike|strong|sub|summary|sup|t[dh]|tbody|thead|tt|u|var)(?:\s[^<>]*+)?/?>"
    r"|<!--(?:[^<-]|-(?!->))*+-->",
    regex.I,
)
CLOSING_TAG = regex.compile(r"</([a-z][a-z0-9-]{0,30})\s*+>")
TAG = regex.compile(r"</?([a-z][a-z0-9-]{0,30})(?:\s[^<>]*+)?/?>")


def plain(text: str) -> str:
    """Return what a reader would say of a text that may be Markdown; other text stays as it is.

    Numbers of ordered lists stay, because they are read; table cells are joined with commas.
    """
    lines = LINE_MARKS.sub("", RULE.sub("", _without_pairs(text)))
    tokens = PARSER.parse(PRODUCT.sub(STAR, lines))
    return LAST_CELL.sub("\n", "".join(_blocks(tokens))).replace(STAR, "*")


def _without_pairs(text: str) -> str:
    """Take out tags of any name that are closed in the text, such as <think> and </think>."""
    closed = {name for name in CLOSING_TAG.findall(text) if not LINE_TAG.fullmatch(f"<{name}>")}
    return TAG.sub(lambda match: "" if match[1] in closed else match[0], text)


def _blocks(tokens: Sequence[Token]) -> Iterator[str]:
    for token in tokens:
        if token.type == "inline":
            yield _inline(token.children or ())
        elif token.type == "fence":
            # Without lines of code, the "language" is a text after marks that merely look so.
            yield f"{token.content or token.info}\n"
        elif token.type in ("td_close", "th_close"):
            yield ", "
        elif token.type == "tr_close":
            yield "\n"
        elif token.nesting < 0:
            yield "\n\n"


def _inline(tokens: Sequence[Token]) -> str:
    breaks = {"softbreak": "\n", "hardbreak": "\n"}
    text = "".join(breaks.get(token.type, token.content) for token in tokens)
    text = INLINE_TAG.sub("", LINE_TAG.sub("\n", text))
    text = LINK.sub(r"\1", IMAGE.sub(r"\1", text))
    return BOLD_IN_CHINESE.sub(r"\1", FOOTNOTE.sub("", text))
