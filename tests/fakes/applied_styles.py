"""Chooses style rules once for all widgets in the same place and state.

Textual compares a widget and its ancestors with every rule that may concern it, which is a tenth of a cockpit's time.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from textual.css.model import RuleSet
from textual.css.styles import RulesMap
from textual.css.stylesheet import Stylesheet
from textual.dom import DOMNode

_apply = Stylesheet.apply
_replace_rules = Stylesheet.replace_rules
_MOST = 5_000
_NO_RULES: RulesMap = {}
"""What no rule concerns, which keeps what it has."""
_BY_ORDER = {"first-of-type", "last-of-type", "first-child", "last-child", "empty"}


@dataclass(eq=False)
class _Candidates:
    """Holds the rules that may concern a widget, and their result for each path."""

    pseudo_classes: tuple[str, ...]
    known: dict[tuple[Any, ...], RulesMap] = field(default_factory=dict)
    _checks: dict[Any, Sequence[Callable[[Any], bool]]] = field(default_factory=dict)

    @classmethod
    def of(cls, rules: tuple[RuleSet, ...]) -> _Candidates:
        return cls(tuple(sorted(set[str]().union(*(rule.pseudo_classes for rule in rules)))))

    @cached_property
    def flags(self) -> tuple[bool, bool, bool, bool]:
        """Return which news of a node Textual has to style it again for."""
        named = set(self.pseudo_classes)
        return "hover" in named, "focus-within" in named, bool(named & _BY_ORDER), bool(named & {"odd", "even"})

    def path(self, node: DOMNode) -> tuple[Any, ...]:
        """Return all that selectors of these rules ask of the node and its ancestors."""
        parts: list[Any] = []
        above: Any = node
        while isinstance(above, DOMNode):
            parts += self.own(above)
            above = above._parent
        return tuple(parts)

    def own(self, node: DOMNode) -> tuple[Any, ...]:
        """Return what selectors of these rules ask of the node itself."""
        kind: Any = type(node)
        if (checks := self._checks.get(kind)) is None:
            known = kind._PSEUDO_CLASSES
            checks = self._checks[kind] = [known[name] for name in self.pseudo_classes if name in known]
        return kind, node._id, frozenset(node._classes), *[check(node) for check in checks]


_all: dict[tuple[RuleSet, ...], _Candidates] = {}
_by_sheet: weakref.WeakKeyDictionary[Stylesheet, tuple[list[RuleSet], dict[Any, _Candidates]]]
_by_sheet = weakref.WeakKeyDictionary()

_unknown: list[tuple[DOMNode, tuple[Any, ...], dict[tuple[Any, ...], RulesMap]]] = []
"""The nodes whose rules Textual is choosing, the innermost last."""


def _find_candidates(stylesheet: Stylesheet, node: DOMNode) -> _Candidates:
    rules, by_kind = _by_sheet.get(stylesheet, ([], {}))
    if rules is not stylesheet.rules:
        rules, by_kind = _by_sheet[stylesheet] = stylesheet.rules, {}
    kind = type(node), node._id, frozenset(node._classes)  # they decide which names a selector may call it by
    if (found := by_kind.get(kind)) is None:
        names = node._selector_names & stylesheet.rules_map.keys()
        limited = {rule for name in names for rule in stylesheet.rules_map[name]}
        concerned = tuple(rule for rule in rules if rule in limited)
        if len(_all) > _MOST:
            _all.clear()
        found = by_kind[kind] = _all.get(concerned) or _all.setdefault(concerned, _Candidates.of(concerned))
    return found


def apply_known(stylesheet: Stylesheet, node: DOMNode, *, animate: bool = False, cache: Any = None) -> None:
    """Apply a stylesheet to a node as Textual does. Use again the rules that a node like it has got before."""
    candidates = _find_candidates(stylesheet, node)
    path = candidates.path(node)
    if (rules := candidates.known.get(path)) is None:
        _unknown.append((node, path, candidates.known))
        try:
            _apply(stylesheet, node, animate=animate)
        finally:
            if _unknown and _unknown[-1][0] is node:
                _unknown.pop()
                candidates.known[path] = _NO_RULES
        return
    flags = candidates.flags
    node._has_hover_style, node._has_focus_within, node._has_order_style, node._has_odd_or_even = flags
    if rules is not _NO_RULES:
        stylesheet.replace_rules(node, rules, animate=animate)
    stylesheet._process_component_classes(node)


def process_changed_components(stylesheet: Stylesheet, node: DOMNode) -> None:
    """Style the parts of a widget whose rules changed, as Textual does. Their nodes are kept."""
    if not (classes := node._get_component_classes()):
        return
    parts: dict[str, DOMNode] = node.__dict__.setdefault("_parts", {})
    paths: dict[tuple[str, ...], tuple[Any, ...]] = {}
    has_changed = False
    for name in sorted(classes):
        if (part := parts.get(name)) is None:
            part = parts[name] = DOMNode(classes=name)
            part._attach(node)
        candidates = _find_candidates(stylesheet, part)
        if (path := paths.get(candidates.pseudo_classes)) is None:
            path = paths[candidates.pseudo_classes] = candidates.path(node)
        asked = candidates, candidates.own(part), path
        if name not in node._component_styles or asked != part.__dict__.get("_asked"):
            part.__dict__["_asked"] = asked
            apply_known(stylesheet, part)
            node._component_styles[name] = part.styles
            has_changed = True
    if has_changed:
        node.refresh()


def replace_changed(node: DOMNode, rules: RulesMap, animate: bool = False) -> None:
    """Replace style rules as Textual does, except those that stay the same object; remember them."""
    if _unknown and _unknown[-1][0] is node:
        _, path, known = _unknown.pop()
        known[path] = rules
    # Nothing else changes these styles, but a transition.
    before, node.__dict__["_styled"] = node.__dict__.get("_styled"), rules
    if before is rules and "transitions" not in rules:
        node.notify_style_update()
        return
    base: Any = node.styles.base
    now: dict[str, Any] = base._rules
    new: dict[str, Any] = dict(rules)
    if animate and "transitions" in new:  # only such rules are replaced in steps
        _replace_rules(node, rules, animate=True)
        return
    wanted: dict[frozenset[tuple[str, bool]], None] = {}
    base.__dict__["refresh"] = lambda **more: wanted.setdefault(frozenset(more.items()))
    try:
        for name in now.keys() | new.keys():
            if (value := new.get(name)) is None or now.get(name) is not value:
                setattr(base, name, value)
    finally:
        del base.__dict__["refresh"]
    for more in wanted:  # once: Textual refreshes all widgets inside for each rule
        base.refresh(**dict(more))
    node.notify_style_update()
