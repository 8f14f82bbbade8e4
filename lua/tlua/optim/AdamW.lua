-- AdamW.lua - "Decoupled Weight Decay Regularization" (Loshchilov and Hutter, 2019): Adam whose
-- decay shrinks the weights themselves instead of adding to their gradients.

local class = require "tlua.class"
local Adam = require "tlua.optim.Adam"
local Fused = require "tlua.optim.Fused"

--- Adam whose weight decay shrinks the weights themselves instead of adding to their gradients.
---
---     local model = torch.nn.Linear(2, 1)
---     local optimizer = torch.optim.AdamW({
---        {params = {model.weight}}, {params = {model.bias}, weight_decay = 0},
---     }, {lr = 1e-3, weight_decay = 0.1})
---     for _, group in ipairs(optimizer.param_groups) do
---        print(group.weight_decay)
---     end
---     --> 0.1
---     --> 0
---@class optim.AdamW: optim.Adam
---@overload fun(params: Tensor[]|table[], options?: table): optim.AdamW
local AdamW = class.class("optim.AdamW", Adam)

local defaults = {}
for name, value in pairs(Adam.default_options) do defaults[name] = value end
defaults.weight_decay, defaults.decoupled_weight_decay = 1e-2, true

Fused.define(AdamW, defaults, Adam.check)

return AdamW
