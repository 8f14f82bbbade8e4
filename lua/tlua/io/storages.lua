-- storages.lua - groups the tensors of an object into storages, as a file stores them: tensors that
-- share memory share a storage, with offsets and strides. A storage extends from the first to the
-- last element that any of its tensors uses, so saving a view of a large tensor does not save the
-- rest of that tensor.

local torch = require "tlua"

local M = {}

---@class io.Storage
---@field number integer?  its number in the file, set by the writer
---@field n integer  elements
---@field first integer  address of the first element
---@field view Tensor  one of its tensors
local Storage = {}
Storage.__index = Storage

--- Returns a tensor (n) of the storage's elements on the CPU.
---@return Tensor
function Storage:tensor()
   local view <const> = self.view:detach()
   if self.n == 0 then return view:new_empty({0}):cpu() end
   local ahead = (view:data_ptr() - self.first) // view:element_size()
   return view:as_strided({self.n}, {1}, view:storage_offset() - ahead):cpu()
end

-- Returns all tensors in nested tables, each once.
local function tensors_in(object)
   local list, seen, waiting = {}, {}, {object}
   while #waiting > 0 do
      local value = table.remove(waiting)
      if torch.is_tensor(value) then
         local parts = torch._sparse_parts(value)
         if parts then
            waiting[#waiting + 1] = require "tlua.io.sparse".tensors(parts)
         elseif value.is_nested then
            waiting[#waiting + 1] = require "tlua.io.nested".tensors(value)
         elseif value.is_quantized then
            waiting[#waiting + 1] = require "tlua.io.quantized".tensors(value)
         elseif not seen[value] then
            list[#list + 1] = value
         end
         seen[value] = true
      elseif type(value) == "table" and not seen[value] then
         seen[value] = true
         for _, item in next, value do waiting[#waiting + 1] = item end
      end
   end
   return list
end

-- Returns the range of a tensor's elements: {tensor, address of the first byte, address after the
-- last byte}.
local function span_of(tensor)
   local size, last = tensor:element_size(), 0
   if tensor:numel() == 0 then return {tensor, 0, 0} end
   local strides = tensor:stride()
   for d, n in ipairs(tensor.shape) do last = last + (n - 1) * strides[d] end
   local first = tensor:data_ptr()
   return {tensor, first, first + (last + 1) * size}
end

-- Groups tensors that may share a storage into lists by device and dtype, each sorted by address.
local function sorted_spans(tensors)
   local groups, order = {}, {}
   for _, tensor in ipairs(tensors) do
      local key = ("%s %s"):format(tensor.device, tensor.dtype)
      if not groups[key] then
         groups[key] = {}
         order[#order + 1] = groups[key]
      end
      table.insert(groups[key], span_of(tensor))
   end
   for _, spans in ipairs(order) do
      table.sort(spans, function(a, b)
         if a[2] ~= b[2] then return a[2] < b[2] end
         return a[3] > b[3]
      end)
   end
   return order
end

--- Returns the storages of all tensors in an object.
---@param object any
---@return table<Tensor, {storage: io.Storage, offset: integer}> places  offset: in elements
function M.of(object)
   local tensors, place_of = tensors_in(object), {}
   for _, spans in ipairs(sorted_spans(tensors)) do
      local storage, ends
      for _, span in ipairs(spans) do
         local tensor, first, last = table.unpack(span)
         local size = tensor:element_size()
         if not storage or first >= ends or (first - storage.first) % size ~= 0 then
            storage, ends = setmetatable({first = first, n = 0, view = tensor}, Storage), last
         end
         ends = math.max(ends, last)
         storage.n = (ends - storage.first) // size
         place_of[tensor] = {storage = storage, offset = (first - storage.first) // size}
      end
   end
   return place_of
end

return M
