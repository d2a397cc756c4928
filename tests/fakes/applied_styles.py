"""Chooses style rules once for all widgets in the same place and state.

Textual compares a widget and its ancestors with every rule that may concern it, which is a tenth of a cockpit's time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from textual.css.model import CombinatorType, RuleSet, Selector, SelectorType
from textual.css.styles import RulesMap
from textual.css.stylesheet import Stylesheet
from textual.dom import DOMNode

_apply = Stylesheet.apply
_replace_rules = Stylesheet.replace_rules
_MOST = 5_000
_NO_RULES: RulesMap = {}
"""What no rule concerns, which keeps what it has."""
_BY_ORDER = {"first-of-type", "last-of-type", "first-child", "last-child", "empty"}
_SYSTEM = "-textual-system"
"""The class of widgets that no universal selector matches."""


@dataclass(eq=False)
class _Candidates:
    """Holds the rules that may concern a widget, and their result for each path."""

    selectors: Sequence[Selector]
    known: dict[tuple[Any, ...], RulesMap] = field(default_factory=dict)
    _matches: dict[tuple[Any, ...], tuple[int, Sequence[Callable[[Any], bool]]]] = field(default_factory=dict)
    _numbers: dict[tuple[Any, ...], int] = field(default_factory=lambda: {(): 0})

    @classmethod
    def of(cls, rules: Sequence[RuleSet]) -> _Candidates:
        return cls([selector for rule in rules for each in rule.selector_set for selector in each.selectors])

    @cached_property
    def flags(self) -> tuple[bool, bool, bool, bool]:
        """Return which news of a node Textual has to style it again for."""
        named = set[str]().union(*(selector.pseudo_classes for selector in self.selectors))
        return "hover" in named, "focus-within" in named, bool(named & _BY_ORDER), bool(named & {"odd", "even"})

    @cached_property
    def classes(self) -> frozenset[str]:
        """Return the classes that a selector asks for."""
        return frozenset({_SYSTEM, *(each.name for each in self.selectors if each.type is SelectorType.CLASS)})

    @cached_property
    def ids(self) -> frozenset[str]:
        """Return the ids that a selector asks for."""
        return frozenset(each.name for each in self.selectors if each.type is SelectorType.ID)

    @cached_property
    def _counts_steps(self) -> bool:
        """Return whether it matters how far apart two nodes are that selectors match."""
        return any(each.combinator is CombinatorType.CHILD for each in self.selectors)

    def path(self, node: DOMNode) -> tuple[Any, ...]:
        """Return all that selectors of these rules ask of the node and its ancestors.

        For each, a number for the selectors that match its name, and what their pseudo-classes say.
        """
        parts: list[Any] = []
        above: Any = node
        classes, ids, counts_steps, matches = self.classes, self.ids, self._counts_steps, self._matches
        while isinstance(above, DOMNode):
            id = above._id
            own = type(above), id if id in ids else None, classes.intersection(above._classes)
            if (match := matches.get(own)) is None:
                match = matches[own] = self._match(above)
            number, checks = match
            if number or counts_steps or above is node:
                parts.append(number)
                for check in checks:
                    parts.append(check(above))
            above = above._parent
        return tuple(parts)

    def _match(self, node: DOMNode) -> tuple[int, Sequence[Callable[[Any], bool]]]:
        """Return a number for the selectors that match a node, and their pseudo-classes' checks."""
        matching = [place for place, selector in enumerate(self.selectors) if selector._check(node)]
        named = set[str]().union(*(self.selectors[place].pseudo_classes for place in matching))
        known: Any = type(node)._PSEUDO_CLASSES
        names = sorted(named & known.keys())
        number = self._numbers.setdefault((*matching, *names), len(self._numbers))
        return number, [known[name] for name in names]


@dataclass(eq=False)
class _Sheet:
    """Holds what the rules of a stylesheet may say about each kind of node."""

    by_kind: dict[tuple[Any, ...], _Candidates] = field(default_factory=dict)
    by_parts: dict[frozenset[str], _Candidates] = field(default_factory=dict)


_all: dict[tuple[RuleSet, ...], _Candidates] = {}
_sheets: dict[tuple[RuleSet, ...], _Sheet] = {}

_unknown: list[tuple[DOMNode, tuple[Any, ...], dict[tuple[Any, ...], RulesMap]]] = []
"""The nodes whose rules Textual is choosing, the innermost last."""


