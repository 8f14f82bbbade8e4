-- values.lua - finds tensors whose values a file cannot store: tensors on the meta device, released
-- tensors and masked tensors. Most formats also cannot store sparse, nested and quantized tensors.

local torch = require "tlua"
local kinds = require "tlua.io.kinds"

local M = {}

local function fault_of(tensor, takes)
   local parts, version = torch._sparse_parts(tensor)
   if parts and not version then return "the tensor was released" end
   if parts then
      -- reading the parts also checks positions that were changed in place
      tensor = require "tlua.sparse.value".parts(tensor).values
   end
   local meta = getmetatable(tensor)
   local main = not parts and torch._wrapped_parts(tensor, meta)
   local is_known = main and (tensor.is_nested or tensor.is_quantized)
   if is_known and takes.wrapped then
      tensor = main.values or main.integers
   elseif is_known then
      return ("a %s cannot be saved in this format: .safetensors and .pt files take it"):format(
         meta.title)
   elseif main then
      return ("a %s cannot be saved; save the tensors that it is made of"):format(meta.title)
   end
   if not pcall(tensor.dim, tensor) then return "the tensor was released" end
   if not tensor.is_meta then return nil end
   return "the tensor is on the meta device and has no values; module:to_empty{device = \"cpu\"} "
      .. "makes memory, which a load or an initializer then fills; save it then"
end

local function sparse_fault(tensor)
   if not torch._sparse_parts(tensor) then return nil end
   return ("a tensor of layout %s cannot be saved in this format: .safetensors and .pt files take "
      .. "it, and to_dense() makes a dense one"):format(tensor.layout)
end

--- Returns a message about the first tensor in nested tables that has no values, such as
--- `model.weight: the tensor was released`, or nil. Tables with a metatable are skipped: the format
--- refuses them.
---@param object any
---@param takes {sparse: boolean, wrapped: boolean}  whether the format has sparse tensors, and
--- whether it has nested and quantized tensors
---@return string?
function M.missing(object, takes)
   local seen = {}
   local function look(value, path)
      if torch.is_tensor(value) then
         local why = fault_of(value, takes) or not takes.sparse and sparse_fault(value)
         return why and (path and path .. ": " .. why or why)
      end
      if type(value) ~= "table" or seen[value] or not kinds.of(value) then return nil end
      seen[value] = true
      for _, key in ipairs(kinds.sorted_keys(value)) do
         local name = tostring(key)
         local why = look(value[key], path and path .. "." .. name or name)
         if why then return why end
      end
      return nil
   end
   return look(object, nil)
end

return M
