-- datatypes.lua - the datatypes of the Open Inference Protocol and those of tensors.

local M = {}

--- From the protocol's name to the tensor's dtype.
M.dtypes = {
   BOOL = "bool", INT8 = "int8", INT16 = "int16", INT32 = "int32", INT64 = "int64",
   UINT8 = "uint8", UINT16 = "uint16", UINT32 = "uint32", UINT64 = "uint64",
   FP16 = "float16", BF16 = "bfloat16", FP32 = "float32", FP64 = "float64",
}

--- From the tensor's dtype to the protocol's name.
M.names = {}

--- The bytes of an element, by the protocol's name.
M.sizes = {
   BOOL = 1, INT8 = 1, INT16 = 2, INT32 = 4, INT64 = 8, UINT8 = 1, UINT16 = 2, UINT32 = 4,
   UINT64 = 8, FP16 = 2, BF16 = 2, FP32 = 4, FP64 = 8,
}

for name, dtype in pairs(M.dtypes) do M.names[dtype] = name end

--- Returns the datatype in which JSON has a tensor's values.
---@param datatype string
---@return string
function M.in_json(datatype)
   return (datatype == "FP16" or datatype == "BF16") and "FP32" or datatype
end

return M
