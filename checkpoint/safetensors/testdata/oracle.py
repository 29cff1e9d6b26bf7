"""Answer questions of oracle_test.go with Python's safetensors: a JSON object a line, bytes in base64."""
import base64
import ctypes
import json
import sys
import time

import safetensors

TORCH = {
    "BOOL": "bool", "U8": "uint8", "I8": "int8", "F8_E5M2": "float8_e5m2", "F8_E4M3": "float8_e4m3fn",
    "F8_E8M0": "float8_e8m0fnu", "F8_E4M3FNUZ": "float8_e4m3fnuz", "F8_E5M2FNUZ": "float8_e5m2fnuz", "I16": "int16",
    "U16": "uint16", "F16": "float16", "BF16": "bfloat16", "I32": "int32", "U32": "uint32", "F32": "float32",
    "C64": "complex64", "F64": "float64", "I64": "int64", "U64": "uint64",
}


def read(file):
    try:
        tensors = safetensors.deserialize(file)
    except safetensors.SafetensorError as e:
        return {"error": str(e)}
    return {"tensors": [{"name": name, "dtype": t["dtype"], "shape": t["shape"],
                         "data": base64.b64encode(bytes(t["data"])).decode()} for name, t in tensors]}


def write(tensors, metadata):
    keep, specs = [], {}
    for t in tensors:
        data = base64.b64decode(t["data"])
        buffer = ctypes.create_string_buffer(data, max(1, len(data)))
        keep.append(buffer)
        specs[t["name"]] = safetensors.TensorSpec(dtype=TORCH[t["dtype"]], shape=t["shape"],
                                                  data_ptr=ctypes.addressof(buffer), data_len=len(data))
    return {"file": base64.b64encode(bytes(safetensors.serialize(specs, metadata))).decode()}


def measure(what, path, tensors, bytes):
    """Seconds that writing or reading a file with so many float32 tensors of so many bytes takes."""
    from safetensors import numpy as st
    import numpy as np
    if what == "read":
        start = time.perf_counter()
        st.load_file(path)
        return {"seconds": time.perf_counter() - start}
    values = {f"tensor.{i}": np.full(bytes // 4, i + 1, np.float32) for i in range(tensors)}
    start = time.perf_counter()
    st.save_file(values, path)
    return {"seconds": time.perf_counter() - start}


print(json.dumps({"version": safetensors.__version__, "types": list(TORCH)}), flush=True)
for line in sys.stdin:
    question = json.loads(line)
    if question.get("measure"):
        answer = measure(**question["measure"])
    elif question["tensors"] is None:
        answer = read(base64.b64decode(question["file"]))
    else:
        answer = write(question["tensors"], question["metadata"])
    print(json.dumps(answer), flush=True)
