-- strided.lua - tensors that are not row-major as inputs of programs, for torch.compile. A program
-- copies such an input to row-major memory, and sums over the copy may differ in rounding from the
-- sums that the function computes. So the program gets the memory of such an input as a
-- one-dimensional row-major tensor, called a line, and begins with views of its lines.

local M = {}

-- Returns the number of elements in memory from a tensor's first element to its last.
local function length_of(tensor)
   local length, strides = 1, tensor:stride()
   for d, size in ipairs(tensor.shape) do length = length + (size - 1) * strides[d] end
   return length
end

local function line_of(tensor, length) return tensor:as_strided({length}, {1}) end

--- Returns a tensor with the same elements, sizes and strides, in memory of its own.
function M.copy(tensor)
   if tensor:is_contiguous() then return tensor:detach():clone() end
   local line = line_of(tensor:detach(), length_of(tensor)):clone()
   return line:as_strided(tensor.shape, tensor:stride())
end

--- Returns a tensor with the sizes and strides of a tensor and its elements in reverse order.
function M.reversed(tensor)
   local line = line_of(tensor, length_of(tensor)):flip(1)
   return line:as_strided(tensor.shape, tensor:stride())
end

--- Returns a list of the tensors that are not row-major, each as {number, length of its line,
--- sizes, strides}.
function M.find(tensors)
   local list = {}
   for i, tensor in ipairs(tensors) do
      if not tensor:is_contiguous() then
         list[#list + 1] = {i, length_of(tensor), tensor.shape, tensor:stride()}
      end
   end
   return list
end

--- Returns a copy of the list of tensors in which lines replace the tensors that `find` has found.
function M.lines(found, tensors)
   if #found == 0 then return tensors end
   local list = {table.unpack(tensors)}
   for _, item in ipairs(found) do list[item[1]] = line_of(list[item[1]], item[2]) end
   return list
end

--- Replaces each line (the memory of a tensor as one dimension) in the list `tensors` by a view
--- with the sizes and strides of the original tensor, which `found` has.
function M.views(found, tensors)
   for _, item in ipairs(found) do
      tensors[item[1]] = tensors[item[1]]:as_strided(item[3], item[4])
   end
   return tensors
end

return M
