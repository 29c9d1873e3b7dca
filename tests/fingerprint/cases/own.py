"""Cases of our own: pairs of programs whose global `obj` must hash the same, or must not.

A program is the text of a main script, or a dict of files in which "main" is that script.
"""

import textwrap

CASES = []


def _program(spec):
    files = {"main": spec} if isinstance(spec, str) else dict(spec)
    files = {name: textwrap.dedent(text).lstrip("\n") for name, text in files.items()}
    main = files.pop("main")
    return {"sub": "job", "name": "run.py", "main": main, "files": files}


def _add(expect, title, a, b):
    number = f"O{len(CASES) + 1:03}"
    CASES.append(
        {"id": number, "title": title, "expect": expect, "env": "lab", "level": "must",
         "A": _program(a), "B": _program(b)}
    )


def same(title, a, b=None):
    _add("same", title, a, a if b is None else b)


def different(title, a, b=None, *, swap=None):
    """`swap` is `old -> new`, applied to every file of the first program."""
    if swap is not None:
        old, new = swap.split(" -> ")
        files = {"main": a} if isinstance(a, str) else a
        b = {name: text.replace(old, new) for name, text in files.items()}
        assert b != files, title
    _add("different", title, a, b)


# ---- syntax ---------------------------------------------------------------------------------
same("walrus: spacing", "def f(x):\n    if (y := x + 1) > 2: return y\nobj = f\n",
     "def f(x):\n    if (y:=x+1) > 2:\n        # big\n        return y\nobj = f\n")
different("walrus in a comprehension reads a global", """
    K = 1
    def f(x): return [y for i in x if (y := i * K)]
    obj = f
    """, swap="K = 1 -> K = 2")
MATCH = """
    LIMIT = 5
    class P:
        __match_args__ = ("a",)
        def __init__(self, a): self.a = a
    def f(x):
        match x:
            case P(a) if a > LIMIT: return 1
            case [1, *rest]: return rest
            case {"k": v, **more}: return v, more
            case _: return 0
    obj = f
    """
different("match: guard's global", MATCH, swap="LIMIT = 5 -> LIMIT = 6")
different("match: pattern", MATCH, swap="[1, *rest] -> [2, *rest]")
different("match: class pattern's class changed", MATCH, swap="self.a = a -> self.a = a + 1")
same("match: formatted", MATCH, MATCH.replace("case [1, *rest]: return", "case [ 1,*rest ]:return"))
different("async generator body", "async def f(x):\n    async for i in x:\n        yield i + 1\nobj = f\n",
          swap="i + 1 -> i + 2")
different("async comprehension", "async def f(x): return [i async for i in x if i > 1]\nobj = f\n",
          swap="i > 1 -> i > 2")
same("nested f-strings", "def f(x, w=3): return f'{x!r:>{w}} {f\"{x}\"}'\nobj = f\n",
     "def f(x, w=3):\n    return f'{x!r:>{w}} {f\"{x}\"}'  # shown\nobj = f\n")
different("f-string: conversion", "def f(x): return f'{x!r}'\nobj = f\n", swap="!r -> !s")
different("f-string: format spec", "def f(x): return f'{x:.2f}'\nobj = f\n", swap=".2f -> .3f")
different("several lambdas on one line", "fs = [lambda x: x + 1, lambda x: x + 2]; obj = fs[0]\n",
          swap="fs[0] -> fs[1]")
same("several lambdas on one line, the same one", "fs = [lambda x: x + 1, lambda x: x + 2]; obj = fs[1]\n",
     "fs = [lambda x: x * 9, lambda x: x + 2, lambda x: 0]; obj = fs[1]\n")
different("conditional lambda on one line", "c = True\nobj = (lambda x: x + 1) if c else (lambda x: x - 1)\n",
          swap="c = True -> c = False")
different("lambda that returns a lambda", "obj = lambda x: (lambda y: x + y + 1)\n", swap="y + 1 -> y + 2")
same("inner lambda taken from another line", "obj = (lambda k: lambda x: x * k)(3)\n",
     "make = (lambda k:\n    lambda x: x * k)\nobj = make(3)\n")
different("inner lambda: captured value", "obj = (lambda k: lambda x: x * k)(3)\n", swap="(3) -> (4)")
same("docstring changed", 'def f(x):\n    "one"\n    return x\nobj = f\n',
     'def f(x):\n    """two\n\n    lines"""\n    return x\nobj = f\n')
same("docstring of a class and of a method", "class T:\n    'a'\n    def __call__(s, x):\n        'b'\n        return x\nobj = T()\n",
     "class T:\n    def __call__(s, x):\n        return x\nobj = T()\n")
same("annotated local variable", "def f(x):\n    y = x + 1\n    return y\nobj = f\n",
     "def f(x):\n    y: int = x + 1\n    return y\nobj = f\n")
same("number written otherwise", "def f(x): return x + 1000 + 255\nobj = f\n",
     "def f(x): return x + 1_000 + 0xff\nobj = f\n")
different("int and float constants", "def f(x): return x + 1\nobj = f\n", swap="x + 1 -> x + 1.0")
different("True and 1", "def f(x): return True\nobj = f\n", swap="True -> 1")
different("operator", "def f(x): return x // 2\nobj = f\n", swap="x // 2 -> x / 2")
different("order of statements", "def f(x):\n    x.append(1)\n    x.append(2)\nobj = f\n",
          "def f(x):\n    x.append(2)\n    x.append(1)\nobj = f\n")
different("star argument", "def f(x, *a): return g(x, *a)\ndef g(*a): return a\nobj = f\n",
          swap="g(x, *a) -> g(*a, x)")
