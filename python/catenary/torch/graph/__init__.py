# SPDX-License-Identifier: Apache-2.0
"""Catenary in torch.compile: the backend, the pass over Inductor's graphs, and what it decided."""

from catenary.torch.graph.backend import backend, compile
from catenary.torch.graph.graph_pass import CatenaryPass, Decision, decisions

__all__ = ["CatenaryPass", "Decision", "backend", "compile", "decisions"]
