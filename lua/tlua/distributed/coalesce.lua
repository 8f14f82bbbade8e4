-- coalesce.lua - packs many tensors into few large ones, so that one call handles all of them.

local torch = require "tlua"

local M = {}

--- For each dtype and device, concatenates the tensors of that kind into one flat tensor, calls fn
--- with it, and then copies its parts back to the tensors.
---@param tensors Tensor[]
---@param fn fun(flat: Tensor)
function M.each(tensors, fn)
   local kinds, order = {}, {}
   for _, tensor in ipairs(tensors) do
      local kind = tensor.dtype .. " " .. tensor.device
      if not kinds[kind] then
         kinds[kind] = {}
         order[#order + 1] = kind
      end
      table.insert(kinds[kind], tensor:detach())
   end
   local _ <close> = torch.no_grad()
   for _, kind in ipairs(order) do
      local list, flat, at = kinds[kind], {}, 1
      for i, tensor in ipairs(list) do flat[i] = tensor:reshape(-1) end
      local whole = #flat == 1 and list[1]:is_contiguous() and flat[1] or torch.cat(flat)
      fn(whole)
      for _, tensor in ipairs(list) do
         if whole:data_ptr() ~= tensor:data_ptr() then
            tensor:copy_(whole:narrow(1, at, tensor:numel()):view(tensor.shape))
         end
         at = at + tensor:numel()
      end
   end
end

return M
