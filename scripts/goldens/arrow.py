"""Small files that pyarrow writes.

    data/zstd/testdata/rows.csv.zst         by libzstd
    data/parquet/testdata/*.parquet         tables in all encodings and compressions that pyarrow has

Run: python3 scripts/goldens/arrow.py, with pyarrow 26.0.1
"""

import os

import pyarrow as pa
import pyarrow.parquet as pq

DIR = os.path.join(os.path.dirname(__file__), "../../data")


def rows():
    with pa.CompressedOutputStream(os.path.join(DIR, "zstd/testdata/rows.csv.zst"), "zstd") as f:
        f.write(b"name,value\n" + b"".join(b"row %d,%d\n" % (i, i * i) for i in range(1000)))


# Values of row i are formulas, which data/parquet/parquet_test.go has, too.
N = 300
TABLE = pa.table({
    "id": pa.array([3 * i - 50 for i in range(N)], pa.int64()),
    "small": pa.array([i % 100 - 50 for i in range(N)], pa.int8()),
    "count": pa.array([2**32 - 1 - i for i in range(N)], pa.uint32()),
    "weight": pa.array([i / 2 for i in range(N)], pa.float32()),
    "Height": pa.array([i / 3 for i in range(N)], pa.float64()),
    "flag": pa.array([i % 3 == 0 for i in range(N)], pa.bool_()),
    "name": pa.array([f"row {i % 7}" for i in range(N)], pa.string()),
    "label": pa.array([None if i % 4 == 0 else i for i in range(N)], pa.int32()),
    "vector": pa.array([[k / 4 for k in range(i % 5)] for i in range(N)], pa.list_(pa.float32())),
    "words": pa.array([None if i % 6 == 0 else [f"w{k}" for k in range(i % 4)] for i in range(N)], pa.list_(pa.string())),
    "holes": pa.array([[i, None if i % 3 == 0 else i] for i in range(N)], pa.list_(pa.int32())),
    "image": pa.array([{"bytes": bytes([i % 256]) * (i % 9), "path": None} for i in range(N)],
                      pa.struct([("bytes", pa.binary()), ("path", pa.string())])),
    "code": pa.array([i.to_bytes(4, "little") for i in range(N)], pa.binary(4)),
    "time": pa.array([1_000_000 * i for i in range(N)], pa.timestamp("us")),
})


def tables():
    numbers = ["id", "small", "count", "time"]
    texts = ["name", "image.bytes", "words.list.element"]
    floats = ["weight", "Height", "vector.list.element"]
    for name, options in {
        "plain": {"compression": "none", "use_dictionary": False},
        "snappy": {"compression": "snappy", "data_page_version": "1.0"},
        "zstd": {"compression": "zstd", "data_page_version": "2.0", "write_page_checksum": True},
        "gzip": {"compression": "gzip", "use_dictionary": False,
                 "column_encoding": {c: "DELTA_BINARY_PACKED" for c in numbers} | {c: "DELTA_LENGTH_BYTE_ARRAY" for c in texts}},
        "brotli": {"compression": "brotli", "data_page_version": "2.0", "use_dictionary": False,
                   "column_encoding": {c: "BYTE_STREAM_SPLIT" for c in floats + numbers} |
                                      {c: "DELTA_BYTE_ARRAY" for c in texts + ["code"]} | {"flag": "RLE"}},
        "lz4": {"compression": "lz4", "write_page_index": True},
    }.items():
        pq.write_table(TABLE, os.path.join(DIR, f"parquet/testdata/{name}.parquet"), row_group_size=128, data_page_size=100,
                       write_batch_size=16, **options)


rows()
tables()