same("lambda with a trailing comment and other brackets", "obj = [\n  lambda x: x['a'],  # first\n][0]\n",
     "obj = (lambda x: x[\"a\"])\n")

# ---- names and scopes -----------------------------------------------------------------------
different("closures over a loop", "fs = []\nfor i in range(3):\n    def g(x, i=i): return x + i\n    fs.append(g)\nobj = fs[1]\n",
          swap="fs[1] -> fs[2]")
different("closure cell", "def make(k):\n    def g(x): return x + k\n    return g\nobj = make(1)\n", swap="make(1) -> make(2)")
different("closure over a closure", "def a(k):\n    def b():\n        def c(x): return x + k\n        return c\n    return b()\nobj = a(1)\n",
          swap="a(1) -> a(2)")
different("default mutable argument", "def f(x, acc=[1, 2]): return acc + [x]\nobj = f\n", swap="[1, 2] -> [1, 3]")
same("a local hides a global", "K = 1\ndef f(x):\n    K = x\n    return K\nobj = f\n", "K = 2\ndef f(x):\n    K = x\n    return K\nobj = f\n")
different("a comprehension's variable hides a global only inside it", "i = 1\ndef f(x): return [i for i in x] + [i]\nobj = f\n",
          swap="i = 1 -> i = 2")
same("class body name is not the method's global", "K = 1\ndef f(x):\n    class C:\n        K = 5\n    return C.K\nobj = f\n",
     "K = 2\ndef f(x):\n    class C:\n        K = 5\n    return C.K\nobj = f\n")
different("nested class in a function uses a global", "K = 1\ndef f(x):\n    class C:\n        def m(self): return K\n    return C().m()\nobj = f\n",
          swap="K = 1 -> K = 2")
different("global rebound at module level", "K = 1\nK = 2\ndef f(x): return x + K\nobj = f\n", swap="K = 2 -> K = 3")
same("global counter advanced by calls", "N = 0\ndef f(x):\n    global N\n    N += 1\n    return x\nobj = f\n",
     "N = 0\ndef f(x):\n    global N\n    N += 1\n    return x\nf(1)\nobj = f\n")
different("global counter starts elsewhere", "N = 0\ndef f(x):\n    global N\n    N += 1\n    return N\nobj = f\n", swap="N = 0 -> N = 7")
same("memo dict in a private global", "_cache = {}\ndef f(x):\n    if x not in _cache: _cache[x] = x * 2\n    return _cache[x]\nobj = f\n",
     "_cache = {}\ndef f(x):\n    if x not in _cache: _cache[x] = x * 2\n    return _cache[x]\nf(3)\nobj = f\n")
different("name found only in a decorator's argument", "K = 2\ndef times(n):\n    def deco(fn):\n        def w(x): return fn(x) * n\n        return w\n    return deco\n@times(K)\ndef f(x): return x\nobj = f\n",
          swap="K = 2 -> K = 3")
different("decorated with functools.wraps", "import functools\ndef deco(fn):\n    @functools.wraps(fn)\n    def w(*a): return fn(*a)\n    return w\n@deco\ndef f(x): return x + 1\nobj = f\n",
          swap="x + 1 -> x + 2")
different("decorator class", "class deco:\n    def __init__(self, fn): self.fn = fn\n    def __call__(self, x): return self.fn(x)\n@deco\ndef f(x): return x + 1\nobj = f\n",
          swap="x + 1 -> x + 2")
different("contextmanager-wrapped helper", "import contextlib\n@contextlib.contextmanager\ndef c(x):\n    yield x + 1\ndef f(x):\n    with c(x) as y: return y\nobj = f\n",
          swap="x + 1 -> x + 2")
different("recursive lambda through a global", "fact = lambda n: 1 if n < 2 else n * fact(n - 1)\nobj = fact\n", swap="n < 2 -> n < 1")
different("builtin shadowed by a global", "def len(x): return 1\ndef f(x): return len(x)\nobj = f\n", swap="return 1 -> return 2")
same("reading __file__ and __name__", "def f(x): return __name__, x\nobj = f\n", "# moved\ndef f(x): return __name__, x\nobj = f\n")

# ---- modules --------------------------------------------------------------------------------
PACKAGE = {
    "pkg/__init__.py": "from .core import g\n",
    "pkg/core.py": "from .consts import K\ndef g(x): return x + K\n",
    "pkg/consts.py": "K = 1\n",
    "main": "import pkg\ndef f(x): return pkg.g(x)\nobj = f\n",
}
different("re-exported helper, relative imports, constant two modules away", PACKAGE, swap="K = 1 -> K = 2")
same("re-exported helper: its module renamed", PACKAGE,
     {"pkg/__init__.py": "from .inner import g\n", "pkg/inner.py": PACKAGE["pkg/core.py"],
      "pkg/consts.py": PACKAGE["pkg/consts.py"], "main": PACKAGE["main"]})
different("star import", {"helper.py": "def g(x): return x + 1\n", "main": "from helper import *\ndef f(x): return g(x)\nobj = f\n"},
          swap="x + 1 -> x + 2")
different("aliased import", {"helper.py": "K = 1\n", "main": "import helper as h\ndef f(x): return h.K\nobj = f\n"}, swap="K = 1 -> K = 2")
same("aliased import: the module renamed", {"helper.py": "K = 1\n", "main": "import helper as h\ndef f(x): return h.K\nobj = f\n"},
     {"other.py": "K = 1\n", "main": "import other as h\ndef f(x): return h.K\nobj = f\n"})
different("conditional import", {"a.py": "def g(x): return 1\n", "main": "try:\n    import missing_thing as m\nexcept ImportError:\n    import a as m\ndef f(x): return m.g(x)\nobj = f\n"},
          swap="return 1 -> return 2")
