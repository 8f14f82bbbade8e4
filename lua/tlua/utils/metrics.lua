-- metrics.lua - torch.utils.metrics: metrics of predictions, accumulated batch by batch:
--
--    local accuracy = torch.utils.metrics.Accuracy {top_k = 5}
--    for input, target in loader:iter() do accuracy:update(model(input), target) end
--    print(accuracy:compute())
--
-- Each metric has update, which returns the metric, compute, which returns a number (nan before the
-- first update), and reset; compute of ConfusionMatrix returns the counts, and of a metric with
-- average = "none" a list. Classes count from 1. Only compute waits for a device, but update of
-- ConfusionMatrix, Precision, Recall and F1 does so too.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local ConfusionMatrix = require "tlua.utils.ConfusionMatrix"

local M = {ConfusionMatrix = ConfusionMatrix}

local function check_tensors(title, predictions, targets)
   for what, tensor in pairs {predictions = predictions, targets = targets} do
      if not torch.is_tensor(tensor) then args.refuse(title, what, "a tensor", tensor) end
   end
end

local function refuse_shapes(title, predictions, targets)
   torch.raise(("%s: targets: expected one for each prediction, got %s for %s"):format(
      title, args.describe(targets), args.describe(predictions)))
end

-- The base of metrics that divide one sum by another. The sums stay on the tensors' device until
-- compute.
local Ratio = class.class("utils.metrics.Ratio")

function Ratio:__init() self:reset() end

--- Sets both sums to zero.
---@return utils.metrics.Ratio self
function Ratio:reset()
   self.sum, self.count = nil, 0
   return self
end

function Ratio:add(sum, count)
   sum = sum:detach():to("float64")
   self.sum = self.sum and self.sum + sum or sum
   self.count = self.count + count
   return self
end

--- Returns the mean so far; nan if nothing was added.
---@return number
function Ratio:compute()
   if not self.sum then return 0 / 0 end
   local count = self.count
   if torch.is_tensor(count) then count = count:item() end
   return self.sum:item() / count
end

local take_accuracy = args.signature "utils.metrics.Accuracy(top_k: count = 1)"

--- The fraction of correct predictions, or of samples whose target is among the k highest scores.
---
---     local accuracy = torch.utils.metrics.Accuracy()
---     accuracy:update(torch.tensor {1, 2, 2}, torch.tensor {1, 2, 3})
---     print(accuracy:compute())
---     --> 0.66666666666667
---@class utils.metrics.Accuracy: utils.metrics.Ratio
---@overload fun(options?: {top_k: integer}): utils.metrics.Accuracy
local Accuracy = class.class("utils.metrics.Accuracy", Ratio)
M.Accuracy = Accuracy

---@param options? {top_k: integer}  1 by default
function Accuracy:__init(...)
   self.top_k = take_accuracy(...).top_k
   if self.top_k < 1 then
      args.refuse("utils.metrics.Accuracy", "top_k", "an integer of at least 1", self.top_k)
   end
   Ratio.__init(self)
end

--- Adds samples.
---@param predictions Tensor  scores (N, C), or, if top_k is 1, classes of any shape
---@param targets Tensor  classes (N), or of the same shape
---@return utils.metrics.Accuracy self
function Accuracy:update(predictions, targets)
   local title = "utils.metrics.Accuracy"
   check_tensors(title, predictions, targets)
   local _ <close> = torch.no_grad()
   local k = self.top_k
   if predictions:dim() == targets:dim() + 1 then
      if k > predictions:size(-1) then
         args.refuse(title, "predictions", ("at least %d scores each"):format(k), predictions)
      end
      local _, best = predictions:topk(k, -1)
      predictions, targets = best, targets:unsqueeze(-1)
      if predictions:numel() ~= targets:numel() * k then
         refuse_shapes(title, predictions, targets)
      end
   elseif k > 1 then
      args.refuse(title, "predictions", "scores of each class", predictions)
   elseif table.concat(predictions.shape, ",") ~= table.concat(targets.shape, ",") then
      refuse_shapes(title, predictions, targets)
   end
   return self:add(predictions:eq(targets):sum(), targets:numel())
end

--- The exponential of the mean cross-entropy. It tells among how many equally likely classes the
--- model seems to choose.
---
---     local metric = torch.utils.metrics.Perplexity()
---     metric:update(torch.zeros(1, 4), torch.tensor {2})
---     print(("%.3f"):format(metric:compute()))
---     --> 4.000
---@class utils.metrics.Perplexity: utils.metrics.Ratio
---@overload fun(options?: {ignore_index: integer}): utils.metrics.Perplexity
local Perplexity = class.class("utils.metrics.Perplexity", Ratio)
M.Perplexity = Perplexity