def _find_sheet(stylesheet: Stylesheet) -> _Sheet:
    """Return what is known of these rules, which stylesheets of other cockpits have too."""
    rules, sheet = stylesheet.__dict__.get("_sheet", (None, None))
    if rules is not stylesheet.rules:
        rules = stylesheet.rules
        if len(_all) > _MOST:
            _all.clear()
            _sheets.clear()
            _set_once.clear()
            _differences.clear()
        sheet = _sheets.setdefault(tuple(rules), _Sheet())
        stylesheet.__dict__["_sheet"] = rules, sheet
    found: _Sheet = sheet
    return found


def _choose_candidates(stylesheet: Stylesheet, names: set[str]) -> _Candidates:
    """Return the rules whose last selector may match one of the names."""
    limited = {rule for name in names & stylesheet.rules_map.keys() for rule in stylesheet.rules_map[name]}
    concerned = tuple(rule for rule in stylesheet.rules if rule in limited)
    return _all.get(concerned) or _all.setdefault(concerned, _Candidates.of(concerned))


def _find_candidates(stylesheet: Stylesheet, node: DOMNode) -> _Candidates:
    by_kind = _find_sheet(stylesheet).by_kind
    kind = type(node), node._id, frozenset(node._classes)  # they decide which names a selector may call it by
    if (found := by_kind.get(kind)) is None:
        found = by_kind[kind] = _choose_candidates(stylesheet, node._selector_names)
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
    kind = frozenset(classes)
    by_parts = _find_sheet(stylesheet).by_parts
    parts: dict[str, DOMNode] = node.__dict__.setdefault("_parts", {})
    for name in sorted(classes - parts.keys()):
        part = parts[name] = DOMNode(classes=name)
        part._attach(node)
    if (joint := by_parts.get(kind)) is None:
        names = set[str]().union(*(parts[name]._selector_names for name in classes))
        joint = by_parts[kind] = _choose_candidates(stylesheet, names)
    asked = joint, joint.path(node)  # the parts themselves never change
    if asked == node.__dict__.get("_parts_path") and node._component_styles.keys() >= classes:
        return
    node.__dict__["_parts_path"] = asked
    has_changed = False
    for name in sorted(classes):
        part = parts[name]
        before = part.__dict__.get("_styled")
        apply_known(stylesheet, part)
        has_changed |= name not in node._component_styles or part.__dict__.get("_styled") is not before
        node._component_styles[name] = part.styles
    if has_changed:
        node.refresh()


_OWN = {"display", "layout", "overflow_x", "overflow_y", "pointer"}
"""Rules that change more than the styles of a new node, or whose value is of one node alone."""
_set_once: dict[int, tuple[RulesMap, dict[str, Any]]] = {}
"""What the rules of a new node became by setting them, by their identity."""
_differences: dict[tuple[int, int], tuple[RulesMap, RulesMap, Sequence[str]]] = {}
"""The names of the rules that differ between two sets of rules, by their identities."""


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
    if not now and not node._is_mounted:
        _set_all(base, now, rules)
        node.notify_style_update()
        return
    wanted: dict[frozenset[tuple[str, bool]], None] = {}
    base.__dict__["refresh"] = lambda **more: wanted.setdefault(frozenset(more.items()))
    try:
        for name in _changed_names(before, rules, now):
            setattr(base, name, new.get(name))
    finally:
        del base.__dict__["refresh"]
    for more in wanted:  # once: Textual refreshes all widgets inside for each rule
        base.refresh(**dict(more))
    node.notify_style_update()


def _set_all(base: Any, now: dict[str, Any], rules: RulesMap) -> None:
    """Set the rules of a new node, which nothing draws yet. Each set of rules is converted only once."""
    if (known := _set_once.get(id(rules))) is None:
        for name, value in rules.items():
            setattr(base, name, value)
        _set_once[id(rules)] = rules, {name: value for name, value in now.items() if name not in _OWN}
        return
    _, converted = known
    for name, value in rules.items():
        if name in _OWN:
            setattr(base, name, value)
    now.update(converted)
    base._updates += len(converted)


def _changed_names(before: RulesMap | None, rules: RulesMap, now: dict[str, Any]) -> Sequence[str]:
    """Return which rules to set on a node that got `before`, and has `now`."""
    if before is None or "transitions" in before or "transitions" in rules:
        new: dict[str, Any] = dict(rules)
        return [name for name in now.keys() | new.keys() if new.get(name) is None or now.get(name) is not new[name]]
    if (known := _differences.get((id(before), id(rules)))) is None:
        old, new = dict(before), dict(rules)
        names = [name for name in old.keys() | new.keys() if old.get(name) is not new.get(name)]
        known = _differences[id(before), id(rules)] = before, rules, names
    return known[2]