different("module with __getattr__", {"helper.py": "def __getattr__(name):\n    if name == 'LAZY': return 41\n    raise AttributeError(name)\n",
                                      "main": "import helper\ndef f(x): return helper.LAZY\nobj = f\n"}, swap="41 -> 42")
different("relative import inside a function of a package", {
    "pkg/__init__.py": "", "pkg/a.py": "def f(x):\n    from . import b\n    return b.g(x)\n", "pkg/b.py": "def g(x): return x + 1\n",
    "main": "from pkg.a import f\nobj = f\n"}, swap="x + 1 -> x + 2")
different("importlib.import_module with a literal", {"helper.py": "def g(x): return x + 1\n",
          "main": "import importlib\ndef f(x): return importlib.import_module('helper').g(x)\nobj = f\n"}, swap="x + 1 -> x + 2")
different("getattr with a literal on a module", {"helper.py": "K = 1\n", "main": "import helper\ndef f(x): return getattr(helper, 'K')\nobj = f\n"},
          swap="K = 1 -> K = 2")
different("lazy import as, of a submodule", {"pkg/__init__.py": "", "pkg/m.py": "K = 1\n",
          "main": "def f(x):\n    import pkg.m as m\n    return m.K\nobj = f\n"}, swap="K = 1 -> K = 2")
same("lazy import: before and after a call", {"helper.py": "def g(x): return x + 1\n",
     "main": "def f(x):\n    from helper import g\n    return g(x)\nobj = f\n"},
     {"helper.py": "def g(x): return x + 1\n", "main": "def f(x):\n    from helper import g\n    return g(x)\nf(1)\nobj = f\n"})
same("lazy import of the standard library: before and after", "def f(x):\n    import wave, colorsys as c\n    return c.rgb_to_hsv(*x), wave\nobj = f\n",
     "def f(x):\n    import wave, colorsys as c\n    return c.rgb_to_hsv(*x), wave\nimport wave, colorsys\nobj = f\n")
different("module passed as a value", {"helper.py": "def g(x): return x + 1\n", "main": "import helper\ndef use(m, x): return m.g(x)\ndef f(x): return use(helper, x)\nobj = f\n"},
          swap="x + 1 -> x + 2")
different("installed package, imported inside the function", {
    "site-packages/fakelib/__init__.py": "def clean(x): return x\n", "site-packages/fakelib-1.0.dist-info/METADATA": "Name: fakelib\n",
    "site-packages/fakelib-1.0.dist-info/RECORD": "fakelib/__init__.py,,\n",
    "main": "import sys, os\nsys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), 'site-packages'))\ndef f(x):\n    import fakelib\n    return fakelib.clean(x)\nobj = f\n"},
    {"site-packages/fakelib/__init__.py": "def clean(x): return x\n", "site-packages/fakelib-1.1.dist-info/METADATA": "Name: fakelib\n",
    "site-packages/fakelib-1.1.dist-info/RECORD": "fakelib/__init__.py,,\n",
    "main": "import sys, os\nsys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), 'site-packages'))\ndef f(x):\n    import fakelib\n    return fakelib.clean(x)\nobj = f\n"})
same("installed package: a file of it edited, the version kept", {
    "site-packages/fakelib/__init__.py": "def clean(x): return x\n", "site-packages/fakelib-1.0.dist-info/RECORD": "fakelib/__init__.py,,\n",
    "main": "import sys, os\nsys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), 'site-packages'))\nfrom fakelib import clean\ndef f(x): return clean(x)\nobj = f\n"},
    {"site-packages/fakelib/__init__.py": "def clean(x): return x + 0\n", "site-packages/fakelib-1.0.dist-info/RECORD": "fakelib/__init__.py,,\n",
    "main": "import sys, os\nsys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), 'site-packages'))\nfrom fakelib import clean\ndef f(x): return clean(x)\nobj = f\n"})
EDITABLE = {"src/mylib/__init__.py": "def clean(x): return x + 1\n", "site-packages/mylib-1.0.dist-info/RECORD": "mylib.pth,,\n",
    "main": "import sys, os\nh = os.path.dirname(os.path.abspath(__file__))\nsys.path[:0] = [h + '/site-packages', h + '/src']\nfrom mylib import clean\ndef f(x): return clean(x)\nobj = f\n"}
different("editable install counts by content", EDITABLE, swap="x + 1 -> x + 2")

# ---- classes --------------------------------------------------------------------------------
different("property", "class T:\n    @property\n    def p(self): return 1\n    def __call__(self, x): return self.p\nobj = T()\n", swap="return 1 -> return 2")
different("descriptor", "class D:\n    def __init__(self, k): self.k = k\n    def __get__(self, o, t): return self.k\nclass T:\n    d = D(1)\n    def __call__(self, x): return self.d\nobj = T()\n",
          swap="D(1) -> D(2)")
different("metaclass", "class M(type):\n    def __call__(cls, *a):\n        t = super().__call__(*a)\n        t.k = 1\n        return t\nclass T(metaclass=M):\n    def __call__(self, x): return x + self.k\nobj = T\n",
          swap="t.k = 1 -> t.k = 2")
