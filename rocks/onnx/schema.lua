-- schema.lua - the messages of onnx.proto (ONNX IR 13), as far as tlua uses them. For each message,
-- a table maps the numbers of its fields to {name, kind, repeated}. The kinds are int (varint),
-- float and double (little-endian), text (a string), data (bytes that stay in the file until they
-- are used), and the names of messages. Fields that are not listed are skipped.

local M = {}

-- Builds the table of a message from a text of entries "number name kind". The kind of a repeated
-- field ends with *.
local function message(rows)
   local fields = {}
   for number, name, kind, many in rows:gmatch "(%d+) (%S+) (%a+)(%*?)" do
      fields[tonumber(number)] = {name = name, kind = kind, many = many == "*",
         number = tonumber(number)}
   end
   return fields
end

M.ModelProto = message [[1 ir_version int, 8 opset_import OperatorSetIdProto*, 2 producer_name text,
   3 producer_version text, 4 domain text, 5 model_version int, 6 doc_string text,
   7 graph GraphProto, 14 metadata_props StringStringEntryProto*, 25 functions FunctionProto*]]
M.OperatorSetIdProto = message "1 domain text, 2 version int"
M.StringStringEntryProto = message "1 key text, 2 value text"
M.GraphProto = message [[1 node NodeProto*, 2 name text, 5 initializer TensorProto*,
   10 doc_string text, 11 input ValueInfoProto*, 12 output ValueInfoProto*,
   13 value_info ValueInfoProto*, 15 sparse_initializer SparseTensorProto*]]
M.NodeProto = message [[1 input text*, 2 output text*, 3 name text, 4 op_type text, 7 domain text,
   8 overload text, 5 attribute AttributeProto*, 6 doc_string text]]
M.FunctionProto = message [[1 name text, 4 input text*, 5 output text*, 6 attribute text*,
   11 attribute_proto AttributeProto*, 7 node NodeProto*, 8 doc_string text,
   9 opset_import OperatorSetIdProto*, 10 domain text, 13 overload text]]
M.AttributeProto = message [[1 name text, 21 ref_attr_name text, 20 type int, 2 f float, 3 i int,
   4 s text, 5 t TensorProto, 6 g GraphProto, 22 sparse_tensor SparseTensorProto,
   23 sparse_tensors SparseTensorProto*, 14 tp TypeProto, 15 type_protos TypeProto*,
   7 floats float*, 8 ints int*, 9 strings text*, 10 tensors TensorProto*, 11 graphs GraphProto*]]
M.TensorProto = message [[1 dims int*, 2 data_type int, 4 float_data float*, 5 int32_data int*,
   6 string_data text*, 7 int64_data int*, 8 name text, 12 doc_string text, 9 raw_data data,
   13 external_data StringStringEntryProto*, 14 data_location int, 10 double_data double*,
   11 uint64_data int*, 3 segment Segment]]
M.Segment = message "1 begin int, 2 end int"
M.SparseTensorProto = message "1 values TensorProto, 2 indices TensorProto, 3 dims int*"
M.ValueInfoProto = message "1 name text, 2 type TypeProto, 3 doc_string text"
M.TypeProto = message [[1 tensor_type TensorTypeProto, 4 sequence_type SequenceTypeProto,
   9 optional_type OptionalTypeProto]]
M.TensorTypeProto = message "1 elem_type int, 2 shape TensorShapeProto"
M.TensorShapeProto = message "1 dim DimensionProto*"
M.DimensionProto = message "1 dim_value int, 2 dim_param text"
M.SequenceTypeProto = message "1 elem_type TypeProto"
M.OptionalTypeProto = message "1 elem_type TypeProto"
-- These are the messages of files with test data.
M.SequenceProto = message [[1 name text, 2 elem_type int, 3 tensor_values TensorProto*,
   5 sequence_values SequenceProto*]]
M.OptionalProto = message [[1 name text, 2 elem_type int, 3 tensor_value TensorProto,
   5 sequence_value SequenceProto]]

-- M.by_name maps each message's name to a table from field names to fields, which the writer uses.
M.by_name = {}
for name, fields in pairs(M) do
   if name ~= "by_name" then
      local list = {}
      for _, field in pairs(fields) do list[field.name] = field end
      M.by_name[name] = list
   end
end

--- Maps the numbers in TensorProto.data_type to tlua's names of dtypes.
M.dtypes = {"float32", "uint8", "int8", "uint16", "int16", "int32", "int64", "string", "bool",
   "float16", "float64", "uint32", "uint64", "complex64", "complex128", "bfloat16",
   "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "uint4", "int4",
   "float4_e2m1fn", "float8_e8m0fnu", "uint2", "int2"}
M.numbers = {}
for number, name in ipairs(M.dtypes) do M.numbers[name] = number end

--- Maps the numbers in AttributeProto.type to the names of the fields that hold the values.
M.attribute_fields = {"f", "i", "s", "t", "g", "floats", "ints", "strings", "tensors", "graphs",
   "sparse_tensor", "sparse_tensors", "tp", "type_protos"}

return M
