-- TripletMarginWithDistanceLoss.lua - a triplet margin loss with a distance function that the user
-- passes.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local Module = require "tlua.nn.modules.Module"

local M = {}

local options <const> = [[distance_function: callable?, margin: number = 1, swap: boolean = false,
   reduction: string = 'mean']]

-- Reduces a tensor of losses by "mean", "sum" or "none".
local function reduced(loss, reduction)
   if reduction == "mean" then return loss:mean() end
   return reduction == "sum" and loss:sum() or loss
end

local function check(name, a)
   if a.margin <= 0 or a.margin ~= a.margin then
      args.refuse(name, "margin", "a number above 0", a.margin)
   end
   if a.reduction ~= "mean" and a.reduction ~= "sum" and a.reduction ~= "none" then
      args.refuse(name, "reduction", "mean, sum or none", a.reduction)
   end
end

local function check_tensors(name, anchor, positive, negative)
   local given = {anchor = anchor, positive = positive, negative = negative}
   for _, what in ipairs {"anchor", "positive", "negative"} do
      if not torch.is_tensor(given[what]) then args.refuse(name, what, "a tensor", given[what]) end
   end
   if anchor:dim() ~= positive:dim() or anchor:dim() ~= negative:dim() then
      torch.raise(("%s: expected tensors of as many dimensions, got %d, %d and %d"):format(
         name, anchor:dim(), positive:dim(), negative:dim()))
   end
end

local function compute(a, anchor, positive, negative)
   local distance = a.distance_function or torch.pairwise_distance
   local near, far = distance(anchor, positive), distance(anchor, negative)
   if a.swap then far = torch.minimum(far, distance(positive, negative)) end
   return reduced((near - far + a.margin):clamp_min(0), a.reduction)
end

local title <const> = "nn.functional.triplet_margin_with_distance_loss"
local take = args.signature(title .. "(anchor: tensor, positive: tensor, negative: tensor, "
   .. options .. ")")

--- Computes max(d(anchor, positive) - d(anchor, negative) + margin, 0). With swap, the smaller of
--- d(anchor, negative) and d(positive, negative) is used. d is pairwise_distance by default.
---@param anchor Tensor
---@param positive Tensor
---@param negative Tensor
---@param options? {distance_function: function, margin: number, swap: boolean, reduction: string}
---@return Tensor
function M.triplet_margin_with_distance_loss(...)
   local a = take(...)
   check(title, a)
   check_tensors(title, a.anchor, a.positive, a.negative)
   return compute(a, a.anchor, a.positive, a.negative)
end

local name <const> = "nn.TripletMarginWithDistanceLoss"
local signature = args.signature(name .. "(" .. options .. ")")

--- Computes the mean of max(0, d(anchor, positive) - d(anchor, negative) + margin), where d is
--- distance_function.
---
---     local loss = torch.nn.TripletMarginWithDistanceLoss {
---        distance_function = function(a, b) return (a - b):abs():sum(2) end,
---     }
---     local anchor, far = torch.tensor {{0.0, 0.0}}, torch.tensor {{1.0, 1.5}}
---     print(loss(anchor, torch.tensor {{1.0, 1.0}}, far))
---     --> tensor(0.5000)
---@class nn.TripletMarginWithDistanceLoss: nn.Module
---@overload fun(options?: table): nn.TripletMarginWithDistanceLoss
local Loss, parent = class.class(name, Module)

---@param options? {distance_function: function, margin: number, swap: boolean, reduction: string}
function Loss:__init(...)
   parent.__init(self)
   local a = signature(...)
   check(name, a)
   for key, value in pairs(a) do self[key] = value end
end

---@param anchor Tensor
---@param positive Tensor
---@param negative Tensor
---@return Tensor
function Loss:forward(anchor, positive, negative)
   check_tensors(name, anchor, positive, negative)
   return compute(self, anchor, positive, negative)
end

function Loss:extra_repr()
   return ("margin=%g, swap=%s, reduction=%s"):format(self.margin, self.swap, self.reduction)
end

M.TripletMarginWithDistanceLoss = Loss

return M
