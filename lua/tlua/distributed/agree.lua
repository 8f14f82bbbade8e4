-- agree.lua - checks that all ranks of a group make the same call. If a rank skipped the call, all
-- other ranks would wait forever.

local torch = require "tlua"

--- Raises an error on all ranks if the ranks have different items. The message names the first
--- difference.
---@param title string  the function's name, for the message
---@param what string  the name of an item, for the message
---@param group distributed.ProcessGroup
---@param items string[]
return function(title, what, group, items)
   local all = {}
   torch.distributed.all_gather_object(all, items, group)
   for rank, theirs in ipairs(all) do
      for i = 1, math.max(#items, #theirs) do
         if items[i] ~= theirs[i] then
            torch.raise(("%s: %s %d is %s here, but %s on rank %d"):format(title, what, i,
               items[i] or "missing", theirs[i] or "missing", group.ranks[rank]))
         end
      end
   end
end
