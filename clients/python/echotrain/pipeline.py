"""The pipeline that a client asks for: its name, or a pipeline of its own, and a token where the server wants one."""

from __future__ import annotations

import json
import os
import pathlib
import re
import textwrap
from typing import Any, Mapping, Optional, Union

from . import codec
from .errors import ScanError

Pipeline = Union[str, "os.PathLike[str]", Mapping[str, Any], None]

_NAME = re.compile(r"[A-Za-z0-9._-]*")


def pipeline_text(pipeline: Pipeline) -> Optional[str]:
    """The YAML text of the caller's own pipeline, or None for one that the server has.

    A mapping becomes JSON, which is YAML. A path, or a string that ends with .yaml or .yml and is a file here, is
    read. A string of several lines, or with a ':', is the text itself.
    """
    if pipeline is None:
        return None
    if isinstance(pipeline, Mapping):
        try:
            return json.dumps(pipeline, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
        except (TypeError, ValueError) as error:
            raise ScanError(f"the pipeline cannot be written as YAML: {error}") from None
    if not isinstance(pipeline, str):
        return _read(pathlib.Path(pipeline))
    if "\n" in pipeline or ":" in pipeline:
        return textwrap.dedent(pipeline)
    if pipeline.endswith((".yaml", ".yml")) and os.path.isfile(pipeline):
        return _read(pathlib.Path(pipeline))
    if not _NAME.fullmatch(pipeline):
        raise ScanError(f"pipeline '{pipeline}': no such .yaml file, and a name has letters, digits and ._- only")
    return None


def _read(path: pathlib.Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ScanError(f"pipeline {path}: cannot be read: {error}") from None


def with_token(text: str, token: str) -> str:
    """YAML text with the key `token` at its beginning, where servers look for it before they read anything."""
    first = re.search(r"^(?!\s*(#|---|$)).*", text, re.MULTILINE)
    if first and first[0].lstrip().startswith("{"):
        brace = first.start() + first[0].index("{") + 1
        comma = "" if text[brace:].lstrip().startswith("}") else ", "
        lines = "\n" * text.count("\n", 0, brace)  # what is above may only be comments
        return f'{lines}{{"token": {json.dumps(token)}{comma}{text[brace:]}'
    quoted = "'" + token.replace("'", "''") + "'"
    begin = re.match(r"---[ \t]*\r?\n", text)  # of a document
    at = begin.end() if begin else 0
    return f"{text[:at]}token: {quoted}\n{text[at:]}"


def encode_pipeline(pipeline: Pipeline, token: str = "") -> bytes:
    """The message that begins a measurement; nothing for the server's default pipeline."""
    text = pipeline_text(pipeline)
    if token and any(ord(c) < 32 for c in token):
        raise ScanError("a token is one line of text")
    if text is not None:
        return codec.encode_config(with_token(text, token) if token else text)
    name = str(pipeline or "")
    if token:
        return codec.encode_config(with_token(f"use: '{name}'\n" if name else "", token))
    return codec.encode_name(name) if name else b""
