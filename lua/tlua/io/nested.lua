-- nested.lua - nested tensors in PyTorch's files, where offsets count from 0.

local torch = require "tlua"

local M = {}

local MODULE <const> = "torch.nested._internal.nested_tensor"

-- Maps the parts of a nested tensor to the list of dense tensors that M.tensors has returned for
-- it.
local written = setmetatable({}, {__mode = "k"})

local function parts_of(x) return torch._wrapped_parts(x, getmetatable(x)) end

--- Returns the dense tensors that represent a nested tensor in a file: values, offsets (from 0),
--- and lengths if it has them. Each call returns the same tensors.
---@param x Tensor
---@return Tensor[]
function M.tensors(x)
   local parts = parts_of(x)
   local list = written[parts]
   if not list or list.values ~= parts.values then
      list = {parts.values:detach(), x:offsets() - 1, x:lengths(), values = parts.values}
      written[parts] = list
   end
   return {table.unpack(list, 1, 3)}
end

--- Writes a nested tensor into a pickle.
---@param out io.Pickler
---@param x Tensor
---@param put fun(out: io.Pickler, tensor: Tensor, requires_grad: boolean)  writes a dense tensor
---@param requires_grad boolean
function M.put(out, x, put, requires_grad)
   local list = M.tensors(x)
   out:call("torch._tensor", "_rebuild_from_type_v2", function()
      out:global(MODULE, "_rebuild_njt")
      out:global(MODULE, "NestedTensor")
      out:raw "(}("
      for i, name in ipairs {"values", "offsets", "lengths"} do
         out:string(name)
         if list[i] then put(out, list[i], false) else out:raw "N" end
      end
      out:string "_ragged_idx"
      out:integer(parts_of(x).dim - 1)
      out:string "_metadata_cache"
      out:raw "}"
      out:string "requires_grad"
      out:put(requires_grad)
      out:raw "ut}"
   end)
end

--- Rebuilds a nested tensor from the arguments stored in a file. Returns nil and a message if the
--- arguments do not fit together.
---@param given table<string, any>
---@return Tensor?
---@return string? message
function M.rebuild(given)
   if torch.is_tensor(given.offsets) and given.offsets.is_meta then
      return nil, "a nested tensor, the offsets of which map_location = \"meta\" does not read"
   end
   local fine, x = pcall(function()
      local lengths = torch.is_tensor(given.lengths) and given.lengths or nil
      local made = torch.nested.nested_tensor_from_jagged(given.values, given.offsets + 1, lengths,
         {jagged_dim = given._ragged_idx + 1})
      return given.requires_grad == true and made:requires_grad_(true) or made
   end)
   if fine then return x end
   return nil, "a malformed nested tensor: " .. tostring(x):gsub("^.-:%d+: ", "")
end

return M
