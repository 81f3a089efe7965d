"""Choice by shape: the rule that is fitted, and the shapes that it is held against."""

from __future__ import annotations

from astra_chat.tools.check.hidden_cases import Weighted
from astra_chat.tools.entropy import Entropy
from astra_chat.tools.task.folder import find_task, task_names
from astra_chat.tools.tuning.shapes import LEAST_HELD_OUT, MOST_HELD_OUT, best_split, shapes_between
from astra_chat.tools.types import Case


def cases(*shapes: tuple[int, int]) -> Weighted:
    return tuple((Case(dims={"rows": r, "d": d}, dtype="float32"), 1.0) for r, d in shapes)


def test_a_rule_is_found_where_one_extent_tells_the_points_apart() -> None:
    weighted = cases((1, 64), (4, 40960), (400, 64), (900, 4096))
    few, many, both = [2.0, 2.0, 1.0, 1.0], [1.0, 1.0, 2.0, 2.0], [1.5, 1.5, 1.5, 1.5]
    found = best_split(weighted, {0: few, 1: many, 2: both})
    assert found is not None and (found.condition, found.below, found.above) == ("rows <= 40", 0, 1)
    assert round(found.gain, 3) == round(2 / 1.5, 3)


def test_the_product_of_extents_may_tell_them_apart() -> None:
    weighted = cases((1, 64), (64, 1), (1, 6400), (6400, 1))
    found = best_split(weighted, {0: [2.0, 2.0, 1.0, 1.0], 1: [1.0, 1.0, 2.0, 2.0]})
    assert found is not None and found.condition == "rows * d <= 640"


def test_where_one_point_is_best_everywhere_there_is_no_rule() -> None:
    weighted = cases((1, 64), (400, 64))
    assert best_split(weighted, {0: [2.0, 2.0], 1: [1.9, 1.9]}) is None
    assert best_split(weighted[:1], {0: [2.0], 1: [3.0]}) is None


def shape_of(case: Case) -> tuple[object, ...]:
    return (case.dtype, *case.types.items(), *case.dims.values())


def test_shapes_between_are_legal_new_and_drawn_by_the_seed() -> None:
    """Shapes between are drawn for every shipped task, from both of its lists."""
    seed = Entropy("7").cases
    for name in task_names():
        task = find_task(name)
        for weighted in (task.bench, task.demo):
            found = shapes_between(task, weighted, seed)
            fit, others = found
            least = LEAST_HELD_OUT if weighted is task.bench else 1  # few cases of each dtype
            assert least <= len(others) <= MOST_HELD_OUT, name
            shapes = [shape_of(case) for case, _ in (*fit, *others)]
            timed = {shape_of(case) for case, _ in weighted}
            assert len(set(shapes)) == len(shapes) and not timed & set(shapes)
            for case, weight in (*fit, *others):
                task.require_legal(case)
                assert weight > 0
            assert found == shapes_between(task, weighted, seed)
            assert found != shapes_between(task, weighted, Entropy("8").cases)