local take_perplexity = args.signature "utils.metrics.Perplexity(ignore_index: integer?)"

---@param options? {ignore_index: integer}  a target that is not counted
function Perplexity:__init(...)
   self.ignore_index = take_perplexity(...).ignore_index
   Ratio.__init(self)
end

--- Adds the tokens of a batch.
---@param scores Tensor  (..., C), before softmax
---@param targets Tensor  (...)
---@return utils.metrics.Perplexity self
function Perplexity:update(scores, targets)
   check_tensors("utils.metrics.Perplexity", scores, targets)
   if scores:dim() ~= targets:dim() + 1
      or scores:numel() ~= targets:numel() * scores:size(-1) then
      refuse_shapes("utils.metrics.Perplexity", scores, targets)
   end
   local _ <close> = torch.no_grad()
   local options = {reduction = "sum"}
   targets = targets:reshape(-1)
   local count = targets:numel()
   if self.ignore_index then
      options.ignore_index = self.ignore_index
      count = self.count + targets:ne(self.ignore_index):sum()
      self.count = 0
   end
   local sum = torch.nn.functional.cross_entropy(
      scores:reshape(-1, scores:size(-1)):double(), targets, options)
   return self:add(sum, count)
end

---@return number
function Perplexity:compute()
   return math.exp(Ratio.compute(self))
end

--- The weighted mean of values, such as losses.
---
---     local mean = torch.utils.metrics.Mean()
---     mean:update(1.0, 3)
---     mean:update(5.0, 1)
---     print(mean:compute())
---     --> 2.0
---@class utils.metrics.Mean: utils.metrics.Ratio
---@overload fun(): utils.metrics.Mean
local Mean = class.class("utils.metrics.Mean", Ratio)
M.Mean = Mean

--- Adds a value with its weight.
---@param value Tensor|number  a number, or a tensor of one element
---@param weight? number  such as the size of the batch; 1 by default
---@return utils.metrics.Mean self
function Mean:update(value, weight)
   if type(value) == "number" then value = torch.tensor(value, {dtype = "float64"}) end
   if not torch.is_tensor(value) or value:numel() ~= 1 then
      args.refuse("utils.metrics.Mean", "value", "a number or a tensor of one element", value)
   end
   weight = weight or 1
   if type(weight) ~= "number" then
      args.refuse("utils.metrics.Mean", "weight", "a number", weight)
   end
   return self:add(value:detach():reshape({}):to("float64") * weight, weight)
end

-- Of classes ------------------------------------------------------------------------------------

-- Defines a metric that is computed from three counts for each class: correct predictions (tp), all
-- predictions, and all targets.
local function by_class(name, measure)
   local title = "utils.metrics." .. name
   local signature = args.signature(title .. "(num_classes: count, average: string = 'macro')")
   local Class = class.class(title)
   M[name] = Class

   function Class:__init(...)
      local a = signature(...)
      if a.average ~= "macro" and a.average ~= "micro" and a.average ~= "weighted"
         and a.average ~= "none" then
         args.refuse(title, "average", "macro, micro, weighted or none", a.average)
      end
      self.num_classes, self.average = a.num_classes, a.average
      self:reset()
   end

   --- Removes all samples added so far.
   ---@names utils.metrics.Precision:reset utils.metrics.Recall:reset utils.metrics.F1:reset
   ---@return table self
   function Class:reset()
      self.confusion = ConfusionMatrix(self.num_classes)
      return self
   end

   --- Adds samples.
   ---@names utils.metrics.Precision:update utils.metrics.Recall:update
   ---@names utils.metrics.F1:update
   ---@param predictions Tensor  classes (N), or scores (N, num_classes)
   ---@param targets Tensor  classes, counted from 1
   ---@return table self
   function Class:update(predictions, targets)
      check_tensors(title, predictions, targets)
      self.confusion:add(predictions, targets)
      return self
   end

   --- Returns the metric of all samples added so far; before the first NaN, or, with average =
   --- "none", a list of zeros.
   ---@names utils.metrics.Precision:compute utils.metrics.Recall:compute
   ---@names utils.metrics.F1:compute
   ---@return number|number[]
   function Class:compute()
      local counts = self.confusion.counts:double()
      local right, predicted, actual = counts:diagonal(), counts:sum(1), counts:sum(2)
      local function share(tp, p, a)
         local above, below = measure(tp, p, a)
         return torch.where(below:gt(0), above / below, torch.zeros_like(below))
      end
      if self.average == "micro" then
         if self.confusion:total() == 0 then return 0 / 0 end
         return share(right:sum(), predicted:sum(), actual:sum()):item()
      end
      local each = share(right, predicted, actual)
      if self.average == "none" then return each:tolist() end
      if self.average == "weighted" then
         return (each * actual):sum():item() / actual:sum():item()
      end
      local seen = (predicted + actual):gt(0) -- the classes that occur in predictions or targets
      return (each * seen):sum():item() / seen:sum():item()
   end
