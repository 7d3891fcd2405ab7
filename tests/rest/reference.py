"""Another implementation of the mapping between messages and JSON: protobuf's own for Python. Run as a program, by an interpreter that has
it: `reference.py make DESCRIPTORS SEED COUNT` writes random messages, a line of JSON each; `reference.py compare DESCRIPTORS FILE` reads
lines of JSON in turn, ours and the line of FILE that it was made of, and says which are not the same message."""

import json
import math
import random
import sys

from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from google.protobuf.descriptor import FieldDescriptor as F

TEXTS = ["", "a", "é", "\U0001f600", "line\nbreak\ttab", '"quoted" \\ back', "\x01\x1f\x7f", "</script>", "\u2028", "x" * 300]
INTEGERS = {32: [0, 1, -1, 2**31 - 1, -2**31, 77], 64: [0, 1, -1, 2**63 - 1, -2**63, 2**53 + 1]}
UNSIGNED = {32: [0, 1, 2**32 - 1], 64: [0, 1, 2**64 - 1, 2**53 + 1]}
REALS = [0.0, -0.0, 1.5, 0.1, 1e300, -1e-300, 123456789.123, math.inf, -math.inf, math.nan, 5e-324]


def everything(path):
    pool = descriptor_pool.DescriptorPool()
    files = descriptor_pb2.FileDescriptorSet()
    with open(path, "rb") as file:
        files.ParseFromString(file.read())
    for file in files.file:
        pool.Add(file)
    return message_factory.MessageFactory(pool).GetPrototype(pool.FindMessageTypeByName("echo.v1.Everything"))


def value(rng, field):
    kind = field.type
    if kind == F.TYPE_STRING:
        return rng.choice(TEXTS)
    if kind == F.TYPE_BYTES:
        return rng.randbytes(rng.randrange(6))
    if kind == F.TYPE_BOOL:
        return rng.random() < 0.5
    if kind == F.TYPE_ENUM:
        return rng.choice([0, 1, 2, -3])
    if kind == F.TYPE_DOUBLE:
        return rng.choice(REALS + [rng.uniform(-1e6, 1e6)])
    if kind == F.TYPE_FLOAT:
        return rng.choice([0.0, 1.5, -0.25, 1e30, math.inf, 0.1])
    if kind in (F.TYPE_UINT32, F.TYPE_FIXED32):
        return rng.choice(UNSIGNED[32])
    if kind in (F.TYPE_UINT64, F.TYPE_FIXED64):
        return rng.choice(UNSIGNED[64])
    return rng.choice(INTEGERS[32 if "32" in str(field.cpp_type) or field.cpp_type == F.CPPTYPE_INT32 else 64])


def fill_message(rng, message, depth):
    name = message.DESCRIPTOR.full_name
    if name == "google.protobuf.Timestamp":
        message.seconds = rng.choice([0, 1, -62135596800, 253402300799, 1767323045])
        message.nanos = rng.choice([0, 1, 500000000, 999999999, 123000, 120000000])
    elif name == "google.protobuf.Duration":
        sign = rng.choice([1, -1])
        message.seconds = sign * rng.choice([0, 1, 315576000000 - 1, 30])
        message.nanos = sign * rng.choice([0, 1, 500000000, 999999999, 123000])
    else:
        fill(rng, message, depth + 1)


def fill(rng, message, depth=0):
    chosen = {one.name: rng.choice(one.fields) for one in message.DESCRIPTOR.oneofs}
    for field in message.DESCRIPTOR.fields:
        if rng.random() < 0.4 or depth > 4 or (field.containing_oneof and chosen[field.containing_oneof.name] is not field):
            continue
        if field.message_type and field.message_type.GetOptions().map_entry:
            entry = field.message_type.fields_by_name
            for _ in range(rng.randrange(3)):
                key = value(rng, entry["key"])
                if entry["value"].message_type:
                    fill_message(rng, getattr(message, field.name)[key], depth)
                else:
                    getattr(message, field.name)[key] = value(rng, entry["value"])
        elif field.label == F.LABEL_REPEATED:
            for _ in range(rng.randrange(4)):
                if field.message_type:
                    fill_message(rng, getattr(message, field.name).add(), depth)
                else:
                    getattr(message, field.name).append(value(rng, field))
        elif field.message_type:
            getattr(message, field.name).SetInParent()
            fill_message(rng, getattr(message, field.name), depth)
        else:
            setattr(message, field.name, value(rng, field))


def to_json(message, **options):
    return json.dumps(json.loads(json_format.MessageToJson(message, **options)), separators=(",", ":"))


def make(kind, seed, count):
    rng = random.Random(seed)
    for i in range(count):
        message = kind()
        fill(rng, message)
        print(to_json(message, including_default_value_fields=i % 2 == 0, preserving_proto_field_name=i % 3 == 0))


def compare(kind, path):
    wrong = 0
    with open(path, encoding="utf-8") as originals:
        for line, original in zip(sys.stdin, originals):
            one, other = kind(), kind()
            json_format.Parse(original, one)
            if line.startswith("refused: "):
                print("refused:", line, original)
                wrong += 1
                continue
            json_format.Parse(line, other)
            # By their bytes, since NaN is not equal to itself.
            if one.SerializeToString(deterministic=True) != other.SerializeToString(deterministic=True):
                print("differs:", line, original)
                wrong += 1
    return wrong


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(everything(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
    else:
        sys.exit(1 if compare(everything(sys.argv[2]), sys.argv[3]) else 0)
