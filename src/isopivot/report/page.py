"""The page: data in, one HTML file out. Nothing is loaded from elsewhere."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from importlib.resources import files
from typing import Any

SCRIPTS = ("tools.js", "charts.js", "table.js", "main.js")
# In JSON these are only found inside strings, where an escape means the same.
ESCAPES = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}


def render(data: dict[str, Any], library: str) -> str:
    """Return the HTML of a report.

    Parameters
    ----------
    data : dict
        What `collect` returned.
    library : str
        Source of plotly.js.
    """
    # The hash of a script is taken after the parser made every line end a newline.
    library = library.replace("\r\n", "\n").replace("\r", "\n")
    program = "\n".join(_asset(name) for name in SCRIPTS)
    program = f'(function () {{\n"use strict";\n{program}\n}})();\n'
    parts = {
        "policy": policy((library, program)),
        "title": html.escape(data["title"].encode("utf-8", "replace").decode("utf-8")),
        "style": _asset("style.css"),
        "words": words(data["words"]),
        "facts": facts(data["facts"]),
        "notes": notes(data),
        "data": as_json(data),
        "library": library,
        "program": program,
    }
    # One pass, so that no part can smuggle in the name of another.
    return re.sub(r"\{\{ (\w+) \}\}", lambda found: parts[found[1]], _asset("template.html"))


def policy(scripts: tuple[str, ...]) -> str:
    """Return a Content-Security-Policy: these scripts run, and nothing reaches the network."""
    hashes = (hashlib.sha256(script.encode()).digest() for script in scripts)
    allowed = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in hashes)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; "
        "img-src data: blob:; form-action 'none'; base-uri 'none'"
    )


def as_json(data: dict[str, Any]) -> str:
    """Return JSON that can stand in a script element, whatever the strings say."""
    lean = {key: value for key, value in data.items() if key not in ("words", "facts")}
    plain = json.dumps(lean, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    # Half a surrogate pair, as broken file names have them, cannot be written as UTF-8.
    return plain.translate(ESCAPES).encode("utf-8", "backslashreplace").decode("utf-8")


def words(said: dict[str, Any]) -> str:
    """Return the certificate as HTML, readable without scripts."""
    state = "good" if said["certified"] else "bad"
    paragraphs = "".join(
        f"<div><h3>{html.escape(heading)}</h3><p>{html.escape(paragraph)}</p></div>"
        for heading, paragraph in said["paragraphs"]
    )
    return (
        f'<p class="badge {state}">{html.escape(said["badge"])}</p>'
        f'<p class="headline">{html.escape(said["headline"])}</p>'
        f'<div class="words">{paragraphs}</div>'
        "<details><summary>The certificate as the model states it</summary>"
        f"<p>{html.escape(said['details'])}</p></details>"
    )


def facts(pairs: list[tuple[str, str]]) -> str:
    """Return the headline numbers as HTML."""
    return "".join(
        f"<div><dd>{html.escape(value)}</dd><dt>{html.escape(label)}</dt></div>"
        for label, value in pairs
    )


def notes(data: dict[str, Any]) -> str:
    """Return what the reader must know about which rows are shown, as HTML."""
    rows = data["rows"]
    said = []
    if rows["shown"] < rows["of"]:
        said.append(
            f"Of {rows['of']:,} rows this page shows {rows['shown']:,}: the dictionary and the "
            "oddest rows, and the others by lot. The chart of rates counts all of them."
        )
    if rows["drawn"] < rows["shown"]:
        said.append(f"Pictures draw {rows['drawn']:,} of these rows, chosen the same way.")
    if not data["training"]:
        said.append(
            "The rows shown could not be recognised as the rows the model learnt from, in their "
            "order. Dictionary members are called by their row number in training."
        )
    return "".join(f'<p class="note">{html.escape(sentence)}</p>' for sentence in said)


def _asset(name: str) -> str:
    return files("isopivot.report").joinpath("assets", name).read_text(encoding="utf-8")
