"""Themes as files: all shipped ones are whole and readable; a wrong one says everything that is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from zoea.model.errors import SettingsError
from zoea.text.control_characters import reveal
from zoea.tui.theme import themes
from zoea.tui.theme.role_styles import RoleStyles

TEXT_ROLES = {*themes.ROLES, *themes.STATUS_ROLES} - {"border", "border-focus", "cursor"}
"""Roles of text; each must be readable on the background."""
SHIPPED = ("abyss", "ansi", "deuteranopia", "high-contrast", "nova", "tide")


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.fixture(scope="module")
def shipped() -> dict[str, themes.ThemeSpec]:
    found, errors = themes.load_themes(Path("nowhere"))
    assert errors == []
    return found


def test_six_themes_are_shipped(shipped: dict[str, themes.ThemeSpec]) -> None:
    assert tuple(sorted(shipped)) == SHIPPED


@pytest.mark.parametrize("name", [name for name in SHIPPED if name != "ansi"])
def test_every_text_role_is_readable_on_every_background(shipped: dict[str, themes.ThemeSpec], name: str) -> None:
    look = shipped[name]
    least = 4.5 if name == "high-contrast" else 3.0
    texts = {role: look.roles[role] for role in TEXT_ROLES}
    texts |= {"text": look.colours["text"], "muted": look.colours["muted"]}
    grounds = [look.colours[ground] for ground in ("background", "surface", "panel")]
    poor = {role: min(contrast(colour, ground) for ground in grounds) for role, colour in texts.items()}
    assert {role: ratio for role, ratio in poor.items() if ratio < least} == {}


@pytest.mark.parametrize("name", [name for name in SHIPPED if name not in ("ansi", "high-contrast")])
@pytest.mark.parametrize("sign", ["+", "-"])
def test_code_is_readable_in_added_and_removed_lines(
    shipped: dict[str, themes.ThemeSpec], name: str, sign: str
) -> None:
    styles = RoleStyles(shipped[name])
    assert styles.has_syntax
    poor: dict[str, float] = {}
    for role in ("", "keyword", "string", "comment"):
        style = styles.of(sign + role)
        assert style.color is not None
        assert style.bgcolor is not None
        poor[role] = contrast(style.color.name, style.bgcolor.name)
    assert {role: ratio for role, ratio in poor.items() if ratio < 4.5} == {}


@pytest.mark.parametrize("name", ["ansi", "high-contrast"])
def test_themes_without_tints_have_no_colours_for_code(shipped: dict[str, themes.ThemeSpec], name: str) -> None:
    assert not shipped[name].has_syntax


def test_a_persons_theme_replaces_a_shipped_one_of_the_same_name(tmp_path: Path) -> None:
    folder = tmp_path / "themes"
    folder.mkdir()
    nova = (themes.list_theme_folders(tmp_path)[0] / "nova.toml").read_text()
    (folder / "mine.toml").write_text(nova.replace("#0A0A12", "#000000"))
    found, errors = themes.load_themes(tmp_path)
    assert errors == []
    assert found["nova"].colours["background"] == "#000000"


def test_themes_above_the_number_are_named_and_not_read(tmp_path: Path) -> None:
    folder = tmp_path / "themes"
    folder.mkdir()
    for number in range(themes.MOST_FILES + 2_800):
        (folder / f"{number:05}.toml").touch()
    found, errors = themes.load_themes(tmp_path)
    assert set(found) == set(SHIPPED)
    assert str(errors[0]) == f"{folder} has 3,000 theme files: those after 200 have no effect"
    assert len(errors) == 1 + themes.MOST_FILES
    assert len(themes.read_file_stamps(tmp_path)) == len(SHIPPED) + themes.MOST_FILES


def test_all_errors_of_a_file_come_in_one_message(tmp_path: Path) -> None:
    nova = (themes.list_theme_folders(tmp_path)[0] / "nova.toml").read_text()
    file = tmp_path / "bad.toml"
    file.write_text(
        nova.replace('background = "#0A0A12"', 'background = "black"')
        .replace('idle = "muted"', 'idle = "grey"', 1)
        .replace("dark = true", "dark = 3")
    )
    with pytest.raises(SettingsError) as wrong:
        themes.read_theme(file)
    for part in ("colours.background", "'grey' is no colour", "dark must be true or false", str(file)):
        assert part in wrong.value.what


def test_a_misspelt_name_stands_first_with_the_name_that_is_meant_and_what_is_missing_is_one_line(
    tmp_path: Path,
) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('extends = "nova"\ntitle = "Mine"\n[colours]\nbackgrund = "#000000"\ntext = "grey"\n')
    with pytest.raises(SettingsError) as wrong:
        themes.read_theme(file)
    path, *lines = [line.strip() for line in wrong.value.what.splitlines()]
    assert path == f"{file}:"
    assert "themes/nova.toml" in wrong.value.hint
    assert lines[:3] == [
        "colours.backgrund is not known; did you mean background?",
        "extends is no key of a theme",
        "colours.text: 'grey' is neither #RRGGBB nor an ansi_ colour",
    ]
    assert lines[3:] == [
        "dark must be true or false",
        f"missing in [colours]: {', '.join(name for name in themes.COLOURS[1:] if name != 'text')}",
        "missing: name",
    ]


def test_a_file_of_many_faults_shows_ten_and_counts_the_others(tmp_path: Path) -> None:
    nova = (themes.list_theme_folders(tmp_path)[0] / "nova.toml").read_text()
    file = tmp_path / "mine.toml"
    file.write_text("\n".join(f"own{number} = 1" for number in range(30)) + "\n" + nova)
    with pytest.raises(SettingsError, match="and 20 more") as wrong:
        themes.read_theme(file)
    assert len(wrong.value.what.splitlines()) == 1 + themes.MOST_LINES + 1


def test_an_invalid_file_is_one_error_and_the_others_load(tmp_path: Path) -> None:
    (tmp_path / "themes").mkdir()
    (tmp_path / "themes" / "broken.toml").write_text("name = ")
    found, errors = themes.load_themes(tmp_path)
    assert len(errors) == 1
    assert tuple(sorted(found)) == SHIPPED


def test_every_theme_has_each_variable_that_style_files_may_name(shipped: dict[str, themes.ThemeSpec]) -> None:
    known = {name: look.theme() for name, look in shipped.items()}
    given = {name: {**theme.to_color_system().generate(), **theme.variables} for name, theme in known.items()}
    assert [name for name, variables in given.items() if given["nova"].keys() - variables.keys()] == []


def test_a_theme_without_the_names_of_later_releases_takes_the_usual_ones(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    colours = "\n".join(f'{name} = "#101010"' for name in themes.COLOURS)
    file.write_text(f'name = "mine"\ntitle = "Mine"\ndark = true\n[colours]\n{colours}\n[roles]\nidle = "error"\n')
    look = themes.read_theme(file)
    assert set(look.roles) == {*themes.ROLES, *themes.STATUS_ROLES}
    assert look.glyphs == themes.GLYPHS


def test_a_glyph_holds_escapes_for_hidden_characters_and_is_short(tmp_path: Path) -> None:
    nova = (themes.list_theme_folders(tmp_path)[0] / "nova.toml").read_text()
    file = tmp_path / "mine.toml"
    own = nova.partition("[glyphs]")[0] + '[glyphs]\nidle = "{}"\n'
    file.write_text(own.format(r"\u009b1m\u202e"))
    assert themes.read_theme(file).glyphs["idle"] == reveal("\x9b1m\u202e")
    file.write_text(own.format("I").replace('title = "', r'title = "\u009b1m\n\u202e', 1))
    assert themes.read_theme(file).title.startswith(r"\u009b1m \u202e")
    file.write_text(own.format("I" * 100_000))
    with pytest.raises(SettingsError, match="idle is longer than 16 characters"):
        themes.read_theme(file)


def test_the_message_of_a_theme_is_short_whatever_its_values_are(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('[colours]\nbackground = "' + "x" * 500_000 + '"\n')
    with pytest.raises(SettingsError) as wrong:
        themes.read_theme(file)
    assert len(wrong.value.what) < 5_000
