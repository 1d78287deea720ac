"""Turns the JSON of an experiment into Markdown and HTML."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from typing import Any

Cell = str | int | float | None
Page = dict[str, Any]

WIDE = 30  # characters beyond which a cell may break into lines


def file_name(result: str, part: str, ending: str) -> str:
    """Return the name of the file that holds a part of a result."""
    return f"{result}-{part}.{ending}"


def _shown(cell: Cell) -> str:
    """Return a cell as read by people."""
    if cell is None:
        return "–"
    if isinstance(cell, int):
        return f"{cell:,}"
    if isinstance(cell, float):
        # Scientific notation only where the digits would not fit.
        return f"{cell:,.0f}" if 1e3 <= abs(cell) < 1e9 else f"{cell:.4g}"
    return cell


def _numeric(sheet: Page) -> list[bool]:
    """Say for each column whether it holds figures, to be aligned on the right."""
    columns = range(len(sheet["columns"]))
    return [not any(isinstance(row[c], str) for row in sheet["rows"]) for c in columns]


# -- Markdown ---------------------------------------------------------------------------------


def to_markdown(page: Page) -> str:
    """Return one experiment as Markdown, pictures by relative link."""
    parts = [f"# {page['title']}", page["text"].strip()]
    for sheet in page["sheets"]:
        parts += [_markdown_table(sheet), _markdown_caption(page, sheet)]
    for picture in page["pictures"]:
        file = file_name(page["name"], picture["name"], "png")
        parts += [f"![{_alternative(picture)}]({file})", picture["caption"]]
    if page["not_reproduced"]:
        parts += ["## Not reproduced", "\n".join(f"- {line}" for line in page["not_reproduced"])]
    return "\n\n".join(part for part in parts if part) + "\n"


def _markdown_table(sheet: Page) -> str:
    numeric = _numeric(sheet)
    lines = [_markdown_row(sheet["columns"])]
    lines.append(_markdown_row(["---:" if right else "---" for right in numeric], escape=False))
    lines += [_markdown_row([_shown(cell) for cell in row]) for row in sheet["rows"]]
    return "\n".join(lines)


def _markdown_row(cells: Sequence[str], *, escape: bool = True) -> str:
    return "| " + " | ".join(_escaped(cell) if escape else cell for cell in cells) + " |"


def _markdown_caption(page: Page, sheet: Page) -> str:
    file = file_name(page["name"], sheet["name"], "csv")
    return f"{sheet['caption']}{_cut(sheet)} ([CSV]({file}))"


def _alternative(picture: Page) -> str:
    """Return what stands for a picture that is not shown; the caption is there anyway."""
    return f"Figure: {picture['name'].replace('-', ' ')}"


def _cut(sheet: Page) -> str:
    more = sheet["n_rows"] - len(sheet["rows"])
    return f" {more:,} more rows in the CSV file." if more else ""


def _escaped(text: str) -> str:
    """Return text that Markdown shows as it is, on one line."""
    return re.sub(r"([\\`*_|<>\[\]])", r"\\\1", " ".join(text.split()))


# -- HTML -------------------------------------------------------------------------------------

STYLE = """
:root { color-scheme: light dark; --text: #1b1f24; --back: #fff; --line: #d5dae0; --dim: #57606a;
  --soft: #f4f6f8; --link: #0057a3; }
@media (prefers-color-scheme: dark) { :root { --text: #e4e8ec; --back: #14171a; --line: #39414a;
  --dim: #a3adb8; --soft: #1e2328; --link: #7ab8f5; } }
body { margin: 0 auto; padding: 1rem; max-width: 62rem; color: var(--text);
  background: var(--back); font: 1rem/1.55 system-ui, sans-serif; overflow-wrap: break-word; }
a { color: var(--link); }
h1 { line-height: 1.2; } h2 { margin-top: 3rem; border-top: 1px solid var(--line);
  padding-top: 1rem; }
nav ul { padding-left: 1.2rem; }
.table { overflow-x: auto; margin-top: 1.5rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .7rem; border-bottom: 1px solid var(--line); text-align: left;
  vertical-align: bottom; overflow-wrap: normal; }
th { background: var(--soft); }
td { white-space: nowrap; } td.w { white-space: normal; min-width: 14rem; }
.n { text-align: right; }
figure { margin: 2rem 0 0; }
img { max-width: 100%; height: auto; background: #fff; border-radius: .4rem; }
.caption, figcaption { color: var(--dim); font-size: .92rem; margin: .4rem 0 0; }
code { background: var(--soft); padding: .05rem .25rem; border-radius: .2rem; }
"""


def to_html(pages: list[Page]) -> str:
    """Return all experiments as one page: no scripts, nothing fetched but the pictures."""
    links = "\n".join(
        f'<li><a href="#{page["name"]}">{_inline(page["title"])}</a></li>' for page in pages
    )
    body = "\n".join(_html_page(page) for page in pages)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>isopivot: the paper's experiments</title>
<style>{STYLE}</style>
</head>
<body>
<h1>The paper's experiments, run again</h1>
<nav><ul>
{links}
</ul></nav>
<main>
{body}
</main>
</body>
</html>
"""


def _html_page(page: Page) -> str:
    name = page["name"]
    parts = [f'<section id="{name}">', f"<h2>{_inline(page['title'])}</h2>"]
    parts += [f"<p>{_inline(text)}</p>" for text in re.split(r"\n\s*\n", page["text"].strip())]
    parts += [_html_table(name, sheet) for sheet in page["sheets"]]
    parts += [_html_picture(name, picture) for picture in page["pictures"]]
    if page["not_reproduced"]:
        lines = "\n".join(f"<li>{_inline(line)}</li>" for line in page["not_reproduced"])
        parts.append(f"<h3>Not reproduced</h3>\n<ul>\n{lines}\n</ul>")
    parts.append(f'<p><a href="{name}.md">The same as Markdown</a></p>\n</section>')
    return "\n".join(parts)


def _html_table(name: str, sheet: Page) -> str:
    right = [" n" if numeric else "" for numeric in _numeric(sheet)]
    lines = [_html_row("th", sheet["columns"], right)]
    lines += [_html_row("td", [_shown(cell) for cell in row], right) for row in sheet["rows"]]
    head, body = lines[0], "\n".join(lines[1:])
    file = file_name(name, sheet["name"], "csv")
    return f"""<div class="table" tabindex="0"><table>
<thead>{head}</thead>
<tbody>
{body}
</tbody></table></div>
<p class="caption">{_inline(sheet["caption"])}{_cut(sheet)} <a href="{file}">CSV</a></p>"""


def _html_row(tag: str, cells: Sequence[str], right: Sequence[str]) -> str:
    parts = []
    for text, side in zip(cells, right, strict=True):
        kind = (side + (" w" if len(text) > WIDE else "")).strip()
        look = f' class="{kind}"' if kind else ""
        scope = ' scope="col"' if tag == "th" else ""
        parts.append(f"<{tag}{scope}{look}>{_inline(text)}</{tag}>")
    return f"<tr>{''.join(parts)}</tr>"


def _html_picture(name: str, picture: Page) -> str:
    small, sharp = (file_name(name, picture["name"], ending) for ending in ("png", "svg"))
    words = _alternative(picture)
    return f"""<figure>
<a href="{sharp}"><img src="{small}" alt="{words}" loading="lazy"></a>
<figcaption>{_inline(picture["caption"])}</figcaption>
</figure>"""


def _inline(text: str) -> str:
    """Return text safe to stand in HTML, words in backticks as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text))
