"""The fall-back where there is no source: normalised bytecode, and the names it reads.

Left out: line table, file name, first line, names, docstring, stack size, caches. What an
instruction refers to is written by value instead of by index. Holds for one Python version.
"""

from __future__ import annotations

import dis
from types import CodeType
from typing import Any, Final

from provender.fingerprint.encoding import ATOMS, SEQUENCE, SET, assemble, atom, reference
from provender.fingerprint.scope import Chain, Import, Names

_MARKS: Final = frozenset({"NOP", "CACHE", "RESUME", "EXTENDED_ARG", "PRECALL", "PUSH_NULL"})
_GLOBAL: Final = frozenset({"LOAD_GLOBAL", "LOAD_NAME"})
_ATTRIBUTE: Final = frozenset({"LOAD_ATTR", "LOAD_METHOD"})
_LOCAL: Final = frozenset({"LOAD_FAST", "LOAD_DEREF", "LOAD_FAST_CHECK", "LOAD_CLASSDEREF"})
_FLAGS: Final = 0x04 | 0x08 | 0x20 | 0x80 | 0x100 | 0x200  # *args, **kwargs, generator, async


def code_digest(code: CodeType) -> bytes:
    """The digest of a code object by its instructions and constants."""
    tokens = [
        atom(code.co_argcount),
        atom(code.co_posonlyargcount),
        atom(code.co_kwonlyargcount),
        atom(code.co_flags & _FLAGS),
        reference(assemble(b"vars", SEQUENCE, [atom(n) for n in code.co_varnames])),
        reference(assemble(b"free", SEQUENCE, [atom(n) for n in code.co_freevars])),
        atom(getattr(code, "co_exceptiontable", b"")),
    ]
    for step in dis.get_instructions(code):
        if step.opname in _MARKS:
            continue
        tokens.append(atom(step.opname))
        tokens.append(_argument(step))
    return assemble(b"bytecode", SEQUENCE, tokens)


def _argument(step: dis.Instruction) -> bytes:
    if step.opcode in dis.hasjrel or step.opcode in dis.hasjabs:
        return atom((step.argval - step.offset) if isinstance(step.argval, int) else 0)
    if step.arg is None:
        return atom(None)
    return _constant(step.argval)


def _constant(value: Any) -> bytes:
    make = ATOMS.get(type(value))
    if make is not None:
        return make(value)
    if isinstance(value, CodeType):
        return reference(code_digest(value))
    if isinstance(value, tuple):
        return reference(assemble(b"tuple", SEQUENCE, [_constant(item) for item in value]))
    if isinstance(value, frozenset):
        return reference(assemble(b"frozenset", SET, [_constant(item) for item in value]))
    return atom(repr(value))


def names_of_code(code: CodeType) -> Names:
    """What the code reads from outside, from its instructions."""
    parameter = code.co_varnames[0] if code.co_argcount else None
    loads: set[Chain] = set()
    own: set[Chain] = set()
    imports: list[Import] = []
    rebound: set[str] = set()
    _scan(code, parameter, loads, own, imports, rebound)
    aliases = {item.bound for item in imports}
    return Names(
        loads=frozenset(loads),
        parameter=parameter,
        on_parameter=frozenset(own),
        imports=tuple(imports),
        on_imports=frozenset((name,) for name in aliases),
        rebound=frozenset(rebound),
    )


def _scan(
    code: CodeType,
    parameter: str | None,
    loads: set[Chain],
    own: set[Chain],
    imports: list[Import],
    rebound: set[str],
) -> None:
    steps = [s for s in dis.get_instructions(code) if s.opname not in _MARKS]
    for at, step in enumerate(steps):
        if step.opname in _GLOBAL:
            loads.add((step.argval, *_attributes(steps, at)))
        elif step.opname in _LOCAL and step.argval in code.co_freevars:
            target = own if step.argval == parameter else loads
            target.add((step.argval, *_attributes(steps, at)))
        elif step.opname in _LOCAL and step.argval == parameter:
            after = steps[at + 1].opname if at + 1 < len(steps) else ""
            if after != "STORE_ATTR":
                own.add((step.argval, *_attributes(steps, at)))
        elif step.opname == "IMPORT_NAME":
            imports.extend(_imports(steps, at))
        elif step.opname == "STORE_GLOBAL":
            rebound.add(step.argval)
    for const in code.co_consts:
        if isinstance(const, CodeType):
            _scan(const, parameter, loads, own, imports, rebound)


def _attributes(steps: list[dis.Instruction], at: int) -> Chain:
    found: list[str] = []
    for step in steps[at + 1 :]:
        if step.opname not in _ATTRIBUTE:
            break
        found.append(step.argval)
    return tuple(found)


def _imports(steps: list[dis.Instruction], at: int) -> list[Import]:
    module = steps[at].argval
    level = steps[at - 2].argval if at >= 2 else 0
    level = level if isinstance(level, int) else 0
    found: list[Import] = []
    for before, step in zip(steps[at + 1 :], steps[at + 2 :], strict=False):
        if before.opname == "IMPORT_FROM":
            found.append(Import(module, level, before.argval, step.argval))
        elif before.opname == "IMPORT_NAME" or (found and before.opname == "POP_TOP"):
            break
        elif not found and before.opname.startswith("STORE_"):
            return [Import(module, level, None, before.argval)]
    return found
