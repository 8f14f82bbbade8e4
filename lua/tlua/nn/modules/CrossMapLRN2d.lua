-- CrossMapLRN2d.lua - local response normalisation across the channels of images, under Torch7's
-- name.

local torch = require "tlua"
local args = require "tlua.args"
local F = require "tlua.nn.functional"
local layers = require "tlua.nn.modules.layers"

--- Computes x / (k + alpha / size * s)^beta for an input (N, C, H, W), where s is the sum of
--- squares over a window of `size` channels around the element's channel. Results equal those of
--- Torch7. PyTorch's port differs: it does not remove the first channel from its running sum, and
--- its gradient is off by one channel.
---
---    local layer = torch.nn.CrossMapLRN2d(3)
---    print(table.unpack(layer(torch.ones(1, 4, 2, 2)).shape))
---    --> 1	4	2	2
local CrossMapLRN2d = layers.define("CrossMapLRN2d", [[size: count, alpha: number = 1e-4,
   beta: number = 0.75, k: number = 1]], function(self, input)
   if not torch.is_tensor(input) or input:dim() ~= 4 then
      args.refuse("nn.CrossMapLRN2d", "input", "a tensor of 4 dimensions", input)
   end
   return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)
end, function(self)
   if self.size % 2 == 0 then
      args.refuse("nn.CrossMapLRN2d", "size", "an odd number", self.size)
   end
end)

return {CrossMapLRN2d = CrossMapLRN2d}
