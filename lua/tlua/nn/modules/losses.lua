-- losses.lua - criteria, which measure the error of an output. Most are defined by one row: the
-- options become the fields of the layer and are passed to the function of torch.nn.functional.

local torch = require "tlua"
local args = require "tlua.args"
local F = require "tlua.nn.functional"
local define = require "tlua.nn.modules.layers".define

-- Each row is {class, options, function, number of tensors that forward takes}. `weight` and
-- `pos_weight` are buffers. Every loss has the option `reduction`: "mean", "sum" or "none", and for
-- KLDivLoss also "batchmean".
local rows = {
   --- Computes the squared differences of two tensors of the same shape; returns their mean, their
   --- sum, or all differences.
   ---
   ---     local loss = torch.nn.MSELoss()
   ---     print(loss(torch.tensor {1.0, 3.0}, torch.tensor {0.0, 1.0}):item())
   ---     --> 2.5
   {"MSELoss", "", "mse_loss", 2},
   --- The mean of the absolute differences of two tensors of the same shape.
   ---
   ---     local loss = torch.nn.L1Loss()
   ---     print(loss(torch.tensor {1.0, 3.0}, torch.tensor {0.0, 1.0}):item())
   ---     --> 1.5
   {"L1Loss", "", "l1_loss", 2},
   --- The mean of d^2 / (2 beta) for differences d with abs(d) < beta, and of abs(d) - beta / 2 for
   --- all other differences.
   ---
   ---     local loss = torch.nn.SmoothL1Loss {reduction = "none"}
   ---     print(loss(torch.tensor {0.5, 3.0}, torch.zeros(2)))
   ---     --> tensor([0.1250, 2.5000])
   {"SmoothL1Loss", "beta: number = 1", "smooth_l1_loss", 2},
   --- The mean of d^2 / 2 for differences d with abs(d) <= delta, and of delta (abs(d) - delta / 2)
   --- for all other differences.
   ---
   ---     local loss = torch.nn.HuberLoss {reduction = "none", delta = 2}
   ---     print(loss(torch.tensor {0.5, 3.0}, torch.zeros(2)))
   ---     --> tensor([0.1250, 4.0000])
   {"HuberLoss", "delta: number = 1", "huber_loss", 2},
   --- Cross entropy of logits (N, C) or (N, C, ...). The target contains classes from 1 to C, as
   --- (N) or (N, ...), or class probabilities in the logits' shape. weight (C) scales the loss of
   --- each class; targets equal to ignore_index are ignored. The mean divides by the sum of the
   --- weights of all other targets.
   ---
   ---     local loss = torch.nn.CrossEntropyLoss()
   ---     local value = loss(torch.tensor {{0.0, 0.0}}, torch.tensor {2})
   ---     print(("%.4f"):format(value:item()))
   ---     --> 0.6931
   {"CrossEntropyLoss", [[weight: tensor?, ignore_index: integer = -100,
      label_smoothing: number = 0]], "cross_entropy", 2},
   --- The mean of -x[class] of log probabilities (N, C) and classes (N) from 1 to C.
   ---
   ---     local loss = torch.nn.NLLLoss()
   ---     print(loss(torch.tensor({{0.25, 0.75}}):log(), torch.tensor {2}))
   ---     --> tensor(0.2877)
   {"NLLLoss", "weight: tensor?, ignore_index: integer = -100", "nll_loss", 2},
   ---     local loss = torch.nn.NLLLoss2d()
   ---     local scores = torch.zeros(1, 2, 3, 3):log_softmax(2)
   ---     local target = torch.ones(1, 3, 3, {dtype = "int64"})
   ---     print(loss(scores, target))
   ---     --> tensor(0.6931)
   {"NLLLoss2d", "weight: tensor?, ignore_index: integer = -100", "nll_loss", 2},
   --- Binary cross entropy of probabilities in [0, 1] and targets of the same shape:
   --- -(t log p + (1 - t) log(1 - p)), each logarithm at least -100. weight broadcasts to the
   --- input.
   ---
   ---     local loss = torch.nn.BCELoss {reduction = "none"}
   ---     print(loss(torch.tensor {0.5, 0.9}, torch.tensor {1.0, 1.0}))
   ---     --> tensor([0.6931, 0.1054])
   {"BCELoss", "weight: tensor?", "binary_cross_entropy", 2},
   --- Binary cross entropy of logits and targets of the same shape, computed without overflow.
   --- pos_weight multiplies the loss of positive targets, by class.
   ---
   ---     local loss = torch.nn.BCEWithLogitsLoss {reduction = "none"}
   ---     print(loss(torch.tensor {0.0, 3.0}, torch.tensor {1.0, 1.0}))
   ---     --> tensor([0.6931, 0.0486])
   {"BCEWithLogitsLoss", "weight: tensor?, pos_weight: tensor?",
      "binary_cross_entropy_with_logits", 2},
   --- The divergence target (log target - input), where input has log probabilities.
   ---
   ---     local loss = torch.nn.KLDivLoss {reduction = "batchmean"}
   ---     local p, q = torch.tensor {{0.5, 0.5}}, torch.tensor {{0.25, 0.75}}
   ---     print(loss(q:log(), p))
   ---     --> tensor(0.1438)
   {"KLDivLoss", "log_target: boolean = false", "kl_div", 2},
   --- The mean of exp(x) - t x, for x the logarithm of a Poisson rate.
   ---
   ---     local loss = torch.nn.PoissonNLLLoss()
   ---     print(loss(torch.tensor {0.0, 1.0}, torch.tensor {1.0, 2.0}))
   ---     --> tensor(0.8591)
   {"PoissonNLLLoss", "log_input: boolean = true, full: boolean = false, eps: number = 1e-8",
      "poisson_nll_loss", 2},
   --- The mean of (log v + (x - t)^2 / v) / 2, for means x and variances v.
   ---
   ---     local loss = torch.nn.GaussianNLLLoss()
   ---     print(loss(torch.tensor {0.0}, torch.tensor {2.0}, torch.tensor {1.0}))
   ---     --> tensor(2.)
   {"GaussianNLLLoss", "full: boolean = false, eps: number = 1e-6", "gaussian_nll_loss", 3},
   --- The mean of x where the label is 1, and of max(0, margin - x) where the label is -1.
   ---
   ---     local loss = torch.nn.HingeEmbeddingLoss()
   ---     print(loss(torch.tensor {0.5, 0.25}, torch.tensor {1.0, -1.0}))
   ---     --> tensor(0.6250)
   {"HingeEmbeddingLoss", "margin: number = 1", "hinge_embedding_loss", 2},
   --- The mean of 1 - cos for pairs of label 1, and of max(0, cos - margin) for pairs of label -1,
   --- where cos is the cosine of the pair's angle.
   ---
   ---     local loss = torch.nn.CosineEmbeddingLoss()
   ---     local a, b = torch.tensor {{1.0, 0.0}}, torch.tensor {{0.0, 1.0}}
   ---     print(loss(a, b, torch.tensor {1}))
   ---     --> tensor(1.)
   {"CosineEmbeddingLoss", "margin: number = 0", "cosine_embedding_loss", 3},
   --- The mean of max(0, -y (a - b) + margin). With y = 1, a should be larger than b, with y = -1
   --- smaller.
   ---
   ---     local loss = torch.nn.MarginRankingLoss {margin = 1}
   ---     print(loss(torch.tensor {2.0}, torch.tensor {1.5}, torch.tensor {1.0}))
   ---     --> tensor(0.5000)
   {"MarginRankingLoss", "margin: number = 0", "margin_ranking_loss", 3},
   --- The sum of max(0, margin - x[label] + x[i])^p over all classes i except the label, divided by
   --- the number of classes. Labels count from 1.
   ---
   ---     local loss = torch.nn.MultiMarginLoss()
   ---     print(loss(torch.tensor {{0.1, 0.2, 0.4, 0.8}}, torch.tensor {4}))
   ---     --> tensor(0.3250)
   {"MultiMarginLoss", "p: integer = 1, margin: number = 1, weight: tensor?",
      "multi_margin_loss", 2},
   --- The hinge loss for samples that have several classes each. A target lists the sample's
   --- classes, counted from 1, and ends with -1.
   ---
   ---     local loss = torch.nn.MultiLabelMarginLoss()
   ---     local scores = torch.tensor {{0.1, 0.2, 0.4, 0.8}}
   ---     print(loss(scores, torch.tensor {{4, 1, -1, -1}}))
   ---     --> tensor(0.8500)
   {"MultiLabelMarginLoss", "", "multilabel_margin_loss", 2},
   --- The binary cross entropies of logits (N, C), averaged over the classes.
   ---
   ---     local loss = torch.nn.MultiLabelSoftMarginLoss()
   ---     print(loss(torch.tensor {{0.0, 3.0}}, torch.tensor {{1.0, 1.0}}))
   ---     --> tensor(0.3709)
   {"MultiLabelSoftMarginLoss", "weight: tensor?", "multilabel_soft_margin_loss", 2},
   --- The mean of log(1 + exp(-y x)), for labels y of 1 and -1.
   ---
   ---     local loss = torch.nn.SoftMarginLoss()
   ---     print(loss(torch.tensor {0.0, 3.0}, torch.tensor {1.0, 1.0}))
   ---     --> tensor(0.3709)
   {"SoftMarginLoss", "", "soft_margin_loss", 2},
   --- The mean of max(0, d(anchor, positive) - d(anchor, negative) + margin), where d is the p-norm
   --- of the difference.
   ---
   ---     local loss = torch.nn.TripletMarginLoss()
   ---     local anchor = torch.tensor {{0.0, 0.0}}
   ---     local near, far = torch.tensor {{3.0, 4.0}}, torch.tensor {{4.0, 0.0}}
   ---     print(loss(anchor, near, far):round {decimals = 3})
   ---     --> tensor(2.)
   {"TripletMarginLoss", [[margin: number = 1, p: number = 2, eps: number = 1e-6,
      swap: boolean = false]], "triplet_margin_loss", 3},
   --- Connectionist temporal classification: minus the log probability of the labels, for log
   --- probabilities (T, N, C) of C classes at T steps.
   ---
   ---     local log_probabilities = torch.full({2, 1, 3}, 1 / 3):log()
   ---     local labels = torch.tensor {{2}} -- class 1 is the blank
   ---     local loss = torch.nn.CTCLoss()
   ---     print(loss(log_probabilities, labels, torch.tensor {2}, torch.tensor {1}))
   ---     --> tensor(1.0986)
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
