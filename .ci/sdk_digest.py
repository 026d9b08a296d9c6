#!/usr/bin/env python3
"""Writes the header that says what plugins are compiled against: the version and a digest of the gadget API's code.

    .ci/sdk_digest.py OUTPUT VERSION HEADER...     names of headers relative to the folder it runs in

Two sets of headers have one digest where they differ in comments and white space only. OUTPUT is written only if its text
changes, so that a changed comment does not recompile anything.
"""

import hashlib
import pathlib
import re
import sys

TOKEN = re.compile(
    r"""
    (?P<comment> //[^\n]* | /\*.*?\*/ )
  | (?P<text> [uUL8]*R"(?P<fence>[^\s()\\]{0,16})\(.*?\)(?P=fence)"   # a raw string
           | "(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*'
           | \.?\d(?:[eEpP][+-]|'\w|[\w.])*                            # a number, whose digits ' may part
           | \w+ )
  | (?P<newline> \n )
  | (?P<space> [^\S\n]+ )
  | (?P<sign> (?:(?!//|/\*)[^\w\s"'])+ )
  | (?P<other> . )
    """,
    re.VERBOSE | re.DOTALL,
)


def code_of(source):
    """The tokens of `source`, one space between each two; a directive of the preprocessor keeps the end of its line."""
    words, directive, line_begins = [], False, True
    for match in TOKEN.finditer(source.replace("\\\n", "")):
        kind = match.lastgroup if match.lastgroup != "fence" else "text"
        if kind == "newline":
            if directive:
                words.append("\n")
            directive, line_begins = False, True
        elif kind not in ("comment", "space"):
            directive = directive or (line_begins and match.group().startswith("#"))
            line_begins = False
            words.append(match.group())
    return " ".join(words)


def digest_of(headers):
    """16 hexadecimal digits for {name: text of the header}."""
    whole = hashlib.sha256()
    for name in sorted(headers):
        code = code_of(headers[name])
        whole.update(f"{name} {len(code)}\n{code}\n".encode())
    return whole.hexdigest()[:16]


def main(output, version, *names):
    digest = digest_of({name: pathlib.Path(name).read_text(encoding="utf-8") for name in names})
    text = f'#pragma once\n\n#define ECHOTRAIN_SDK_DIGEST "{version}-{digest}"\n'
    path = pathlib.Path(output)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
