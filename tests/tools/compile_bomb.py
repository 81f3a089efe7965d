"""A source that takes a compiler more memory than there is."""

BOMB = (
    "template <int N> struct Bomb { Bomb<N - 1> left; Bomb<N - 2> right; };\n"
    "template <> struct Bomb<0> { char c; };\ntemplate <> struct Bomb<1> { char c; };\n"
    "int size[sizeof(Bomb<800>) % 7];\n"
)
