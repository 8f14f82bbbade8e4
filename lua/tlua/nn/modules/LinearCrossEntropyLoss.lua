-- LinearCrossEntropyLoss.lua - the last linear layer of a classifier together with its
-- cross-entropy. If out_features is not given, F.linear_cross_entropy computes the loss with the
-- logits of only a few rows in memory at a time. With out_features, all logits are in memory.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local F = require "tlua.nn.functional"
local Linear = require "tlua.nn.modules.Linear"
local Module = require "tlua.nn.modules.Module"

local name <const> = "nn.LinearCrossEntropyLoss"
local signature = args.signature(name .. [[(in_features: count, num_classes: count,
   out_features: integers?, bias: boolean = false, device: device?, dtype: string?,
   reduction: string = 'mean', weight: tensor?, ignore_index: integer?,
   label_smoothing: number = 0, options: table?)]])

--- The last linear layer of a classifier together with its cross-entropy. Unless out_features is
--- given, only the logits of a few rows are in memory at a time.
---
---     local loss = torch.nn.LinearCrossEntropyLoss(4, 10)
---     local x, class = torch.zeros(3, 4), torch.tensor {1, 5, 10}
---     print(loss(x, class):dim())
---     --> 0
---@class nn.LinearCrossEntropyLoss: nn.Module
---@field linear nn.Linear  the layer before the loss
---@overload fun(in_features: integer, num_classes: integer, options?: table)
local Loss, parent = class.class(name, Module)

local function check(a)
   if a.reduction ~= "mean" and a.reduction ~= "sum" and a.reduction ~= "none" then
      args.refuse(name, "reduction", "mean, sum or none", a.reduction)
   end
   if not (a.label_smoothing >= 0 and a.label_smoothing <= 1) then
      args.refuse(name, "label_smoothing", "a number from 0 to 1", a.label_smoothing)
   end
   local weight = a.weight
   if weight and (weight:dim() ~= 1 or weight:size(1) ~= a.num_classes) then
      args.refuse(name, "weight", ("shape (%d)"):format(a.num_classes), weight)
   end
   args.check_options(name .. ": options", a.options, "batch_chunk_size", "allow_retain_graph")
   local size = a.options and a.options.batch_chunk_size
   if size and (math.type(size) ~= "integer" or size < 1) then
      args.refuse(name, "options.batch_chunk_size", "an integer of at least 1", size)
   end
end

--- Makes the loss. With `out_features`, a sample has a grid of targets of that size. Each target
--- has its own loss, as in cross_entropy. In the table `options`, batch_chunk_size is the number of
--- rows whose logits are in memory at a time, by default as many as fit into 16 MB;
--- allow_retain_graph has no effect, since the graph can always be retained. The other options are
--- those of cross_entropy.
---@param in_features integer
---@param num_classes integer
---@param options? table
function Loss:__init(...)
   parent.__init(self)
   local a = signature(...)
   check(a)
   local out = a.out_features or {}
   self.out_features = type(out) == "number" and {out} or out
   self.in_features, self.num_classes = a.in_features, a.num_classes
   self.reduction, self.label_smoothing = a.reduction, a.label_smoothing
   self.ignore_index, self.options = a.ignore_index, a.options
   if a.weight then self:register_buffer("weight", a.weight) end
   local rows = a.num_classes
   for _, size in ipairs(self.out_features) do rows = rows * size end
   self.linear = Linear(a.in_features, rows, {bias = a.bias, device = a.device, dtype = a.dtype})
end

--- Returns the loss. The target contains classes (N, *out_features), or class probabilities (N,
--- num_classes, *out_features). For one sample the dimension N is missing.
---@param input Tensor  (N, in_features) or (in_features)
---@param target Tensor
---@return Tensor
function Loss:forward(input, target)
   if not torch.is_tensor(input) or input:dim() < 1 or input:dim() > 2
      or input:size(-1) ~= self.in_features then
      args.refuse(name, "input", ("shape (N, %d) or (%d)"):format(
         self.in_features, self.in_features), input)
   end
   if not torch.is_tensor(target) then args.refuse(name, "target", "a tensor", target) end
   if self.ignore_index and target:is_floating_point() then
      torch.raise(name .. ": ignore_index: expected none if targets are probabilities")
   end
   local options = {weight = self.weight, reduction = self.reduction,
      ignore_index = self.ignore_index, label_smoothing = self.label_smoothing}
   if #self.out_features > 0 then
      if input:dim() == 1 then args.refuse(name, "input", "a batch, with out_features", input) end
      local sizes = {input:size(1), self.num_classes, table.unpack(self.out_features)}
      return F.cross_entropy(self.linear(input):view(sizes), target, options)
   end
   options.linear_bias = self.linear.bias
   options.chunk_size = self.options and self.options.batch_chunk_size
   return F.linear_cross_entropy(input, self.linear.weight, target, options)
end

function Loss:extra_repr()
   return ("in_features=%d, num_classes=%d, out_features=(%s), bias=%s, reduction=%s"):format(
      self.in_features, self.num_classes, table.concat(self.out_features, ", "),
      self.linear.bias ~= nil, self.reduction)
end

return Loss
