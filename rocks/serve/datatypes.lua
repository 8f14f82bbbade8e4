-- datatypes.lua - maps the datatypes of the Open Inference Protocol to dtypes of tensors, and
-- dtypes to datatypes.

local M = {}

--- Maps each datatype of the protocol to a tensor's dtype.
M.dtypes = {
   BOOL = "bool", INT8 = "int8", INT16 = "int16", INT32 = "int32", INT64 = "int64",
   UINT8 = "uint8", UINT16 = "uint16", UINT32 = "uint32", UINT64 = "uint64",
   FP16 = "float16", BF16 = "bfloat16", FP32 = "float32", FP64 = "float64",
}

--- Maps each dtype of tensors to a datatype of the protocol.
M.names = {}

--- The size of an element in bytes for each datatype of the protocol.
M.sizes = {
   BOOL = 1, INT8 = 1, INT16 = 2, INT32 = 4, INT64 = 8, UINT8 = 1, UINT16 = 2, UINT32 = 4,
   UINT64 = 8, FP16 = 2, BF16 = 2, FP32 = 4, FP64 = 8,
}

for name, dtype in pairs(M.dtypes) do M.names[dtype] = name end

--- Returns the datatype by which values of the given datatype are represented in JSON. For the two
--- 16-bit types it is FP32, and otherwise the datatype itself.
---@param datatype string
---@return string
function M.in_json(datatype)
   return (datatype == "FP16" or datatype == "BF16") and "FP32" or datatype
end

return M