different("nested class", "class T:\n    class In:\n        K = 1\n    def __call__(self, x): return x + self.In.K\nobj = T()\n", swap="K = 1 -> K = 2")
different("mixin two levels up", "class A:\n    def h(self): return 1\nclass B(A): pass\nclass C(B):\n    def __call__(self, x): return self.h()\nobj = C()\n", swap="return 1 -> return 2")
different("order of bases", "class A: k = 1\nclass B: k = 2\nclass C(A, B): pass\nobj = C\n", swap="C(A, B) -> C(B, A)")
same("cached_property filled by a call", "import functools\nclass T:\n    @functools.cached_property\n    def big(self): return 7\n    def __call__(self, x): return self.big\nobj = T()\n",
     "import functools\nclass T:\n    @functools.cached_property\n    def big(self): return 7\n    def __call__(self, x): return self.big\nobj = T()\nobj(1)\n")
different("cached_property body", "import functools\nclass T:\n    @functools.cached_property\n    def big(self): return 7\nobj = T()\n", swap="return 7 -> return 8")
different("functools.cache", "import functools\n@functools.cache\ndef g(x): return x + 1\nobj = g\n", swap="x + 1 -> x + 2")
different("singledispatchmethod", "import functools\nclass T:\n    @functools.singledispatchmethod\n    def g(self, x): return 0\n    @g.register\n    def _(self, x: int): return 1\nobj = T()\n",
          swap="return 1 -> return 2")
different("partialmethod", "import functools\nclass T:\n    def g(self, x, k): return x * k\n    h = functools.partialmethod(g, k=2)\nobj = T()\n", swap="k=2 -> k=3")
different("NamedTuple default", "from typing import NamedTuple\nclass P(NamedTuple):\n    a: int = 1\ndef f(x): return P().a\nobj = f\n", swap="= 1 -> = 2")
different("NamedTuple method", "from typing import NamedTuple\nclass P(NamedTuple):\n    a: int\n    def d(self): return self.a * 2\nobj = P(1)\n", swap="* 2 -> * 3")
different("namedtuple fields", "from collections import namedtuple\nP = namedtuple('P', 'a b')\nobj = P(1, 2)\n", swap="'a b' -> 'b a'")
different("TypedDict keys", "from typing import TypedDict\nclass D(TypedDict):\n    a: int\ndef f(x): return D(x)\nobj = f\n", swap="a: int -> b: int")
different("generic class body", "from typing import Generic, TypeVar\nT = TypeVar('T')\nclass Box(Generic[T]):\n    def get(self): return 1\nobj = Box[int]\n", swap="return 1 -> return 2")
different("generic class argument", "from typing import Generic, TypeVar\nT = TypeVar('T')\nclass Box(Generic[T]):\n    def get(self): return 1\nobj = Box[int]\n", swap="Box[int] -> Box[str]")
different("dataclass default", "from dataclasses import dataclass\n@dataclass\nclass C:\n    a: int = 1\ndef f(x): return C().a\nobj = f\n", swap="= 1 -> = 2")
different("dataclass default_factory", "from dataclasses import dataclass, field\n@dataclass\nclass C:\n    a: list = field(default_factory=lambda: [1])\nobj = C()\n", swap="[1] -> [2]")
different("dataclass frozen", "from dataclasses import dataclass\n@dataclass\nclass C:\n    a: int = 1\nobj = C\n", swap="@dataclass -> @dataclass(frozen=True)")
different("dataclass field order", "from dataclasses import dataclass\n@dataclass\nclass C:\n    a: int\n    b: int\nobj = C\n",
          "from dataclasses import dataclass\n@dataclass\nclass C:\n    b: int\n    a: int\nobj = C\n")
different("dataclass with slots: a value", "from dataclasses import dataclass\n@dataclass(slots=True)\nclass C:\n    a: int\nobj = C(1)\n", swap="C(1) -> C(2)")
different("attrs default", "import attrs\n@attrs.define\nclass C:\n    a: int = 1\nobj = C\n", swap="= 1 -> = 2")
same("attrs instance", "import attrs\n@attrs.define\nclass C:\n    a: int = 1\nobj = C(4)\n")
different("enum method", "import enum\nclass E(enum.Enum):\n    A = 1\n    def t(self): return self.value + 1\nobj = E.A\n", swap="+ 1 -> + 2")
different("enum order", "import enum\nclass E(enum.Enum):\n    A = 1\n    B = 2\ndef f(x): return list(E)\nobj = f\n",
          "import enum\nclass E(enum.Enum):\n    B = 2\n    A = 1\ndef f(x): return list(E)\nobj = f\n")
same("flag enum", "import enum\nclass F(enum.Flag):\n    A = enum.auto()\n    B = enum.auto()\nobj = F.A | F.B\n")
different("dynamically created type", "obj = type('T', (), {'k': 1})\n", swap="'k': 1 -> 'k': 2")
different("make_dataclass", "import dataclasses\nobj = dataclasses.make_dataclass('C', [('a', int, 1)])\n", swap="int, 1 -> int, 2")
different("pydantic constraint", "import pydantic\nclass C(pydantic.BaseModel):\n    a: int = pydantic.Field(1, ge=0)\nobj = C\n", swap="ge=0 -> ge=1")
different("pydantic validator body", "import pydantic\nclass C(pydantic.BaseModel):\n    a: int = 1\n    @pydantic.field_validator('a')\n    @classmethod\n    def v(cls, x): return x + 1\nobj = C\n",
          swap="x + 1 -> x + 2")
