"""Print a C file that compiles with NVIDIA's cuda.h only if the header in the given folder says the same.

Checked are the values of constants, sizes, offsets and types of struct members, the prototypes of functions, and the
symbols that their names stand for.
"""

import re
import sys

# CUDA 13 gives these names to later versions of the functions, with other parameters. The symbols that
# gorgonia.org/cu needs are still exported by its drivers.
CHANGED_IN_13 = {"cuCtxCreate", "cuMemAdvise", "cuMemPrefetchAsync", "cuGraphAddDependencies", "cuGraphGetEdges"}

# These got new symbols, too, and kept their parameters.
RENAMED_IN_13 = {"cuDeviceGetUuid", "cuEventElapsedTime"}

# Since CUDA 12.8.
NEW = {"CUDA_ERROR_CONTAINED", "CUDA_ERROR_TENSOR_MEMORY_LEAK"}


def read(path):
    with open(path) as f:
        return re.sub(r"/\*.*?\*/", "", f.read(), flags=re.S)


def constants(text):
    """Names and values of enumerators and numeric macros."""
    for body in re.findall(r"typedef enum \w+ \{(.*?)\}", text, re.S):
        yield from re.findall(r"(\w+) = (\d+),", body)
    yield from re.findall(r"^#define (CU_\w+) (\d+)$", text, re.M)


def structs(text):
    """Names of structs, and of their members with types."""
    for body, name in re.findall(r"typedef (?:struct|union) \w+ \{((?:[^{}]|\{[^{}]*\})*)\}[^;]*?(\w+);", text):
        members = re.findall(r"^\t([\w ]+?[ *]+)(\w+)(\[\d+\])?;", body, re.M)
        nested = re.findall(r"^\t\} (\w+);", body, re.M)
        yield name, members, nested


def functions(text):
    """Names, symbols and parameters."""
    return re.findall(r'^WEFT_CUDA_FUNCTION\((\w+), "(\w+)", (\(.*?\)), \(.*\)\)$', text, re.M)


def assert_(condition, message):
    print(f'_Static_assert({condition}, "{message}");')


def main(folder):
    header, table = read(folder + "/cuda.h"), read(folder + "/weft_cuda_functions.h")
    print("#include <stddef.h>\n#include <stdint.h>\n#include <cuda.h>")
    print("#define TEXT(x) #x\n#define SYMBOL(x) TEXT(x)")
    print("#define SAME(a, b) (sizeof a == sizeof b && !__builtin_memcmp(a, b, sizeof b))")

    for name, value in constants(header):
        if name in NEW:
            print("#if CUDA_VERSION >= 12080")
        assert_(f"{name} == {value}", name)
        if name in NEW:
            print("#endif")

    # Ours, under other names, beside NVIDIA's.
    for name, members, nested in structs(header):
        ours = re.search(r"typedef ((?:struct|union) \w+ \{(?:[^{}]|\{[^{}]*\})*\}[^;]*?)" + name + ";", header).group(1)
        ours = re.sub(r"^(struct|union) \w+", r"\1", ours)
        print(f"typedef {ours} ours_{name};")
        assert_(f"sizeof({name}) == sizeof(ours_{name})", f"size of {name}")
        # Ours may be aligned more strictly: toolkits differ.
        assert_(f"_Alignof({name}) <= _Alignof(ours_{name})", f"alignment of {name}")
        for kind, member, _ in members:
            assert_(f"offsetof({name}, {member}) == offsetof(ours_{name}, {member})", f"offset of {name}.{member}")
            if kind.strip() == "void *":  # may stand for a handle that our header does not name
                assert_(f"sizeof((({name} *)0)->{member}) == sizeof(void *)", f"size of {name}.{member}")
                continue
            assert_(
                f"__builtin_types_compatible_p(__typeof__((({name} *)0)->{member}), __typeof__(((ours_{name} *)0)->{member}))",
                f"type of {name}.{member}",
            )
        for member in nested:
            assert_(f"offsetof({name}, {member}) == offsetof(ours_{name}, {member})", f"offset of {name}.{member}")
            assert_(f"sizeof((({name} *)0)->{member}) == sizeof(((ours_{name} *)0)->{member})", f"size of {name}.{member}")

    for name, symbol, parameters in functions(table):
        if name in CHANGED_IN_13:
            print("#if CUDA_VERSION < 13000")
        unless = "CUDA_VERSION >= 13000 || " if name in RENAMED_IN_13 else ""
        assert_(f'{unless}SAME(SYMBOL({name}), "{symbol}")', f"symbol of {name}")
        print(f"static CUresult (*check_{name}){parameters} __attribute__((unused)) = {name};")
        if name in CHANGED_IN_13:
            print("#endif")


main(sys.argv[1])
