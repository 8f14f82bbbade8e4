-- MaxUnpool.lua - inverts a max pooling: puts the pooled elements back at their positions in the
-- pooling's input, and zeros everywhere else.

local F = require "tlua.nn.functional"
local define = require "tlua.nn.modules.layers".define

local M = {}

--- Puts elements back where MaxPool with return_indices found them; all other elements are 0.
---
---     local pool = torch.nn.MaxPool1d(2, {return_indices = true})
---     local y, indices = pool(torch.tensor {{{1.0, 5.0, 7.0, 3.0}}})
---     print(torch.nn.MaxUnpool1d(2)(y, indices))
---     --> tensor([[[0., 5., 7., 0.]]])
---@class nn.MaxUnpool1d: nn.Module
---@class nn.MaxUnpool2d: nn.Module
---@class nn.MaxUnpool3d: nn.Module

for n = 1, 3 do
   local unpool = ("max_unpool%dd"):format(n)
   local name = ("MaxUnpool%dd"):format(n)
   M[name] = define(name, "kernel_size: integers, stride: integers?, padding: integers = 0",
      function(self, input, indices, output_size)
         return F[unpool](input, indices, self.kernel_size, self.stride, self.padding,
            output_size)
      end)
end

return M
