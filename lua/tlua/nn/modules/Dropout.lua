-- Dropout.lua - zeroes elements, or whole channels, at random while training, and scales the others
-- up so that the expected sum stays the same.

local args = require "tlua.args"
local F = require "tlua.nn.functional"
local define = require "tlua.nn.modules.layers".define

local M = {}

-- Dropout1d to Dropout3d drop whole channels of (N, C, ...). AlphaDropout and, for whole channels,
-- FeatureAlphaDropout keep the mean and the variance of SELU's outputs.
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
