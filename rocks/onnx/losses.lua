-- losses.lua - losses of classification.

local torch = require "tlua"
local support = require "tlua.onnx.support"

local M = {}

-- Returns the negative log-likelihood of labels {N, ...}, given log-probabilities {N, C, ...}.
local function negative_log(node, logs, target, weight)
   local ignored = node:int "ignore_index"
   local labels = target:to "int64"
   local skip = ignored and labels:eq(ignored)
   if skip then labels = labels:masked_fill(skip, 0) end
   local index = support.from_one(node, labels, logs:size(2))
   local loss = -logs:gather(2, index:unsqueeze(2)):squeeze(2)
   local weights
   if weight then
      weights = weight:index_select(1, index:reshape(-1)):reshape(index.shape)
   else
      weights = torch.ones(support.shape(index), {dtype = logs.dtype, device = logs.device})
   end
   if skip then weights = weights:masked_fill(skip, 0) end
   if weight or skip then loss = loss * weights end
   local reduction = node:text("reduction", "mean")
   if reduction == "none" then return loss end
   if reduction == "sum" then return loss:sum() end
   if reduction ~= "mean" then node:fail("attribute reduction: %q is unknown", reduction) end
   return loss:sum() / weights:sum()
end

M.NegativeLogLikelihoodLoss = negative_log

function M.SoftmaxCrossEntropyLoss(node, scores, labels, weights)
   local logs = scores:log_softmax(2)
   return negative_log(node, logs, labels, weights), logs
end

return M
