from google.protobuf import descriptor_pb2 as _descriptor_pb2
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor
JSON_FIELD_NUMBER: _ClassVar[int]
json: _descriptor.FieldDescriptor

class JsonRule(_message.Message):
    __slots__ = ("flatten", "null_value", "text", "null_when_unset", "omit_zero")
    FLATTEN_FIELD_NUMBER: _ClassVar[int]
    NULL_VALUE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    NULL_WHEN_UNSET_FIELD_NUMBER: _ClassVar[int]
    OMIT_ZERO_FIELD_NUMBER: _ClassVar[int]
    flatten: bool
    null_value: int
    text: bool
    null_when_unset: bool
    omit_zero: bool
    def __init__(self, flatten: _Optional[bool] = ..., null_value: _Optional[int] = ..., text: _Optional[bool] = ..., null_when_unset: _Optional[bool] = ..., omit_zero: _Optional[bool] = ...) -> None: ...
