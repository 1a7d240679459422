# SPDX-License-Identifier: Apache-2.0
"""The chains of graphs that Inductor keeps in its cache: a graph from the cache holds keys, and no pass registers their
chains again. They are files beside the cache, one per key; the name says whether the key allows PDL."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from catenary.chain import Chain
from catenary.errors import Error
from catenary.torch import operators

_known: set[str] = set()


def _folder() -> Path:
    from torch._inductor.runtime.cache_dir_utils import cache_dir

    return Path(cache_dir()) / "catenary"


_PDL = ".pdl.chain"


def keep(form: operators.Form) -> None:
    """Writes a chain for later processes. A folder that cannot be written keeps nothing: the cache's neither."""
    path = _folder() / f"{form.key}{_PDL if form.pdl else '.chain'}"
    _known.add(path.name)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
            file.write(form.text)
        os.replace(file.name, path)
    except OSError:
        pass


def register_kept() -> None:
    """Registers the chains of earlier processes that this one does not know yet."""
    for path in _folder().glob("*.chain"):
        if path.name in _known:
            continue
        _known.add(path.name)
        try:
            operators.add(Chain.parse(path.read_text()), exact=False, pdl=path.name.endswith(_PDL))
        except (OSError, UnicodeDecodeError, Error):
            continue  # a file of another version: its graphs have another uuid
