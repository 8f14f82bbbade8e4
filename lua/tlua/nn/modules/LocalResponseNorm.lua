-- LocalResponseNorm.lua - divides each element by a power of k + alpha * m, where m is the mean of
-- the squares in neighbouring channels.

local F = require "tlua.nn.functional"
local define = require "tlua.nn.modules.layers".define

--- Divides each element by (k + alpha * m)^beta, where m is the mean of squares over the `size`
--- neighbouring channels.
---
---     local layer = torch.nn.LocalResponseNorm(2)
---     print(table.unpack(layer(torch.ones(1, 4, 5)).shape))
---     --> 1	4	5
---@class nn.LocalResponseNorm: nn.Module
---@overload fun(size: integer, options?: table): nn.LocalResponseNorm
return define("LocalResponseNorm",
   "size: count, alpha: number = 1e-4, beta: number = 0.75, k: number = 1",
   function(self, input)
      return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)
   end)
