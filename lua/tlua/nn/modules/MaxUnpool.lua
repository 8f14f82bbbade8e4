-- MaxUnpool.lua - puts the outputs of a max pooling back to their positions in its input, with
-- zeros elsewhere.

local F = require "tlua.nn.functional"
local define = require "tlua.nn.modules.layers".define

local M = {}

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
