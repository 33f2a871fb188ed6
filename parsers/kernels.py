"""Kernel names: what a kernel is for, as far as its name says, and a name to show.

The dictionary is kernel_names.toml; docs in its head. A name gives the kind of kernel (`family`);
the operator class comes from the operator range or the shapes where those are known. What no rule
knows stays unknown, and anonymous names (`triton_red_fused_3`, `Kernel2`) are never guessed.
"""

from __future__ import annotations

import re
import tomllib
from functools import lru_cache
from importlib import resources

from rooflens.quantity import Record

UNKNOWN = "unknown"
MATRIX_FAMILIES = frozenset(
    {"gemm", "gemv", "splitk", "qgemm", "moe_gemm", "attn_prefill", "attn_decode", "attn_combine",
     "attn_unfused", "attn_prep", UNKNOWN}
)  # fmt: skip
"""Families whose FLOPs can be those of a matrix product or of attention."""

_NO_HELP = {
    "kernel", "Kernel", "Kernel2", "device_kernel", "elementwise_kernel", "reduce_kernel",
    "vectorized_elementwise_kernel", "unrolled_elementwise_kernel",
}  # fmt: skip
"""Function names that say nothing: a template argument is shown with them."""
_TELLING = re.compile(
    r"cutlass_\w+|cublasGemv\w+|Flash\w+|\w+_kernel_cuda\w*|\w+Functor(?:_\w+)?|\w+Ops(?=<)"
    r"|(?!gpu_)\b\w+_kernel_impl\w*|\w*CUDAKernelImpl|\w*Gemm\w*|\w*Conv\w*"
)
_TELLING_CHARACTERS = 4096
_ITANIUM = re.compile(r"^_Z")


class KernelName(Record, frozen=True, kw_only=True):
    """What a name says."""

    short_name: str
    """Function name without template arguments, parameters and return type."""
    family: str
    """Kind of kernel: gemm, gemv, attn_decode, norm ... or unknown."""
    op_class: str
    """Operator class that the name alone allows; `other` when it does not say."""
    flag: str = ""
    """A fact that the name gives away: fp32, misaligned, split-K, spins."""


class _Rule(Record, frozen=True, kw_only=True):
    pattern: re.Pattern[str]
    kind: str
    op_class: str
    flag: str


@lru_cache(maxsize=1)
def _rules() -> tuple[_Rule, ...]:
    text = resources.files("rooflens.parsers").joinpath("kernel_names.toml").read_text("utf-8")
    table = tomllib.loads(text)
    classes = table["classes"]
    return tuple(
        _Rule(
            pattern=re.compile(row["match"]),
            kind=row["kind"],
            op_class=row.get("class", classes[row["kind"]]),
            flag=row.get("flag", ""),
        )
        for row in table["rule"]
    )


@lru_cache(maxsize=65536)
def classify_name(name: str) -> KernelName:
    """Say what a kernel is by its name (demangled, function only, mangled or cut short)."""
    text = name
    if _ITANIUM.match(name):
        # The mangled form is kept beside its identifiers: traces cut names, and lengths then lie.
        text = f"{'::'.join(mangled_identifiers(name))} {name}"
    shown = short_name(name)
    for rule in _rules():
        if rule.pattern.search(text):
            return KernelName(
                short_name=shown, family=rule.kind, op_class=rule.op_class, flag=rule.flag
            )
    return KernelName(short_name=shown, family=UNKNOWN, op_class="other")


@lru_cache(maxsize=65536)
def short_name(name: str) -> str:
    """The name to show: template arguments and parameters cut off, never on a bare `<` or `(`."""
    if _ITANIUM.match(name):
        parts = _nested_name(name) or mangled_identifiers(name)[:1]
        base, inside = "::".join(parts) or name, "::".join(mangled_identifiers(name))
    elif name.startswith("["):
        return name.strip()
    else:
        base, inside = _stripped(name)
    last = base.rpartition("::")[2]
    if last in _NO_HELP:
        # Words without an end make the search quadratic; what tells a kernel stands in front.
        telling = _TELLING.search(inside[:_TELLING_CHARACTERS])
        if telling and telling[0] != last:
            return f"{base}<{telling[0]}>"
    return base or name.strip()


def _stripped(name: str) -> tuple[str, str]:
    """Split a demangled name into its bare function name and everything that was cut off."""
    text = name.strip().replace("(anonymous namespace)::", "").replace("<unnamed>::", "")
    kept: list[str] = []
    cut: list[str] = []
    depth = 0
    for index, char in enumerate(text):
        if char in "<[{":
            depth += 1
        elif char == "(" and depth == 0:
            # The parameter list ends the name, unless it is `operator()`.
            if "".join(kept).endswith("operator") and text[index + 1 : index + 2] == ")":
                kept.append("()")
                depth = 0
            cut.append(text[index:])
            break
        elif char == "(":
            depth += 1
        elif char in ">]})":
            depth = max(depth - 1, 0)
            cut.append(char)
            continue
        (cut if depth else kept).append(char)
    bare = "".join(kept).strip()
    return bare.rpartition(" ")[2], "".join(cut)


def mangled_identifiers(name: str) -> list[str]:
    """Every identifier of an Itanium-mangled name, in order (`_ZN5flash3fwdE` -> flash, fwd)."""
    found: list[str] = []
    place = 2
    while place < len(name):
        match = re.compile(r"\d+").search(name, place)
        if match is None:
            break
        length, start = int(match[0][:4]), match.end()
        word = name[start : start + length]
        if length and len(word) > 1 and re.fullmatch(r"[A-Za-z_]\w*", word):
            found.append(word)
            place = start + length
        else:
            place = match.end()
    return found


def _nested_name(name: str) -> list[str]:
    """The qualified function name at the start of a mangled name, without template arguments."""
    place = 3 if name.startswith("_ZN") else 2
    parts: list[str] = []
    while match := re.compile(r"\d+").match(name, place):
        start = match.end()
        word = name[start : start + int(match[0][:4])]
        if not re.fullmatch(r"[A-Za-z_]\w*", word):
            break
        parts.append(word)
        place = start + len(word)
    return parts
