"""Small files for the readers of data, written by the libraries whose formats they have.

    data/testdata/shard.tar, shard.tar.gz   by webdataset's TarWriter
    data/testdata/examples.tfrecord         by TensorFlow
    data/testdata/rows.npy, fortran.npy, arrays.npz, rows.npy.gz   by NumPy
    data/testdata/gpt2.bin, llama3.bin, plain.bin   tokens by NumPy: with llm.c's two headers, and as nanoGPT has them

Run: python3 scripts/goldens/readers.py, with webdataset 1.0.2, tensorflow 2.20 and NumPy 2.4
"""

import gzip
import os
import shutil

import numpy as np
import tensorflow as tf
import webdataset as wds

DIR = os.path.join(os.path.dirname(__file__), "../../data/testdata")


def at(name):
    return os.path.join(DIR, name)


def packed(name):
    with open(at(name), "rb") as f, open(at(name + ".gz"), "wb") as g, gzip.GzipFile("", "wb", 9, g, mtime=0) as z:
        shutil.copyfileobj(f, z)


def shard():
    with wds.TarWriter(at("shard.tar"), mtime=0, user="", group="", mode=0o644) as w:
        for i in range(5):
            name = f"train/{i:03}" if i != 3 else "train/" + "long" * 40
            w.write({"__key__": name, "cls": i, "txt": "text " * i, "seg.PNG": bytes([i]) * (i * 100), "json": {"i": i}})
    packed("shard.tar")


def examples():
    kinds = {"int64_list": tf.train.Int64List, "float_list": tf.train.FloatList, "bytes_list": tf.train.BytesList}

    def feature(kind, *values):
        return tf.train.Feature(**{kind: kinds[kind](value=values)})

    with tf.io.TFRecordWriter(at("examples.tfrecord")) as w:
        for i in range(4):
            example = tf.train.Example(features=tf.train.Features(feature={
                "label": feature("int64_list", i - 2), "sizes": feature("float_list", *(k / 2 for k in range(i))),
                "ids": feature("int64_list", -1, 2**62, i), "image": feature("bytes_list", bytes([i]) * (i * 60)),
                "words": feature("bytes_list", b"a", b"", b"\xff"),
            }))
            w.write(example.SerializeToString(deterministic=True))


def arrays():
    x = np.arange(24, dtype=np.float32).reshape(4, 2, 3)
    np.save(at("rows.npy"), x)
    packed("rows.npy")
    np.save(at("fortran.npy"), np.asfortranarray(x))
    np.savez(at("arrays.npz"), x=x, y=np.arange(4, dtype=np.int64) * 10, scalar=np.float64(1))


def tokens():
    ids = np.arange(30) * 2000
    for name, magic, version, dtype in (("gpt2.bin", 20240520, 1, "<u2"), ("llama3.bin", 20240801, 7, "<u4")):
        header = np.zeros(256, dtype="<i4")
        header[:3] = magic, version, len(ids)
        with open(at(name), "wb") as f:
            f.write(header.tobytes())
            f.write((ids + (100_000 if dtype == "<u4" else 0)).astype(dtype).tobytes())
    ids.astype("<u2").tofile(at("plain.bin"))


shard()
examples()
arrays()
tokens()
