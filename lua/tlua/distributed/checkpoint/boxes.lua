-- boxes.lua - describes rectangular parts of tensors, called boxes. A box has an offset, from 0,
-- and a size in each dimension.

local M = {}

local function product(list, from)
   local n = 1
   for d = from or 1, #list do n = n * list[d] end
   return n
end
M.product = product

-- Appends boxes to `list` that together cover `count` elements of a box of the given size,
-- beginning with number `first` (from 0, in row-major order). In the dimensions before `d`, each
-- new box has size 1 and the offsets in `prefix`.
local function cut(size, d, first, count, prefix, list)
   if count == 0 then return end
   local inner = product(size, d + 1)
   local function add(from, rows)
      local box = {offset = {}, size = {}}
      for k, at in ipairs(prefix) do box.offset[k], box.size[k] = at, 1 end
      if d <= #size then box.offset[d], box.size[d] = from, rows end
      for k = d + 1, #size do box.offset[k], box.size[k] = 0, size[k] end
      list[#list + 1] = box
   end
   if d > #size then return add() end
   local row = first // inner
   local function partial(at, from, n)
      local deeper = table.move(prefix, 1, #prefix, 1, {})
      deeper[d] = at
      cut(size, d + 1, from, n, deeper, list)
   end
   if first % inner ~= 0 then
      local n = math.min(count, inner - first % inner)
      partial(row, first % inner, n)
      row, count = row + 1, count - n
   end
   if count >= inner then
      add(row, count // inner)
      row, count = row + count // inner, count % inner
   end
   if count > 0 then partial(row, 0, count) end
end

--- Returns boxes that together cover a range of a box's elements, which are counted in row-major
--- order. The elements of each returned box follow the elements of the box before it. There are at
--- most two boxes for each dimension.
---@param offset integer[]  the box's offset
---@param size integer[]
---@param first integer  from 0
---@param count integer
---@return {offset: integer[], size: integer[]}[]
function M.of_range(offset, size, first, count)
   local list = {}
   cut(size, 1, first, count, {}, list)
   for _, box in ipairs(list) do
      for d, at in ipairs(offset) do box.offset[d] = box.offset[d] + at end
   end
   return list
end

--- Returns this rank's part of a tensor as a list of boxes within the whole tensor. The field
--- `tensor` of each box holds the box's elements.
---@param place distributed.Placement
---@param tensor Tensor  this rank's part
---@return {offset: integer[], size: integer[], tensor: Tensor}[]
function M.of_tensor(place, tensor)
   tensor = tensor:detach()
   if not place.flat then
      local box = {offset = place.offset, size = place.size, tensor = tensor}
      return product(place.size) > 0 and {box} or {}
   end
   local list, at = M.of_range(place.offset, place.size, place.first, place.count), 1
   local row = tensor:view(-1)
   for _, box in ipairs(list) do
      local n = product(box.size)
      box.tensor = row:narrow(1, at, n):view(box.size)
      at = at + n
   end
   return list
end

--- Copies the elements that the boxes `to` and `from` have in common to the tensor of `to`.
--- `tensor` has the elements of the box `from`.
function M.copy(to, from, tensor)
   local into = to.tensor
   for d = 1, #to.size do
      local first = math.max(to.offset[d], from.offset[d])
      local last = math.min(to.offset[d] + to.size[d], from.offset[d] + from.size[d])
      if last <= first then return end
      into = into:narrow(d, first - to.offset[d] + 1, last - first)
      tensor = tensor:narrow(d, first - from.offset[d] + 1, last - first)
   end
   into:copy_(tensor)
end

--- Returns a box as text, which is the same for equal boxes.
function M.key(box)
   return table.concat(box.offset, ",") .. ":" .. table.concat(box.size, ",")
end

return M