different("pydantic field type", "import pydantic\nclass C(pydantic.BaseModel):\n    a: int = 1\nobj = C\n", swap="a: int -> a: float")
different("__getattr__ in a class", "class T:\n    def __getattr__(self, n): return 1\nobj = T()\n", swap="return 1 -> return 2")
different("__init_subclass__", "class A:\n    def __init_subclass__(cls): cls.k = 1\nclass B(A): pass\nobj = B\n", swap="cls.k = 1 -> cls.k = 2")
different("Protocol method", "from typing import Protocol\nclass P(Protocol):\n    def m(self): return 1\nclass C(P): pass\nobj = C()\n", swap="return 1 -> return 2")
different("callable instance in a list", "class T:\n    def __init__(self, k): self.k = k\n    def __call__(self, x): return x\nSTEPS = [T(1), T(2)]\ndef f(x): return [s(x) for s in STEPS]\nobj = f\n", swap="T(2) -> T(3)")
same("instances compared by default, in a dict's keys", "class K:\n    def __init__(self, n): self.n = n\nD = {K(i): i for i in range(5)}\ndef f(x): return D.get(x)\nobj = f\n")
different("class with a __fingerprint__ hook", "class T:\n    def __init__(self): self.junk = object()\n    def __fingerprint__(self): return 1\nobj = T()\n", swap="return 1 -> return 2")
same("__fingerprint__ hides the rest", "class T:\n    def __init__(self, j): self.junk = j\n    def __fingerprint__(self): return 'v1'\nobj = T(1)\n",
     "class T:\n    def __init__(self, j): self.junk = j\n    def __fingerprint__(self): return 'v1'\nobj = T(2)\n")

# ---- values ---------------------------------------------------------------------------------
VALUES = [
    ("frozenset", "frozenset(['a', 'b', 'c'])", "frozenset(['a', 'b'])"),
    ("deque", "__import__('collections').deque([1, 2], 3)", "__import__('collections').deque([1, 2], 4)"),
    ("array", "__import__('array').array('i', [1, 2])", "__import__('array').array('i', [1, 3])"),
    ("memoryview", "memoryview(b'abc')", "memoryview(b'abd')"),
    ("bytearray", "bytearray(b'abc')", "bytearray(b'abd')"),
    ("Decimal", "__import__('decimal').Decimal('1.10')", "__import__('decimal').Decimal('1.2')"),
    ("Fraction", "__import__('fractions').Fraction(1, 3)", "__import__('fractions').Fraction(1, 4)"),
    ("datetime", "__import__('datetime').datetime(2020, 1, 2)", "__import__('datetime').datetime(2020, 1, 3)"),
    ("timezone", "__import__('datetime').datetime(2020, 1, 2, tzinfo=__import__('datetime').timezone.utc)", "__import__('datetime').datetime(2020, 1, 2)"),
    ("ZoneInfo", "__import__('zoneinfo').ZoneInfo('UTC')", "1"),
    ("uuid", "__import__('uuid').UUID(int=1)", "__import__('uuid').UUID(int=2)"),
    ("range", "range(0, 10, 3)", "range(0, 10, 2)"),
    ("slice", "slice(1, 2)", "slice(1, 3)"),
    ("complex", "complex(1, 2)", "complex(2, 1)"),
    ("dict keys", "{'a': 1, 'b': 2}.keys()", "{'a': 1, 'c': 2}.keys()"),
    ("dict values", "{'a': 1, 'b': 2}.values()", "{'a': 1, 'b': 3}.values()"),
    ("dict items", "{'a': 1, 'b': 2}.items()", "{'a': 1, 'b': 3}.items()"),
    ("mappingproxy", "__import__('types').MappingProxyType({'a': 1})", "__import__('types').MappingProxyType({'a': 2})"),
    ("itertools.count", "__import__('itertools').count(1)", "__import__('itertools').count(2)"),
    ("itertools.chain", "__import__('itertools').chain([1], [2])", "__import__('itertools').chain([1], [3])"),
    ("ChainMap", "__import__('collections').ChainMap({'a': 1}, {'b': 2})", "__import__('collections').ChainMap({'a': 1}, {'b': 3})"),
    ("random.Random", "__import__('random').Random(1)", "__import__('random').Random(2)"),
    ("exception", "ValueError('a')", "ValueError('b')"),
    ("bound builtin", "'a'.join", "'b'.join"),
    ("methodcaller", "__import__('operator').methodcaller('strip', 'x')", "__import__('operator').methodcaller('strip', 'y')"),
    ("attrgetter", "__import__('operator').attrgetter('a.b')", "__import__('operator').attrgetter('a.c')"),
    ("string.Template", "__import__('string').Template('$a')", "__import__('string').Template('$b')"),
    ("Path", "__import__('pathlib').Path('/a/b')", "__import__('pathlib').Path('/a/c')"),
    ("SimpleNamespace", "__import__('types').SimpleNamespace(a=1)", "__import__('types').SimpleNamespace(a=2)"),
    ("builtin function", "len", "abs"),
    ("type", "int", "float"),
    ("type alias", "list[int]", "list[str]"),
    ("union", "int | None", "str | None"),
    ("Literal", "__import__('typing').Literal['a']", "__import__('typing').Literal['b']"),
    ("ordered", "__import__('provender.fingerprint').fingerprint.ordered(a=1, b=2)", "__import__('provender.fingerprint').fingerprint.ordered(b=2, a=1)"),
    ("UserDict", "__import__('collections').UserDict(a=1)", "__import__('collections').UserDict(a=2)"),
    ("struct", "__import__('struct').Struct('<i').format", "__import__('struct').Struct('<q').format"),
    ("numpy scalar", "__import__('numpy').float32(1)", "__import__('numpy').float64(1)"),
    ("numpy structured", "__import__('numpy').zeros(2, [('a', 'i4'), ('b', 'f8')])", "__import__('numpy').zeros(2, [('a', 'i4'), ('c', 'f8')])"),
    ("numpy datetime64", "__import__('numpy').array(['2020-01-01'], 'M8[D]')", "__import__('numpy').array(['2020-01-02'], 'M8[D]')"),
    ("numpy masked", "__import__('numpy').ma.array([1, 2], mask=[0, 1])", "__import__('numpy').ma.array([1, 2], mask=[1, 0])"),
    ("numpy function", "__import__('numpy').mean", "__import__('numpy').sum"),
    ("numpy ufunc", "__import__('numpy').add", "__import__('numpy').multiply"),
    ("pandas categorical", "__import__('pandas').Series(['a', 'b'], dtype='category')", "__import__('pandas').Series(['a', 'c'], dtype='category')"),
    ("pandas with missing", "__import__('pandas').DataFrame({'a': [1.0, None], 'b': ['x', None]})", "__import__('pandas').DataFrame({'a': [1.0, 2.0], 'b': ['x', None]})"),
    ("pandas MultiIndex", "__import__('pandas').DataFrame({'a': [1], 'b': [2], 'c': [3]}).set_index(['a', 'b'])", "__import__('pandas').DataFrame({'a': [1], 'b': [4], 'c': [3]}).set_index(['a', 'b'])"),
    ("pandas Timestamp", "__import__('pandas').Timestamp('2020-01-01', tz='UTC')", "__import__('pandas').Timestamp('2020-01-01')"),
    ("pyarrow nested", "__import__('pyarrow').array([[1], None, [2, 3]])", "__import__('pyarrow').array([[1], None, [2, 4]])"),
    ("pyarrow schema", "__import__('pyarrow').schema({'a': 'int64'})", "__import__('pyarrow').schema({'a': 'int32'})"),
    ("sqlalchemy table", "(sa := __import__('sqlalchemy')).Table('t', sa.MetaData(), sa.Column('a', sa.Integer))", "(sa := __import__('sqlalchemy')).Table('t', sa.MetaData(), sa.Column('a', sa.String))"),
    ("sqlalchemy url", "__import__('sqlalchemy').create_engine('sqlite:///a.db')", "__import__('sqlalchemy').create_engine('sqlite:///b.db')"),
]
for _name, _a, _b in VALUES:
    different(f"{_name}: value in a global", f"V = {_a}\ndef f(x): return V\nobj = f\n", f"V = {_b}\ndef f(x): return V\nobj = f\n")

