-- Dropout.lua - zeroes elements, or whole channels, at random while training, and scales up the
-- remaining elements so that the expected sum does not change.

local args = require "tlua.args"
local F = require "tlua.nn.functional"
local define = require "tlua.nn.modules.layers".define

local M = {}

--- Zeroes elements with probability p while training, and multiplies the remaining elements by 1 /
--- (1 - p).
---
---     torch.manual_seed(0)
---     local layer = torch.nn.Dropout(0.5)
---     print(layer(torch.ones(100)):unique())
---     --> tensor([0., 2.])
---     print(layer:eval()(torch.ones(3)))
---     --> tensor([1., 1., 1.])
---@class nn.Dropout: nn.Module

--- Zeroes whole channels of (N, C, ...) with probability p while training.
---
---     torch.manual_seed(0)
---     local y = torch.nn.Dropout2d(0.5)(torch.ones(1, 50, 2, 2))
---     print(y:amax({3, 4}):eq(y:amin({3, 4})):all():item()) -- a channel is equal
---     --> true
---@class nn.Dropout1d: nn.Module
---@class nn.Dropout2d: nn.Module
---@class nn.Dropout3d: nn.Module

--- Drops elements, or whole channels, so that SELU's outputs keep their mean and variance.
---
---     print(torch.nn.AlphaDropout(0.5):eval()(torch.ones(3)))
---     --> tensor([1., 1., 1.])
---@class nn.AlphaDropout: nn.Module
---@class nn.FeatureAlphaDropout: nn.Module

-- Defines Dropout1d, Dropout2d and Dropout3d, which drop whole channels of (N, C, ...);
-- AlphaDropout, which keeps the mean and the variance of SELU's outputs; and FeatureAlphaDropout,
-- which drops whole channels and keeps both.
for name, drop in pairs {
   Dropout = "dropout", Dropout1d = "dropout1d", Dropout2d = "dropout2d",
   Dropout3d = "dropout3d", AlphaDropout = "alpha_dropout",
   FeatureAlphaDropout = "feature_alpha_dropout",
} do
   local in_place = drop .. "_"
   local function forward(self, input)
      return F[self.inplace and in_place or drop](input, self.p, self.training)
   end
   local function check(self)
      if not (self.p >= 0 and self.p <= 1) then
         args.refuse("nn." .. name, "p", "a probability from 0 to 1", self.p)
      end
   end
   M[name] = define(name, "p: number = 0.5, inplace: boolean = false", forward, check)
end

return M
