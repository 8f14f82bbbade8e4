-- deterministic.lua - torch.utils.deterministic: further settings of
-- torch.use_deterministic_algorithms.

local torch = require "tlua"

--- Settings as fields. fill_uninitialized_memory (true): while deterministic algorithms are on, the
--- results of torch.empty and similar functions, and the elements that resize_ adds, are filled
--- with NaN, the largest integer or true.
---@names utils.deterministic
---@class torch.utils.deterministic
---@field fill_uninitialized_memory boolean
return setmetatable({}, {
   __index = function(_, name)
      if name == "fill_uninitialized_memory" then
         return torch._setting "fill_uninitialized" ~= 0
      end
   end,
   __newindex = function(_, name, value)
      if name ~= "fill_uninitialized_memory" then
         torch.raise(("utils.deterministic: no setting %q; there is fill_uninitialized_memory")
            :format(tostring(name)))
      elseif type(value) ~= "boolean" then
         torch.raise("utils.deterministic.fill_uninitialized_memory: expected true or false, got "
            .. tostring(value))
      end
      torch._setting("fill_uninitialized", value and 1 or 0)
   end,
})
