"""The messages and methods of the API, made of its .proto files when this module is imported.

Modules that protoc writes fit only the versions of protobuf around its own, and protoc would have to be there when the
package is built. So the package carries the .proto files themselves, and reads the part of the language that they use. They
go into a descriptor pool of their own: another module with messages of the same names does no harm.
"""

from __future__ import annotations

import re
from importlib import resources
from typing import Any, Dict, Iterator, List, NamedTuple, Tuple

from google.protobuf import any_pb2, descriptor_pb2, descriptor_pool, duration_pb2, message_factory, timestamp_pb2

_FILES = (
    ("google/rpc/status.proto", "status.proto"),
    ("sandbox/v1/sandbox.proto", "sandbox.proto"),
    ("sandbox/v1/codebase.proto", "codebase.proto"),
    ("sandbox/v1/file.proto", "file.proto"),
    ("sandbox/v1/process.proto", "process.proto"),
    ("sandbox/v1/reservation.proto", "reservation.proto"),
    ("sandbox/v1/retention.proto", "retention.proto"),
    ("sandbox/v1/review.proto", "review.proto"),
    ("sandbox/v1/server.proto", "server.proto"),
    ("sandbox/v1/terminal.proto", "terminal.proto"),
)
_TOKEN = re.compile(r'//[^\n]*|\s+|("[^"\n]*"|[\w.]+|[{}()<>=;,])')
_factory_module: Any = message_factory  # what it has depends on the version
_Field: Any = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "string": _Field.TYPE_STRING,
    "bytes": _Field.TYPE_BYTES,
    "bool": _Field.TYPE_BOOL,
    "int32": _Field.TYPE_INT32,
    "int64": _Field.TYPE_INT64,
    "uint32": _Field.TYPE_UINT32,
    "uint64": _Field.TYPE_UINT64,
    "double": _Field.TYPE_DOUBLE,
}


class Method(NamedTuple):
    """How a method is called."""

    path: str
    request: Any
    answer: Any
    streams_in: bool
    streams_out: bool


def _tokens(text: str) -> Iterator[str]:
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if not found:
            raise ValueError(f"not understood: {text[at : at + 40]!r}")
        if found.group(1):
            yield found.group(1)
        at = found.end()


class _Reader:
    """Reads one file into a FileDescriptorProto. Names of types are resolved afterwards, when all are known."""

    def __init__(self, name: str, text: str) -> None:
        self.words = list(_tokens(text))
        self.at = 0
        self.file: Any = descriptor_pb2.FileDescriptorProto(name=name, syntax="proto3")

    def take(self, *expected: str) -> str:
        word = self.words[self.at]
        if expected and word not in expected:
            raise ValueError(f"{self.file.name}: {word!r} where one of {expected} is expected")
        self.at += 1
        return word

    def peek(self, word: str) -> bool:
        return self.words[self.at] == word

    def read(self) -> Any:
        while self.at < len(self.words):
            word = self.take("syntax", "package", "import", "message", "enum", "service")
            if word == "syntax":
                self.take("=")
                self.take('"proto3"')
                self.take(";")
            elif word == "package":
                self.file.package = self.take()
                self.take(";")
            elif word == "import":
                self.file.dependency.append(self.take().strip('"'))
                self.take(";")
            elif word == "message":
                self.read_message(self.file.message_type.add())
            elif word == "enum":
                self.read_enum(self.file.enum_type.add())
            else:
                self.read_service(self.file.service.add())
        return self.file

    def read_message(self, message: Any) -> None:
        message.name = self.take()
        self.take("{")
        while not self.peek("}"):
            if self.peek("message"):
                self.take()
                self.read_message(message.nested_type.add())
            elif self.peek("enum"):
                self.take()
                self.read_enum(message.enum_type.add())
            elif self.peek("oneof"):
                self.take()
                message.oneof_decl.add(name=self.take())
                self.take("{")
                while not self.peek("}"):
                    self.read_field(message).oneof_index = len(message.oneof_decl) - 1
                self.take("}")
            else:
                self.read_field(message)
        self.take("}")

    def read_field(self, message: Any) -> Any:
        field = message.field.add(label=_Field.LABEL_OPTIONAL)
        if self.peek("repeated"):
            self.take()
            field.label = _Field.LABEL_REPEATED
        kind = self.take()
        entry = None
        if kind == "map":
            field.label = _Field.LABEL_REPEATED
            entry = message.nested_type.add()
            entry.options.map_entry = True
            self.take("<")
            self.set_type(entry.field.add(name="key", number=1, label=_Field.LABEL_OPTIONAL), self.take())
            self.take(",")
            self.set_type(entry.field.add(name="value", number=2, label=_Field.LABEL_OPTIONAL), self.take())
            self.take(">")
        field.name = self.take()
        if entry is not None:
            kind = entry.name = "".join(part.capitalize() for part in field.name.split("_")) + "Entry"
        self.set_type(field, kind)
        self.take("=")
        field.number = int(self.take())
        self.take(";")
        return field

    @staticmethod
    def set_type(field: Any, kind: str) -> None:
        if kind in _SCALARS:
            field.type = _SCALARS[kind]
        else:
            field.type_name = kind

    def read_enum(self, enum: Any) -> None:
        enum.name = self.take()
        self.take("{")
        while not self.peek("}"):
            value = enum.value.add(name=self.take())
            self.take("=")
            value.number = int(self.take())
            self.take(";")
        self.take("}")

    def read_service(self, service: Any) -> None:
        service.name = self.take()
        self.take("{")
        while not self.peek("}"):
            self.take("rpc")
            method = service.method.add(name=self.take())
            method.client_streaming, method.input_type = self.read_side()
            self.take("returns")
            method.server_streaming, method.output_type = self.read_side()
            self.take(";")
        self.take("}")

    def read_side(self) -> Tuple[bool, str]:
        self.take("(")
        streams = self.peek("stream")
        if streams:
            self.take()
        name = self.take()
        self.take(")")
        return streams, name