same("float zero and negative zero, NaN of two makes", "V = [0.0, float('nan')]\nobj = V\n", "V = [-0.0, -float('nan')]\nobj = V\n")
same("range written otherwise", "obj = range(0, 3, 2)\n", "obj = range(0, 4, 2)\n")
same("pyarrow: chunks", "import pyarrow as pa\nobj = pa.chunked_array([[1, 2], [3]])\n", "import pyarrow as pa\nobj = pa.chunked_array([[1], [2, 3]])\n")
same("pyarrow: sliced strings with nulls", "import pyarrow as pa\nobj = pa.table({'s': ['b', None, 'c']})\n", "import pyarrow as pa\nobj = pa.table({'s': ['a', 'b', None, 'c', 'd']}).slice(1, 3)\n")
same("numpy: Fortran order", "import numpy as np\nobj = np.arange(6).reshape(2, 3)\n", "import numpy as np\nobj = np.asfortranarray(np.arange(6).reshape(2, 3))\n")
same("engine password", "import sqlalchemy as sa\nobj = sa.create_engine('postgresql+psycopg://u:one@h/d')\n", "import sqlalchemy as sa\nobj = sa.create_engine('postgresql+psycopg://u:two@h/d')\n")
same("weakref", "import weakref\nclass T: k = 1\nt = T()\nobj = weakref.ref(t)\n")
same("weak-key memo", "import weakref\nclass T: k = 1\n_memo = weakref.WeakKeyDictionary()\ndef f(x): return _memo.get(x)\nobj = f\n")
same("condition, event, executor, pool of processes", "import threading, concurrent.futures as cf\nA = [threading.Condition(), threading.Event(), cf.ProcessPoolExecutor(1), threading.RLock()]\ndef f(x): return A\nobj = f\n")
same("logger adapter", "import logging\nlog = logging.LoggerAdapter(logging.getLogger('a'), {})\ndef f(x): log.info('x')\nobj = f\n")
same("context variable", "import contextvars\nV = contextvars.ContextVar('v', default=1)\ndef f(x): return V.get()\nobj = f\n")
same("cyclic objects entered elsewhere", "class N: pass\na, b = N(), N()\na.o, b.o = b, a\na.k = b.k = 1\nobj = a\n", "class N: pass\na, b = N(), N()\na.o, b.o = b, a\na.k = b.k = 1\nobj = b\n")
different("value inside a cycle", "class N: pass\na, b = N(), N()\na.o, b.o = b, a\na.k, b.k = 1, 2\nobj = a\n", swap="1, 2 -> 1, 3")
same("linked list of 3000", "class N:\n    def __init__(self, nxt): self.nxt = nxt\nn = None\nfor _ in range(3000): n = N(n)\nobj = n\n")
different("depends_on: content of the file", {"v.txt": "a\n", "main": "import os\nfrom provender.fingerprint import depends_on\n@depends_on(os.path.join(os.path.dirname(__file__), 'v.txt'))\ndef f(x): return x\nobj = f\n"}, swap="a\n -> b\n")
same("function typed into a string", "exec(compile('def f(x): return x + 1', '<stdin>', 'exec'))\nobj = f\n", "exec(compile('\\n\\ndef f(x): return x + 1', '<stdin>', 'exec'))\nobj = f\n")
different("globals() with a literal", "K = 1\ndef f(x): return globals()['K']\nobj = f\n", swap="K = 1 -> K = 2")
different("eval of a literal", "K = 1\ndef f(x): return eval('K + x')\nobj = f\n", swap="K = 1 -> K = 2")
different("open of a global path", {"v.txt": "a\n", "main": "import os\nP = os.path.join(os.path.dirname(__file__), 'v.txt')\ndef f(x): return open(P).read()\nobj = f\n"}, swap="a\n -> b\n")
same("a path that is opened for writing", {"v.txt": "a", "main": "import os\nP = os.path.join(os.path.dirname(__file__), 'v.txt')\ndef f(x): return open(P, 'w')\nobj = f\n"},
     {"v.txt": "b", "main": "import os\nP = os.path.join(os.path.dirname(__file__), 'v.txt')\ndef f(x): return open(P, 'w')\nobj = f\n"})
