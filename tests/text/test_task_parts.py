"""How many myses a typed task is for, and what each gets."""

from __future__ import annotations

from tests.case_tables import walk_cases
from zoea.text.task_parts import TaskParts

LIST = "Read shop.py.\n1. Find bugs\n2) Write tests\n   for totals\n3. Document it"
PARTS = ("Read shop.py.\nFind bugs", "Read shop.py.\nWrite tests\n   for totals", "Read shop.py.\nDocument it")


@walk_cases(
    ("typed", "tasks"),
    [
        ("", ("",)),
        ("Find iron", ("Find iron",)),
        ("Find iron x3", ("Find iron",) * 3),
        ("Find iron\nx2\n", ("Find iron",) * 2),
        ("x2", ("", "")),
        ("Scale it by x2.", ("Scale it by x2.",)),
        ("Read matrix2", ("Read matrix2",)),
        ("Find iron x0", ("Find iron x0",)),
        (LIST, (LIST,)),
        (f"{LIST} x3", PARTS),
        (f"{LIST}\nx2", (LIST,) * 2),
        ("See 2. and 1. below x2", ("See 2. and 1. below",) * 2),
    ],
)
def test_the_end_of_a_task_says_for_how_many_it_is(typed: str, tasks: tuple[str, ...]) -> None:
    assert TaskParts.read(typed).tasks == tasks


@walk_cases(
    ("typed", "is_above"),
    [
        ("Find iron x99", False),
        ("Find iron x100", True),
        ("x300", True),
        ("400x300", False),
        ("x300 wide", False),
        ("x", False),
    ],
)
def test_a_count_above_the_most_is_text_for_one_mysis(typed: str, is_above: bool) -> None:
    task = TaskParts.read(typed)
    assert task.is_above_most is is_above
    assert not is_above or task.tasks == (typed,)


@walk_cases(
    ("typed", "made", "rest"),
    [
        ("Find iron x3", 1, "Find iron\nx2"),
        ("Find iron x3", 2, "Find iron"),
        ("x4", 1, "x3"),
        ("1. a\n2. b\n3. c x3", 1, "1. b\n2. c\nx2"),
        (f"{LIST} x3", 2, PARTS[2]),
    ],
)
def test_what_is_left_can_be_typed_again(typed: str, made: int, rest: str) -> None:
    task = TaskParts.read(typed)
    assert task.after(made) == rest
    assert TaskParts.read(rest).tasks == task.tasks[made:]
