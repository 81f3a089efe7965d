"""How a task's launcher calls the user's own function: [binding] in task.toml.

With it baseline and candidates are files as their projects have them (a torch extension, a tvm-ffi
file, plain host functions), and the launcher of the contract is made from this table and the
contract (build/bound_launcher.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated

from pydantic import Field, StrictBool, StrictFloat, StrictInt, model_validator

from astra_chat.tools.task.contract import Name, Variable
from astra_chat.tools.types import DTYPES, DTypeName, Value

CppName = Annotated[
    str,
    Field(pattern=r"^[A-Za-z_]\w*(<[\w:, <>]*>)?(::[A-Za-z_]\w*(<[\w:, <>]*>)?)*$"),
]


LauncherFile = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_-]*\.cu$")]


class GivenValue(Value):
    """A value that is no argument of the contract; without any field nothing: a null pointer, an
    optional that is empty, the stream."""

    text: Annotated[str, Field(pattern=r'^[^"\\\n]*$')] | None = None
    dtype: Name | Variable | None = None
    """A dtype or a type variable, as at::ScalarType."""
    list: tuple[int, ...] | None = None
    tensors: tuple[Name | tuple[Name, ...], ...] | None = None
    """A list of tensors, or of lists of them."""
    size: str | None = None
    """An expression of the contract's dims, as an integer."""
    code: Variable | None = None
    """A type variable, as the code of its dtype."""

    @property
    def tensor_names(self) -> tuple[str, ...]:
        """All in its list of tensors."""
        lists = ([one] if isinstance(one, str) else one for one in self.tensors or ())
        return tuple(name for one in lists for name in one)

    @model_validator(mode="after")
    def _one(self) -> GivenValue:
        given = (self.text, self.dtype, self.list, self.tensors, self.size, self.code)
        if sum(value is not None for value in given) > 1:
            raise ValueError("give one of text, dtype, list, tensors, size, code")
        return self


Passed = Name | StrictBool | StrictInt | StrictFloat | GivenValue
"""A tensor, a scalar or a dim by its name, a number, or what GivenValue says."""


class Binding(Value):
    """The function, and what it is given."""

    operator: Name | None = None
    """Registered by TORCH_LIBRARY, PYBIND11_MODULE or TVM_FFI_DLL_EXPORT_TYPED_FUNC."""
    function: CppName | None = None
    """A host function of the file, with its namespaces; of a template with what it is called with:
    `launch<T, 128>` is chosen by the dtype of T."""
    elements: dict[DTypeName, CppName] = Field(default_factory=dict)
    """C++ types of these dtypes in the function's template, where they are not CUDA's own."""
    launcher: LauncherFile | None = None
    """A file of the task with C++ that follows the user's: host functions for [binding] to call."""
    signature: Annotated[str, Field(pattern=r"^[\w:<>,&* ()]+$")] | None = None
    """Type of a function with overloads: "void(torch::Tensor&, double)"."""
    args: tuple[Passed, ...]
    returns: tuple[Name, ...] = ()
    """Results that the function returns, in its order: it allocates them."""
    default_stream: bool = False
    """The function launches on the default stream: callers use no other."""

    @model_validator(mode="after")
    def _one_function(self) -> Binding:
        if (self.operator is None) == (self.function is None):
            raise ValueError("give either operator or function")
        if self.signature and not self.function:
            raise ValueError("signature requires function")
        return self

    @property
    def template_variables(self) -> tuple[str, ...]:
        """Names of one capital letter among the function's template arguments."""
        words = re.findall(r"[<,]\s*([A-Z])(?=\s*[,>])", self.function or "")
        return tuple(dict.fromkeys(words))

    @property
    def called(self) -> str:
        """The name of what is called."""
        return self.operator or self.function or ""

    @property
    def name(self) -> str:
        """The last name of what is called: run of ns::Kernel<float, 4>::run."""
        plain, depth = "", 0
        for letter in self.called:
            depth += (letter == "<") - (letter == ">")
            plain += letter if depth == 0 and letter != ">" else ""
        return plain.rpartition("::")[2]

    def unknown(self, tensors: set[str], others: set[str], variables: set[str]) -> Iterator[str]:
        """What it names that the contract lacks."""
        for passed in self.args:
            if isinstance(passed, str) and passed not in tensors | others:
                yield f"'{passed}' is not an argument, dim or scalar of the contract"
            if isinstance(passed, GivenValue):
                if passed.dtype not in {None, *DTYPES, *variables}:
                    yield f"'{passed.dtype}' is neither a dtype nor a type variable"
                if passed.code not in {None, *variables}:
                    yield f"'{passed.code}' is not a type variable"
        for variable in self.template_variables:
            if variable not in variables:
                yield f"'{variable}' of {self.function} is not a type variable of the contract"
        given = [p for p in self.args if isinstance(p, GivenValue)]
        listed = (name for passed in given for name in passed.tensor_names)
        for name in (*listed, *self.returns):
            if name not in tensors:
                yield f"'{name}' is not an argument of the contract"