different("Path.read_text of a global path", {"v.txt": "a\n", "main": "from pathlib import Path\nP = Path(__file__).with_name('v.txt')\ndef f(x): return P.read_text()\nobj = f\n"}, swap="a\n -> b\n")
different("raw tokenizer: truncation that the code does not set", "from tokenizers import Tokenizer, models\ntok = Tokenizer(models.WordLevel({'[UNK]': 0, 'a': 1}, unk_token='[UNK]'))\ntok.enable_truncation(4)\ndef f(x): return tok.encode(x).ids\nobj = f\n",
          swap="truncation(4) -> truncation(5)")
same("raw tokenizer before and after a call", "from tokenizers import Tokenizer, models\ntok = Tokenizer(models.WordLevel({'[UNK]': 0, 'a': 1}, unk_token='[UNK]'))\ndef f(x): return tok.encode(x).ids\nobj = f\n",
     "from tokenizers import Tokenizer, models\ntok = Tokenizer(models.WordLevel({'[UNK]': 0, 'a': 1}, unk_token='[UNK]'))\ndef f(x): return tok.encode(x).ids\nf('a')\nobj = f\n")
same("os.environ imported by name", "from os import environ\ndef f(x): return environ.get('HOME'), x\nobj = f\n", "from os import environ\nenviron['ZZZ'] = '1'\ndef f(x): return environ.get('HOME'), x\nobj = f\n")
same("standard output imported by name", "from sys import stdout\ndef f(x):\n    stdout.write('x')\nobj = f\n")
different("BytesIO", "import io\nB = io.BytesIO(b'ab')\ndef f(x): return B.getvalue()\nobj = f\n", swap="b'ab' -> b'ac'")
different("class of an imported module: base class method", {"base.py": "class A:\n    def h(self): return 1\n", "mod.py": "from base import A\nclass B(A):\n    def __call__(self, x): return self.h()\n",
          "main": "from mod import B\nobj = B()\n"}, swap="return 1 -> return 2")
same("sum of 1500 terms", "def f(x): return " + " + ".join(["x"] * 1500) + "\nobj = f\n")
different("sum of 1500 terms: the last", "def f(x): return " + " + ".join(["x"] * 1500) + " + 1\nobj = f\n", "def f(x): return " + " + ".join(["x"] * 1500) + " + 2\nobj = f\n")

same("subclasses of set and frozenset", "class S(set): pass\nclass F(frozenset): pass\nobj = [S('abcdef'), F('abcdef')]\n")
different("subclass of set: an attribute", "class S(set): pass\nobj = S('abc')\nobj.k = 1\n", swap="obj.k = 1 -> obj.k = 2")
different("subclass of set: content", "class S(set): pass\nobj = S('abc')\n", swap="'abc' -> 'abd'")
different("subclass of OrderedDict: an attribute", "from collections import OrderedDict\nclass S(OrderedDict): pass\nobj = S(a=1)\nobj.k = 1\n", swap="obj.k = 1 -> obj.k = 2")
different("subclass of a lock-like class: code", "import threading\nclass T(threading.Thread):\n    def run(self): return 1\nobj = T()\n", swap="return 1 -> return 2")
different("subclass of str", "class S(str): pass\nobj = S('a')\n", swap="'a' -> 'b'")
different("subclass of tuple", "class S(tuple): pass\nobj = S([1, 2])\n", swap="[1, 2] -> [2, 1]")
different("sequence of numpy seeds", "import numpy as np\nobj = np.random.SeedSequence(3)\n", swap="(3) -> (4)")
different("memory map", "import numpy as np\nm = np.memmap('m.bin', 'u1', 'w+', shape=(2,))\nm[:] = 1\nobj = m\n", swap="m[:] = 1 -> m[:] = 2")

