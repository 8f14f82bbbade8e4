-- AdaptiveLogSoftmaxWithLoss.lua - "Efficient softmax approximation for GPUs" (Grave et al., 2017):
-- a softmax over many classes, sorted by frequency. Rare classes are grouped into clusters, and a
-- cluster is computed only for the samples whose class is in it.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local F = require "tlua.nn.functional"
local Linear = require "tlua.nn.modules.Linear"
local Module = require "tlua.nn.modules.Module"
local ModuleList = require "tlua.nn.modules.ModuleList"
local Sequential = require "tlua.nn.modules.Sequential"

local name <const> = "nn.AdaptiveLogSoftmaxWithLoss"
local signature = args.signature(name .. [[(in_features: count, n_classes: count,
   cutoffs: integers, div_value: number = 4, head_bias: boolean = false, device: device?,
   dtype: string?)]])

--- A softmax over many classes, sorted by frequency: rare classes are grouped into clusters, which
--- are computed only for samples that need them. `forward` returns each sample's log probability
--- and the mean loss.
---
---     local layer = torch.nn.AdaptiveLogSoftmaxWithLoss(8, 100, {10, 50})
---     local output, loss = layer(torch.zeros(4, 8), torch.tensor {1, 20, 60, 100})
---     print(table.unpack(output.shape))
---     --> 4
---     print(loss:dim())
---     --> 0
---@class nn.AdaptiveLogSoftmaxWithLoss: nn.Module
---@field head nn.Linear  the layer of the frequent classes and, after them, of the clusters
---@field shortlist_size integer  the number of frequent classes
---@field n_clusters integer  the number of clusters of the other classes
---@field head_size integer  shortlist_size + n_clusters
---@field tail nn.ModuleList  two matrices for each cluster
---@overload fun(in_features: integer, n_classes: integer, cutoffs: integer[], options?)
local Adaptive, parent = class.class(name, Module)

local function check_cutoffs(a)
   local cutoffs = type(a.cutoffs) == "table" and a.cutoffs or {a.cutoffs}
   local before = 0
   for _, cutoff in ipairs(cutoffs) do
      if cutoff <= before or cutoff >= a.n_classes then
         args.refuse(name, "cutoffs", ("ascending numbers from 1 to %d"):format(a.n_classes - 1),
            "{" .. table.concat(cutoffs, ", ") .. "}")
      end
      before = cutoff
   end
   if before == 0 then args.refuse(name, "cutoffs", "at least one number", a.cutoffs) end
   return cutoffs
end

--- Makes the layer. Classes 1 to cutoffs[1] are the frequent ones, classes cutoffs[1] + 1 to
--- cutoffs[2] are the first cluster, and so on. Cluster i projects the input to in_features /
--- div_value^i features.
---@param in_features integer
---@param n_classes integer
---@param cutoffs integer[]
---@param options? {div_value: number, head_bias: boolean,
--- device: string|torch.device, dtype: string}
function Adaptive:__init(...)
   parent.__init(self)
   local a = signature(...)
   local cutoffs = check_cutoffs(a)
   local place = {device = a.device, dtype = a.dtype}
   self.in_features, self.n_classes = a.in_features, a.n_classes
   self.div_value, self.head_bias = a.div_value, a.head_bias
   self.cutoffs = table.move(cutoffs, 1, #cutoffs, 1, {})
   self.cutoffs[#cutoffs + 1] = a.n_classes
   self.shortlist_size, self.n_clusters = cutoffs[1], #cutoffs
   self.head_size = self.shortlist_size + self.n_clusters
   self.head = Linear(a.in_features, self.head_size,
      {bias = a.head_bias, device = a.device, dtype = a.dtype})
   self.tail = ModuleList()
   place.bias = false
   for i = 1, self.n_clusters do
      local inner = math.tointeger(a.in_features // a.div_value ^ i)
      self.tail:append(Sequential(Linear(a.in_features, inner, place),
         Linear(inner, self.cutoffs[i + 1] - self.cutoffs[i], place)))
   end
end

--- Initialises the weights of all matrices.
function Adaptive:reset_parameters()
   self.head:reset_parameters()
   for _, pair in ipairs(self.tail) do
      for _, layer in ipairs(pair) do layer:reset_parameters() end
   end
end

-- Checks the input and, if there is one, the target.
local function check_input(self, input, wants_target, target)
   if not torch.is_tensor(input) or input:dim() < 1 or input:dim() > 2
      or input:size(-1) ~= self.in_features then
      args.refuse(name, "input", ("shape (N, %d) or (%d)"):format(
         self.in_features, self.in_features), input)
   end
   if not wants_target then return end
   local fits = torch.is_tensor(target) and target:dim() == input:dim() - 1
      and (target:dim() == 0 or target:size(1) == input:size(1))
   if not fits then
      args.refuse(name, "target", "one class for each row of the input", target)
   end
   if target:numel() == 0 then return end
   local least, most = target:min():item(), target:max():item()
   if least < 1 or most > self.n_classes then
      torch.raise(("%s: target: expected classes from 1 to %d, got %d"):format(
         name, self.n_classes, least < 1 and least or most))
   end
end

--- Returns the log probability of each row's class, and the loss, which is the negative mean of
--- these log probabilities. The function waits for the device, because it must know which rows
--- belong to each cluster.
---@param input Tensor  (N, in_features) or (in_features)
---@param target Tensor  (N) or ()
---@return Tensor output  the log probabilities, of the target's shape
---@return Tensor loss
function Adaptive:forward(input, target)
   check_input(self, input, true, target)
   local single = input:dim() == 1
   if single then input, target = input:unsqueeze(1), target:unsqueeze(1) end
   local column = target -- for each row, the column of its class in the head's output
   local output = input:new_zeros({input:size(1)})
   for i = 1, self.n_clusters do
      local low, high = self.cutoffs[i], self.cutoffs[i + 1]
      local rows = (target:gt(low):logical_and(target:le(high))):nonzero():squeeze(2)
      if rows:numel() > 0 then
         local logits = self.tail[i](input:index_select(1, rows))
         local classes = target:index_select(1, rows) - low
         local log = F.log_softmax(logits, 2):gather(2, classes:unsqueeze(2)):squeeze(2)
         output = output:index_copy(1, rows, log)
         column = column:index_fill(1, rows, self.shortlist_size + i)
      end
   end
   local head = F.log_softmax(self.head(input), 2)
   output = output + head:gather(2, column:unsqueeze(2)):squeeze(2)
   local loss = -output:mean()
   return single and output:squeeze(1) or output, loss
end

--- Returns the log probabilities of all classes.
---@param input Tensor  (N, in_features)
---@return Tensor  (N, n_classes)
function Adaptive:log_prob(input)
   check_input(self, input)
   local head = F.log_softmax(self.head(input), -1)
   local list = {head:narrow(-1, 1, self.shortlist_size)}
   for i, pair in ipairs(self.tail) do
      list[i + 1] = F.log_softmax(pair(input), -1) + head:narrow(-1, self.shortlist_size + i, 1)
   end
   return torch.cat(list, -1)
end

--- Returns the likeliest class of each row.
---@param input Tensor  (N, in_features)
---@return Tensor  (N)
function Adaptive:predict(input)
   return self:log_prob(input):argmax(-1)
end

function Adaptive:extra_repr()
   return ("%d, %d, cutoffs=(%s), div_value=%g"):format(self.in_features, self.n_classes,
      table.concat(self.cutoffs, ", "), self.div_value)
end

return Adaptive