class _Resolver:
    """Makes the names of types absolute, as scopes of the language have it."""

    def __init__(self) -> None:
        self.kinds: Dict[str, int] = {}

    def learn(self, file: Any) -> None:
        for message in file.message_type:
            self.learn_message(f".{file.package}", message)
        for enum in file.enum_type:
            self.kinds[f".{file.package}.{enum.name}"] = _Field.TYPE_ENUM

    def learn_message(self, scope: str, message: Any) -> None:
        name = f"{scope}.{message.name}"
        self.kinds[name] = _Field.TYPE_MESSAGE
        for nested in message.nested_type:
            self.learn_message(name, nested)
        for enum in message.enum_type:
            self.kinds[f"{name}.{enum.name}"] = _Field.TYPE_ENUM

    def find(self, scope: str, name: str) -> str:
        while True:
            if f"{scope}.{name}" in self.kinds:
                return f"{scope}.{name}"
            if not scope:
                raise ValueError(f"no type {name!r}")
            scope = scope.rpartition(".")[0]

    def resolve(self, file: Any) -> None:
        for message in file.message_type:
            self.resolve_message(f".{file.package}", message)
        for service in file.service:
            for method in service.method:
                method.input_type = self.find(f".{file.package}", method.input_type)
                method.output_type = self.find(f".{file.package}", method.output_type)

    def resolve_message(self, scope: str, message: Any) -> None:
        scope = f"{scope}.{message.name}"
        for field in message.field:
            if field.type_name:
                field.type_name = self.find(scope, field.type_name)
                field.type = self.kinds[field.type_name]
        for nested in message.nested_type:
            self.resolve_message(scope, nested)


def _read_text(name: str) -> str:
    return (resources.files(__package__) / "_proto" / name).read_text(encoding="utf-8")


def read_files() -> List[Any]:
    """FileDescriptorProtos of our .proto files, each after those it needs."""
    resolver = _Resolver()
    for known in (any_pb2, duration_pb2, timestamp_pb2):
        file: Any = descriptor_pb2.FileDescriptorProto()
        known.DESCRIPTOR.CopyToProto(file)
        resolver.learn(file)
    files = [_Reader(name, _read_text(local)).read() for name, local in _FILES]
    for file in files:
        resolver.learn(file)
    for file in files:
        resolver.resolve(file)
    return files


def _class_of(factory: Any, descriptor: Any) -> Any:
    modern = getattr(_factory_module, "GetMessageClass", None)
    return modern(descriptor) if modern else factory.GetPrototype(descriptor)


class _Messages:
    """Classes of messages as attributes, by their names."""

    def __init__(self, classes: Dict[str, Any]) -> None:
        self.__dict__.update(classes)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


def _words_of(enum: Any) -> Dict[int, str]:
    """CHANGE_KIND_ADDED of ChangeKind is "added"."""
    prefix = re.sub(r"(?<!^)(?=[A-Z])", "_", enum.name).upper() + "_"
    return {value.number: value.name[len(prefix) :].lower() for value in enum.value if value.number}


def _build() -> Tuple[_Messages, Dict[str, Method], Dict[str, Dict[int, str]]]:
    pool: Any = descriptor_pool.DescriptorPool()
    for known in (any_pb2, duration_pb2, timestamp_pb2):
        pool.AddSerializedFile(known.DESCRIPTOR.serialized_pb)
    files = read_files()
    for file in files:
        pool.AddSerializedFile(file.SerializeToString())
    factory = None if hasattr(_factory_module, "GetMessageClass") else _factory_module.MessageFactory(pool)
    classes = {
        message.name: _class_of(factory, pool.FindMessageTypeByName(f"{file.package}.{message.name}"))
        for file in files
        for message in file.message_type
    }
    classes["Duration"] = _class_of(factory, pool.FindMessageTypeByName("google.protobuf.Duration"))
    methods = {}
    for file in files:
        for service in file.service:
            for method in service.method:
                methods[method.name] = Method(
                    path=f"/{file.package}.{service.name}/{method.name}",
                    request=classes[method.input_type.rpartition(".")[2]],
                    answer=classes[method.output_type.rpartition(".")[2]],
                    streams_in=method.client_streaming,
                    streams_out=method.server_streaming,
                )
    enums = {enum.name: _words_of(enum) for file in files for enum in file.enum_type}
    return _Messages(classes), methods, enums


messages, METHODS, _ENUMS = _build()


def enum_word(enum: str, number: int) -> str:
    """The word that a number of an enum stands for; "" for one that is not known, or not given.

    >>> enum_word("ChangeKind", 2), enum_word("ChangeKind", 0)
    ('modified', '')
    """
    return _ENUMS[enum].get(number, "")


def enum_number(enum: str, word: str) -> int:
    """The reverse; 0 for a word that is not known.

    >>> enum_number("RebaseStrategy", "merge"), enum_number("RebaseStrategy", "x")
    (2, 0)
    """
    return next((number for number, name in _ENUMS[enum].items() if name == word), 0)


def enum_words(enum: str) -> List[str]:
    return list(_ENUMS[enum].values())
