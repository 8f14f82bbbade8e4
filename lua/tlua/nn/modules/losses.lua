-- losses.lua - criteria, which measure the error of an output. Most are defined by one row: the
-- options become the fields of the layer and are passed to the function of torch.nn.functional.

local torch = require "tlua"
local args = require "tlua.args"
local F = require "tlua.nn.functional"
local define = require "tlua.nn.modules.layers".define

-- {class, options, function, number of tensors that forward takes}. `weight` and `pos_weight` are
-- buffers. Every loss has the option `reduction`: "mean", "sum" or "none".
local rows = {
   --- Computes squared differences of two tensors of one shape: their mean, their sum, or each of
   --- them.
   ---
   ---     local loss = torch.nn.MSELoss()
   ---     print(loss(torch.tensor {1.0, 3.0}, torch.tensor {0.0, 1.0}):item())
   ---     --> 2.5
   {"MSELoss", "", "mse_loss", 2},
   {"L1Loss", "", "l1_loss", 2},
   {"SmoothL1Loss", "beta: number = 1", "smooth_l1_loss", 2},
   {"HuberLoss", "delta: number = 1", "huber_loss", 2},
   --- Cross entropy of logits (N, C) or (N, C, ...) and classes from 1 to C (N) or (N, ...), or
   --- probabilities of the logits' shape. weight (C) scales classes; a class of ignore_index does
   --- not count. The mean is over the weights of the classes that count.
   ---
   ---     local loss = torch.nn.CrossEntropyLoss()
   ---     local value = loss(torch.tensor {{0.0, 0.0}}, torch.tensor {2})
   ---     print(("%.4f"):format(value:item()))
   ---     --> 0.6931
   {"CrossEntropyLoss", [[weight: tensor?, ignore_index: integer = -100,
      label_smoothing: number = 0]], "cross_entropy", 2},
   {"NLLLoss", "weight: tensor?, ignore_index: integer = -100", "nll_loss", 2},
   {"NLLLoss2d", "weight: tensor?, ignore_index: integer = -100", "nll_loss", 2}, -- deprecated name
   --- Binary cross entropy of probabilities in [0, 1] and targets of the same shape:
   --- -(t log p + (1 - t) log(1 - p)), each logarithm at least -100. weight broadcasts to the
   --- input.
   {"BCELoss", "weight: tensor?", "binary_cross_entropy", 2},
   --- Binary cross entropy of logits and targets of the same shape, computed without overflow.
   --- pos_weight multiplies the loss of positive targets, by class.
   {"BCEWithLogitsLoss", "weight: tensor?, pos_weight: tensor?",
      "binary_cross_entropy_with_logits", 2},
   {"KLDivLoss", "log_target: boolean = false", "kl_div", 2},
   {"PoissonNLLLoss", "log_input: boolean = true, full: boolean = false, eps: number = 1e-8",
      "poisson_nll_loss", 2},
   {"GaussianNLLLoss", "full: boolean = false, eps: number = 1e-6", "gaussian_nll_loss", 3},
   {"HingeEmbeddingLoss", "margin: number = 1", "hinge_embedding_loss", 2},
   {"CosineEmbeddingLoss", "margin: number = 0", "cosine_embedding_loss", 3},
   {"MarginRankingLoss", "margin: number = 0", "margin_ranking_loss", 3},
   {"MultiMarginLoss", "p: integer = 1, margin: number = 1, weight: tensor?",
      "multi_margin_loss", 2},
   {"MultiLabelMarginLoss", "", "multilabel_margin_loss", 2},
   {"MultiLabelSoftMarginLoss", "weight: tensor?", "multilabel_soft_margin_loss", 2},
   {"SoftMarginLoss", "", "soft_margin_loss", 2},
   {"TripletMarginLoss", [[margin: number = 1, p: number = 2, eps: number = 1e-6,
      swap: boolean = false]], "triplet_margin_loss", 3},
   {"CTCLoss", "blank: integer = 1, zero_infinity: boolean = false", "ctc_loss", 4},
}

local reductions = {mean = true, sum = true, none = true}

local function define_loss(name, options, fn, tensors)
   local full_name = "nn." .. name
   local names

   local function check(self)
      local batchmean = name == "KLDivLoss" and self.reduction == "batchmean"
      if not reductions[self.reduction] and not batchmean then
         args.refuse(full_name, "reduction", "mean, sum or none", self.reduction)
      end
   end

   local function forward(self, ...)
      local given = {}
      for _, option in ipairs(names()) do given[option] = self[option] end
      if select("#", ...) ~= tensors then
         torch.raise(("%s: expected %d tensors, got %d arguments"):format(
            full_name, tensors, select("#", ...)))
      end
      if tensors == 2 then
         local input, target = ...
         return F[fn](input, target, given)
      elseif tensors == 3 then
         local first, second, third = ...
         return F[fn](first, second, third, given)
      end
      local first, second, third, fourth = ...
      return F[fn](first, second, third, fourth, given)
   end

   local Loss
   options = (options == "" and "" or options .. ", ") .. "reduction: string = 'mean'"
   Loss, names = define(name, options, forward, check)
   function Loss.extra_repr() return "" end
   return Loss
end

local M = {}
for _, row in ipairs(rows) do M[row[1]] = define_loss(table.unpack(row)) end
return M
