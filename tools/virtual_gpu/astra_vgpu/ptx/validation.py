"""Checks every instruction of a kernel, and of the functions it reaches, as ptxas does.

Dead code and functions that nothing calls are checked too: a text that ptxas does not accept is
refused before anything runs.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence

from astra_vgpu.ptx.modifier_rules import misuse
from astra_vgpu.ptx.modifiers import is_cluster_barrier, needs_gpu
from astra_vgpu.ptx.operands import mistake
from astra_vgpu.ptx.syntax import (
    Address,
    Function,
    Group,
    Immediate,
    Instruction,
    Kernel,
    Module,
    Operand,
    Param,
    Register,
    Symbol,
    Variable,
    Vector,
    type_bits,
)
from astra_vgpu.types import PtxUnsupported

_KNOWN = frozenset(
    "abs activemask add addc alloca and applypriority atom bar barrier bfe bfi bfind bmsk bra brev"
    " brkpt brx call clusterlaunchcontrol clz cnot copysign cos cp createpolicy cvt cvta discard"
    " div dp2a dp4a elect ex2 exit fence fma fns getctarank griddepcontrol isspacep istypep ld"
    " ldmatrix ldu lg2 lop3 mad mad24 madc mapa match max mbarrier membar min mma mov movmatrix mul"
    " mul24 multimem nanosleep neg not or pmevent popc prefetch prefetchu prmt rcp red redux rem"
    " ret rsqrt sad selp set setmaxnreg setp shf shfl shl shr sin slct sqrt st stackrestore"
    " stacksave stmatrix sub subc suld suq sured sust szext tanh tcgen05 tensormap testp tex tld4"
    " trap txq vabsdiff vabsdiff2 vabsdiff4 vadd vadd2 vadd4 vavrg2 vavrg4 vmad vmax vmax2 vmax4"
    " vmin vmin2 vmin4 vote vset vset2 vset4 vshl vshr vsub vsub2 vsub4 wgmma wmma xor".split()
)
"""All instructions of the PTX ISA 9.0."""
_ALONE = {"bra": 1, "ret": 0, "exit": 0, "trap": 0, "brkpt": 0, "brx": 2}
"""Operands of instructions that steer."""
_STEERING = {"bra": {"uni"}, "ret": {"uni"}, "brx": {"idx", "uni"}, "call": {"uni"}}
_checked: weakref.WeakKeyDictionary[Module, set[str]] = weakref.WeakKeyDictionary()


def check(module: Module, kernel: Kernel) -> None:
    """Raises PtxUnsupported, with the kernel and the place, for what ptxas would not take: in the
    kernel, in what it reaches, and in functions that no kernel reaches."""
    done = _checked.setdefault(module, set())
    for function in _with(module, kernel):
        if function.name not in done:
            for statement in function.body:
                if isinstance(statement, Instruction):
                    _check(module, kernel, function, statement)
            done.add(function.name)


def reached(module: Module, function: Function) -> list[Function]:
    """It and the functions that it, or a variable that it names, names."""
    functions: dict[str, Function] = {function.name: function}
    names = list(_named(function))
    seen = set(names)
    for name in names:
        variable = module.globals.get(name)
        more: Iterable[str] = [r.symbol for r in variable.relocations] if variable else ()
        if name in module.functions and name not in functions:
            functions[name] = module.functions[name]
            more = _named(module.functions[name])
        new = [n for n in more if n not in seen]
        seen.update(new)
        names += new
    return list(functions.values())


def unreached(module: Module) -> list[Function]:
    """Functions that no kernel reaches."""
    known = {f.name for kernel in module.kernels.values() for f in reached(module, kernel)}
    return [function for name, function in module.functions.items() if name not in known]


def _with(module: Module, kernel: Kernel) -> list[Function]:
    return [*reached(module, kernel), *unreached(module)]


def _named(function: Function) -> list[str]:
    instructions = (s for s in function.body if isinstance(s, Instruction))
    return list(dict.fromkeys(n for i in instructions for o in i.operands for n in _names(o)))


def _names(operand: Operand) -> Sequence[str]:
    match operand:
        case Symbol(name=name) | Address(base=Symbol(name=name)):
            return (name,)
        case Vector(items=items) | Group(items=items):
            return [name for item in items for name in _names(item)]
        case _:
            return ()


def _check(module: Module, kernel: Kernel, function: Function, instruction: Instruction) -> None:
    wrong = _wrong(module, function, instruction)
    if wrong:
        source = f", {instruction.source}," if instruction.source else ""
        where = f" of function {function.name}" if function is not kernel else ""
        raise PtxUnsupported(
            f"{wrong} in '{instruction.text}'{where}{source}",
            kernel=kernel.name,
            opcode=instruction.opcode,
            line=instruction.line,
        )


def _wrong(module: Module, function: Function, instruction: Instruction) -> str:
    family = instruction.family
    if is_cluster_barrier(instruction):
        return ""
    if needs_gpu(instruction):
        return f"{'.'.join(instruction.opcode.split('.')[:2])}, which needs a GPU,"
    if family not in _KNOWN:
        return "this instruction"
    if family == "call":
        return _wrong_call(module, function, instruction)
    if family in _ALONE:
        return _wrong_step(instruction)
    if family == "mov" and (wrong := _wrong_function(module, instruction)):
        return wrong
    return misuse(instruction) or mistake(instruction, _space_in(module, function))


def _space_in(module: Module, function: Function) -> Callable[[str], str]:
    """Space of each name, as the function sees it."""
    own = {
        p.name: "param" if isinstance(function, Kernel) else "slot"
        for p in (*function.params, *function.returns)
    }
    own |= {n: "slot" if v.space == "param" else v.space for n, v in function.variables.items()}

    def space(name: str) -> str:
        if name in own:
            return own[name]
        variable = module.globals.get(name) or module.shared.get(name)
        return variable.space if variable else ""

    return space


def _wrong_step(instruction: Instruction) -> str:
    family, operands = instruction.family, instruction.operands
    if len(operands) != _ALONE[family]:
        return "this number of operands"
    left = set(instruction.modifiers) - _STEERING.get(family, set())
    if left:
        return f"modifier .{min(left)} here"
    if family == "brx":
        index = operands[0]
        fits = isinstance(index, Register) and index.bits == 32 and index.type[0] in "bus"
        return "" if fits else "an index that does not fit .u32"
    return ""


def _wrong_function(module: Module, instruction: Instruction) -> str:
    """The address of a function: of one that is here, and nothing added to it."""
    value = instruction.operands[-1] if instruction.operands else None
    function = module.functions.get(value.name) if isinstance(value, Symbol) else None
    if function is None:
        return ""
    assert isinstance(value, Symbol)
    wrong = not function.defined or value.offset or not instruction.opcode.endswith("64")
    return f"the address of {value.name}" if wrong else ""


def _wrong_call(module: Module, function: Function, instruction: Instruction) -> str:
    if left := set(instruction.modifiers) - _STEERING["call"]:
        return f"modifier .{min(left)} here"
    operands = instruction.operands
    results = operands[0].items if operands and isinstance(operands[0], Group) else ()
    if any(isinstance(item, Immediate) for item in results):
        return "a number as a result"
    formal = _formal(module, function, operands)
    if isinstance(formal, str):
        return formal
    actual = [item for o in operands if isinstance(o, Group) for item in o.items]
    if len(actual) != len(formal):
        return "" if any(v.size == 0 for v in formal) else "this number of arguments"
    for argument, parameter in zip(actual, formal, strict=True):
        if wrong := _wrong_argument(function, argument, parameter):
            return wrong
    return ""


def _formal(
    module: Module, function: Function, operands: Sequence[Operand]
) -> Sequence[Param | Variable] | str:
    """What the called function takes, results first; or what is wrong."""
    named = [o for o in operands if isinstance(o, Symbol)]
    if not any(isinstance(o, Register) for o in operands):
        callee = module.functions.get(named[0].name) if named else None
        return (*callee.returns, *callee.params) if callee else "an undefined function"
    name = named[-1].name if named else ""
    if name in function.prototypes:
        return function.prototypes[name]
    targets = function.call_targets.get(name)
    if not targets:
        return "a call without a prototype"
    first = module.functions[targets[0]]
    return (*first.returns, *first.params)


def _wrong_argument(function: Function, argument: Operand, formal: Param | Variable) -> str:
    if not isinstance(argument, Symbol):
        return ""
    variable = next((v for v in function.variables.values() if v.name == argument.name), None)
    if variable is None or variable.space != "param" or argument.offset:
        return f"argument {argument.name}, which is not a .param of this function,"
    if variable.size != formal.size or _is_array(variable) != _is_array(formal):
        return f"argument {argument.name}, of another type than the parameter,"
    wrong = variable.align != formal.align
    return f"argument {argument.name}, of another alignment than the parameter," if wrong else ""


def _is_array(slot: Param | Variable) -> bool:
    return slot.type.endswith("8") or slot.size > type_bits(slot.type) // 8
