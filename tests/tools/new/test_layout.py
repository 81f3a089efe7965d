"""Shapes follow from code, comments and checks together; strides from what the code asks for."""

from __future__ import annotations

from astra_chat.tools.new.layout import (
    GUESSED,
    OPEN,
    PARTLY,
    SEVERAL,
    contiguous,
    expression,
    layout_of,
    strides_of,
)
from astra_chat.tools.new.stated import Stated


def test_the_comment_that_fits_the_code_is_chosen() -> None:
    said = Stated(comments={"q": [("b", "s", "h"), ("tokens", "h"), ("tokens", "heads", "d")]})
    found = layout_of(["q"], said, {}, {}, ["tokens", "heads", "d"], [])
    assert found.shapes["q"] == ("tokens", "heads", "d") and found.doubts == {"q": SEVERAL}
    said.ranks["q"] = 2
    assert layout_of(["q"], said, {}, {}, ["tokens"], []).shapes["q"] == ("tokens", "h")


def test_names_of_the_code_replace_those_of_comments() -> None:
    said = Stated(comments={"x": [("tokens", "hidden")], "y": [("tokens", "2*hidden")]})
    found = layout_of(["x", "y"], said, {("x", 1): "d"}, {}, ["d"], [])
    assert found.shapes == {"x": ("tokens", "d"), "y": ("tokens", "2*d")}
    assert found.dims == ["d", "tokens"]


def test_open_extents_are_those_of_the_code() -> None:
    said = Stated(comments={"x": [("...", "d")]})
    found = layout_of(["x"], said, {("x", -1): "d"}, {"x": ("rows", "d")}, ["rows", "d"], [])
    assert found.shapes["x"] == ("rows", "d") and found.doubts == {"x": OPEN}


def test_checks_tell_what_is_left() -> None:
    said = Stated(
        ranks={"s": 2},
        equal=[("s.size(0)", "x.size(0)"), ("s.size(1)", "n"), ("w.numel()", "n")],
        alike=[("t", "s")],
    )
    found = layout_of(
        ["x", "s", "t", "w"], said, {("x", 0): "m"}, {"x": ("m", "n")}, ["m", "n"], []
    )
    assert found.shapes == {"x": ("m", "n"), "s": ("m", "n"), "t": ("m", "n"), "w": ("n",)}
    said = Stated(  # each says a half, and that both are alike
        ranks={"s": 2, "t": 2},
        equal=[("s.size(0)", "x.size(0)"), ("t.size(1)", "x.size(1)")],
        alike=[("s", "t")],
    )
    shapes = {"x": ("m", "n", "d"), "y_a": ("d",), "y_b": ("d",)}
    found = layout_of(["x", "s", "t", "y_sum"], said, {}, shapes, ["m", "n", "d"], [])
    assert found.shapes["s"] == found.shapes["t"] == ("m", "n")
    assert found.shapes["y_sum"] == ("d",) and found.doubts == {"y_sum": GUESSED}


def test_a_number_in_a_check_is_more_exact_than_a_comment() -> None:
    said = Stated(comments={"x": [("m", "k")]}, equal=[("x.size(1)", "128")])
    assert layout_of(["x"], said, {}, {}, ["m"], []).shapes["x"] == ("m", "128")


def test_a_shape_of_which_little_is_known_is_a_guess() -> None:
    found = layout_of(["x"], Stated(ranks={"x": 2}), {("x", 1): "d"}, {}, ["n", "d"], [])
    assert found.shapes["x"] == ("n", "d") and found.doubts == {"x": PARTLY}


def test_integers_in_shapes_are_dims() -> None:
    said = Stated(comments={"x": [("n", "d")]})
    assert layout_of(["x"], said, {}, {}, [], ["n", "d", "seed"]).dims == ["n", "d"]


def test_expressions() -> None:
    found = layout_of(["x"], Stated(), {("x", 0): "n"}, {"x": ("n", "2*d")}, ["n", "d"], [])
    assert expression(found, "x.size(0) * 2", {"n"}) == "n*2"
    assert expression(found, "x.size(1) / 4", {"n", "d"}) == "(2*d)//4"
    assert expression(found, "other(3)", {"n"}) == ""


def test_strides() -> None:
    shape = ("n", "heads", "2*d")
    assert contiguous(shape) == ("heads*(2*d)", "(2*d)", "1")
    assert strides_of(shape, {0}) == ("free", "(2*d)", "1")
    assert strides_of(shape, {-2}) == ("free", "free", "1")
    assert strides_of(shape, {-1}) == () and strides_of(shape, set()) == ()