# ---- TensorFlow, Keras, TFDS: run one after another in one process ---------------------------
LIGHT = len(CASES)
TF = "import tensorflow as tf\n"
different("tf.constant", TF + "c = tf.constant([1, 2])\ndef f(x): return x + c\nobj = f\n", swap="[1, 2] -> [1, 3]")
different("tf.constant dtype", TF + "c = tf.constant([1, 2])\nobj = c\n", swap="[1, 2]) -> [1, 2], tf.int64)")
different("tf.Variable value", TF + "v = tf.Variable([1.])\ndef f(x): return x + v\nobj = f\n", swap="[1.] -> [2.]")
different("ragged tensor", TF + "obj = tf.ragged.constant([[1], [2, 3]])\n", swap="[[1], [2, 3]] -> [[1, 2], [3]]")
different("lookup table entry", TF + "t = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(['a', 'b'], [1, 2]), -1)\ndef f(x): return t.lookup(x)\nobj = f\n", swap="[1, 2] -> [1, 3]")
different("lookup table default", TF + "obj = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(['a', 'b'], [1, 2]), -1)\n", swap=", -1) -> , -2)")
same("lookup table in another order", TF + "obj = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(['a', 'b'], [1, 2]), -1)\n", TF + "obj = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(['b', 'a'], [2, 1]), -1)\n")
different("vocabulary table buckets", TF + "obj = tf.lookup.StaticVocabularyTable(tf.lookup.KeyValueTensorInitializer(['a'], tf.constant([0], tf.int64)), 1)\n", swap=", 1)\n -> , 2)\n")
same("dense table", TF + "t = tf.lookup.experimental.DenseHashTable(tf.int64, tf.int64, -1, 0, -2)\nt.insert([1, 2], [3, 4])\nobj = t\n", TF + "t = tf.lookup.experimental.DenseHashTable(tf.int64, tf.int64, -1, 0, -2)\nt.insert([2], [4])\nt.insert([1], [3])\nobj = t\n")
same("tf.function before and after a call", TF + "@tf.function\ndef f(x): return x + 1\nobj = f\n", TF + "@tf.function\ndef f(x): return x + 1\nf(tf.constant(1))\nobj = f\n")
different("tf.function's helper", TF + "def g(x): return x + 1\n@tf.function\ndef f(x): return g(x)\nobj = f\n", swap="x + 1 -> x + 2")
different("from tensorflow import strings or math", "from tensorflow import strings as m\ndef f(x): return m, x\nobj = f\n", swap="strings -> math")
same("from tensorflow import keras", "from tensorflow import keras\ndef f(x): return keras.ops.abs(x)\nobj = f\n")
same("keras layer with another automatic name", "import keras\nkeras.layers.Dense(1)\nobj = keras.layers.Rescaling(2.0)\n", "import keras\nkeras.layers.Rescaling(1.0)\nobj = keras.layers.Rescaling(2.0)\n")
different("keras layer option", "import keras\nobj = keras.layers.Rescaling(2.0)\n", swap="2.0 -> 3.0")
same("functional model built twice", "import keras\nkeras.utils.set_random_seed(1)\ni = keras.Input((3,))\nobj = keras.Model(i, keras.layers.Dense(2)(i))\n",
     "import keras\nkeras.layers.Dense(1)\nkeras.utils.set_random_seed(1)\ni = keras.Input((3,))\nobj = keras.Model(i, keras.layers.Dense(2)(i))\n")
different("weights", "import keras\nkeras.utils.set_random_seed(1)\nobj = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])\n", swap="seed(1) -> seed(2)")
different("user layer's call", "import keras\nclass L(keras.layers.Layer):\n    def call(self, x): return x + 1\nobj = L()\n", swap="x + 1 -> x + 2")
same("user layer", "import keras\nclass L(keras.layers.Layer):\n    def __init__(self, k):\n        super().__init__()\n        self.k = k\n    def call(self, x): return x + self.k\nobj = L(2)\n")
different("user layer's attribute", "import keras\nclass L(keras.layers.Layer):\n    def __init__(self, k):\n        super().__init__()\n        self.k = k\n    def call(self, x): return x + self.k\nobj = L(2)\n", swap="L(2) -> L(3)")
different("TextVectorization vocabulary", "import keras\nobj = keras.layers.TextVectorization(vocabulary=['a', 'b'])\n", swap="'b' -> 'c'")
different("adapted layer", "import keras\nobj = keras.layers.StringLookup()\nobj.adapt(['a', 'b'])\n", swap="'b' -> 'c'")
different("tf.Module attribute", TF + "class M(tf.Module):\n    def __init__(self, k):\n        super().__init__()\n        self.k = k\nobj = M(1)\n", swap="M(1) -> M(2)")
TFDS = "import tensorflow_datasets as tfds\n"
different("features: label names", TFDS + "obj = tfds.features.FeaturesDict({'l': tfds.features.ClassLabel(names=['a', 'b']), 't': tfds.features.Text()})\n", swap="'b'] -> 'c']")
different("features: nested label names", TFDS + "obj = tfds.features.FeaturesDict({'s': tfds.features.Sequence({'l': tfds.features.ClassLabel(names=['a', 'b'])})})\n", swap="'b'] -> 'c']")
same("features: order of a dict", TFDS + "obj = tfds.features.FeaturesDict({'l': tfds.features.ClassLabel(names=['a', 'b']), 't': tfds.features.Text()})\n", TFDS + "obj = tfds.features.FeaturesDict({'t': tfds.features.Text(), 'l': tfds.features.ClassLabel(names=['a', 'b'])})\n")
CONFIG = TFDS + "import dataclasses\n@dataclasses.dataclass\nclass C(tfds.core.BuilderConfig):\n    lang: str = 'en'\nobj = C(name='x', version=tfds.core.Version('1.0.0'), description='d', lang='de')\n"
different("builder config: own field", CONFIG, swap="'de' -> 'fr'")
same("builder config: description", CONFIG, CONFIG.replace("description='d'", "description='e'"))
BUILDER = TFDS + """
import tempfile
from tensorflow_datasets.core import registered
with registered.skip_registration():
  class Toy(tfds.core.GeneratorBasedBuilder):
    VERSION = tfds.core.Version('1.0.0')
    def _info(self): return tfds.core.DatasetInfo(builder=self, features=tfds.features.FeaturesDict({'a': tfds.features.Text()}))
    def _split_generators(self, dl): return {'train': self._generate_examples()}
    def _generate_examples(self):
        yield 0, {'a': 'x'}
b = Toy(data_dir=tempfile.mkdtemp())
obj = [b, b.info]
"""
same("builder and its info", BUILDER)
different("builder: code", BUILDER, swap="'a': 'x' -> 'a': 'y'")
different("builder: info's features", BUILDER, swap="{'a': tfds.features.Text()} -> {'b': tfds.features.Text()}")
HEAVY = CASES[LIGHT:]
del CASES[LIGHT:]
