-- conversions.lua - makes tensors from Lua's data: torch.frombuffer from bytes, torch.from_table
-- and from_numpy from nested tables, torch.asarray from a tensor, a number or nested tables.

local torch = require "tlua"
local args = require "tlua.args"

local M = {}

local take_buffer = args.signature [[frombuffer(buffer: string|tensor, dtype: string,
   count: integer = -1, offset: count = 0, requires_grad: boolean = false)]]

--- Makes a tensor (n) of the little-endian elements in a string of bytes. If the buffer is a uint8
--- tensor on the CPU with suitably aligned memory, the result is a view of that memory.
---
---    torch.frombuffer(file:read "a", {dtype = "float32", offset = 16})
---@param buffer string|Tensor
---@param options {dtype: string, count: integer, offset: integer, requires_grad: boolean} count:
--- the number of elements, -1 (the default) for all; offset: the number of bytes to skip
---@return Tensor
function M.frombuffer(...)
   local a = take_buffer(...)
   local bytes = a.buffer
   if type(bytes) == "string" then
      bytes = torch.io.bytes(bytes)
   elseif bytes.dtype ~= "uint8" or not bytes.is_cpu or not bytes:is_contiguous() then
      args.refuse("frombuffer", "buffer", "a string or a contiguous tensor of uint8 on the CPU",
         bytes)
   end
   local size = torch.empty({0}, {dtype = a.dtype}):element_size()
   local length = bytes:numel()
   if a.offset >= length then
      torch.raise(("frombuffer: offset: expected less than the buffer's %d bytes, got %d"):format(
         length, a.offset))
   end
   local rest, n = length - a.offset, a.count
   if n == 0 or n < -1 then args.refuse("frombuffer", "count", "at least 1, or -1 for all", n) end
   if n == -1 then
      n = rest // size
      if rest % size ~= 0 then
         torch.raise(("frombuffer: the %d bytes behind the offset are no multiple of %d, the size "
            .. "of %s"):format(rest, size, a.dtype))
      end
   elseif n > rest // size then
      torch.raise(("frombuffer: count: expected at most %d elements of %s in %d bytes, got %d")
         :format(rest // size, a.dtype, rest, n))
   end
   local tensor = assert(torch.io.bytes_as(bytes:view(-1), a.offset + 1, {n}, a.dtype))
   return a.requires_grad and tensor:requires_grad_(true) or tensor
end

--- Makes a tensor from nested tables, like torch.tensor; x:tolist() is the inverse.
---@param data table
---@param options? {dtype: string, device: string|torch.device, requires_grad: boolean}
---@return Tensor
function M.from_table(data, options)
   if type(data) ~= "table" then args.refuse("from_table", "data", "a table of numbers", data) end
   return torch.tensor(data, options or {})
end

local take_numpy = args.signature "from_numpy(data: any)"

--- Makes a tensor from nested tables, such as those that x:numpy() returns; a tensor is returned
--- unchanged. This function exists for ported programs; NumPy's files are read by torch.load
--- "x.npy".
---@param data table|Tensor
---@return Tensor
function M.from_numpy(...)
   local data = take_numpy(...).data
   if torch.is_tensor(data) then return data end
   if type(data) ~= "table" then
      args.refuse("from_numpy", "data", "a tensor or a table of numbers", data)
   end
   return torch.tensor(data)
end

local take_array = args.signature [[asarray(data: any, dtype: any?, device: any?, copy: boolean?,
   requires_grad: boolean = false)]]

--- Makes a tensor from a tensor, a number or nested tables. If `copy` is nil, a tensor is copied
--- only if its dtype or device changes. If `copy` is true, it is always copied. If `copy` is false,
--- an error is raised if a copy is necessary.
---@param data any
---@param options? {dtype: string, device: string|torch.device, copy: boolean,
--- requires_grad: boolean}
---@return Tensor
function M.asarray(...)
   local a = take_array(...)
   local given = torch.is_tensor(a.data)
   local tensor = torch.as_tensor(a.data, {dtype = a.dtype, device = a.device})
   local copied = not given or tensor:data_ptr() ~= a.data:data_ptr()
   if a.copy == false and copied then
      torch.raise(("asarray: copy: expected nil or true, since %s cannot be had as it is"):format(
         given and "the tensor with another dtype or device" or args.describe(a.data)))
   end
   if a.copy and not copied then tensor = tensor:clone() end
   if not a.requires_grad then return given and tensor:detach() or tensor end
   return tensor:detach():requires_grad_(true)
end

return M