end

--- The fraction of correct predictions among all predictions of a class. The option `average` is
--- one of these: "macro", the mean over the classes that occur in predictions or targets; "micro",
--- over all samples; "weighted", the mean weighted by the number of targets; "none", a list with
--- one number for each class.
---
---     local precision = torch.utils.metrics.Precision(2)
---     precision:update(torch.tensor {1, 1, 2}, torch.tensor {1, 2, 2})
---     print(precision:compute())
---     --> 0.75
---@class utils.metrics.Precision
---@overload fun(num_classes: integer, options?: {average: string}): utils.metrics.Precision
by_class("Precision", function(tp, predicted) return tp, predicted end)

--- The fraction of a class's samples that were predicted correctly. The options are those of
--- Precision.
---
---     local recall = torch.utils.metrics.Recall(2)
---     recall:update(torch.tensor {1, 1, 2}, torch.tensor {1, 2, 2})
---     print(recall:compute())
---     --> 0.75
---@class utils.metrics.Recall
---@overload fun(num_classes: integer, options?: {average: string}): utils.metrics.Recall
by_class("Recall", function(tp, _, actual) return tp, actual end)

--- The harmonic mean of precision and recall. The options are those of Precision.
---
---     local f1 = torch.utils.metrics.F1(2, {average = "micro"})
---     f1:update(torch.tensor {1, 1, 2, 2}, torch.tensor {1, 2, 2, 2})
---     print(f1:compute())
---     --> 0.75
---@class utils.metrics.F1
---@overload fun(num_classes: integer, options?: {average: string}): utils.metrics.F1
by_class("F1", function(tp, predicted, actual) return 2 * tp, predicted + actual end)

-- AUC -------------------------------------------------------------------------------------------

--- The area under the receiver operating characteristic: the probability that a positive sample has
--- a higher score than a negative one; ties count half. The metric keeps all scores.
---
---     local auc = torch.utils.metrics.AUC()
---     auc:update(torch.tensor {0.9, 0.2, 0.6}, torch.tensor {1, 0, 0})
---     print(auc:compute())
---     --> 1.0
---@class utils.metrics.AUC
---@overload fun(): utils.metrics.AUC
local AUC = class.class("utils.metrics.AUC")
M.AUC = AUC

function AUC:__init() self:reset() end

--- Removes all samples added so far.
---@return utils.metrics.AUC self
function AUC:reset()
   self.scores, self.targets = {}, {}
   return self
end

--- Adds samples.
---@param scores Tensor  (N), higher for positives
---@param targets Tensor  (N), booleans, or 1 for positives and 0 for negatives
---@return utils.metrics.AUC self
function AUC:update(scores, targets)
   check_tensors("utils.metrics.AUC", scores, targets)
   if scores:numel() ~= targets:numel() then
      refuse_shapes("utils.metrics.AUC", scores, targets)
   end
   table.insert(self.scores, scores:detach():reshape(-1):double())
   table.insert(self.targets, targets:detach():reshape(-1):long())
   return self
end

--- Returns the area; nan if there are no positive or no negative samples.
---@return number
function AUC:compute()
   if #self.scores == 0 then return 0 / 0 end
   local scores, targets = torch.cat(self.scores), torch.cat(self.targets)
   if not (targets:eq(0) | targets:eq(1)):all():item() then
      torch.raise "utils.metrics.AUC: targets: expected booleans, or 0 and 1; got others"
   end
   local positives = targets:sum():item()
   local negatives = targets:numel() - positives
   if positives == 0 or negatives == 0 then return 0 / 0 end
   -- the Mann-Whitney U statistic, computed from the ranks of the positives; equal scores share
   -- their mean rank
   local _, inverse, counts = torch.unique(scores,
      {sorted = true, return_inverse = true, return_counts = true})
   local ranks = counts:cumsum(1):double() - (counts:double() - 1) / 2
   local sum = (ranks:index_select(1, inverse) * targets):sum():item()
   return (sum - positives * (positives + 1) / 2) / (positives * negatives)
end

return M
