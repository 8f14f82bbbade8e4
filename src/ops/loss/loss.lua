-- Operators that compute losses and distances. Class labels count from 1. The reduction is 'mean',
-- 'sum' or 'none'.

local function F(entry)
   entry.module, entry.method = "nn.functional", false
   op(entry)
end

local reduced = "string reduction='mean'"

op {"reduced(Tensor self, string reduction) -> Tensor", internal = true, composite = true}
op {"loss_difference(Tensor input, Tensor target) -> Tensor", internal = true, composite = true}

-- Regression --------------------------------------------------------------------------------------

F {"mse_loss(Tensor input, Tensor target, " .. reduced .. ") -> Tensor",
   node = "MseLoss",
   doc = [[Computes (input - target)^2; reduction is 'mean', 'sum' or 'none'. Different shapes
   broadcast, with a warning, once for each line.]],
   complex = false,
   expr = "reduced(square(loss_difference(input, target)), reduction)",
   autocast = "float32",
   examples = {"T(3, 4), T(3, 4)", "T(3), T(3), 'sum'", "T(2, 3), T(3), 'none'"}}
example("mse_loss", [[
   local F = torch.nn.functional
   print(F.mse_loss(torch.tensor {1.0, 3.0}, torch.tensor {0.0, 1.0}):item())
   --> 2.5]])
F {"l1_loss(Tensor input, Tensor target, " .. reduced .. ") -> Tensor",
   doc = "Computes |input - target|; reduction is 'mean', 'sum' or 'none'.",
   expr = "reduced(abs(loss_difference(input, target)), reduction)",
   autocast = "float32",
   examples = {"T(3, 4), T(3, 4)", "T(3), T(3), 'sum'"}}
example("l1_loss", [[
   local F = torch.nn.functional
   print(F.l1_loss(torch.tensor {1.0, 3.0}, torch.tensor {0.0, 1.0}):item())
   --> 1.5]])
op {"huber(Tensor self, Number delta) -> Tensor",
    name = "huber_loss", internal = true, pointwise = {types = "floating"},
    grad = {self = "grad * clamp_both(self, -delta, delta)"}}
F {"huber_loss(Tensor input, Tensor target, " .. reduced .. ", Number delta=1.0) -> Tensor",
   node = "HuberLoss",
   doc = [[With d = |input - target|, computes d^2 / 2 for d up to delta, and delta * (d - delta /
   2) beyond.]],
   composite = true,
   autocast = "float32", examples = {"T(3, 4), T(3, 4)", "T(3), T(3), 'sum', 0.5"}}
example("huber_loss", [[
   local F = torch.nn.functional
   local x, y = torch.tensor {0.5, 3.0}, torch.zeros(2)
   print(F.huber_loss(x, y, {reduction = "none", delta = 2}))
   --> tensor([0.1250, 4.0000])]])
F {"smooth_l1_loss(Tensor input, Tensor target, " .. reduced .. ", Number beta=1.0) -> Tensor",
   node = "SmoothL1Loss",
   doc = [[With d = |input - target|, computes d^2 / (2 beta) for d up to beta, and d - beta / 2
   beyond.]],
   composite = true,
   autocast = "float32",
   examples = {"T(3, 4), T(3, 4)", "T(3), T(3), 'sum', 0.5", "T(3), T(3), 'none', 0"}}
example("smooth_l1_loss", [[
   local F = torch.nn.functional
   local x, y = torch.tensor {0.5, 3.0}, torch.zeros(2)
   print(F.smooth_l1_loss(x, y, {reduction = "none"}))
   --> tensor([0.1250, 2.5000])]])
F {[[poisson_nll_loss(Tensor input, Tensor target, bool log_input=true, bool full=false, float
   eps=1e-08, ]]
      .. reduced .. ") -> Tensor",
   doc = [[The negative logarithm of Poisson probabilities: exp(input) - target * input, or input -
   target * log(input + eps) if input is no logarithm; with full also Stirling's term of target.]],
   composite = true,
   autocast = "float32", examples = {"T(3, 4), P(3, 4)", "P(3), P(3), false, true, 1e-8, 'sum'"}}
F {"gaussian_nll_loss(Tensor input, Tensor target, Operand var, bool full=false, float eps=1e-06, "
     .. reduced .. ") -> Tensor",
   doc = [[The negative logarithm of normal densities: (log(var) + (input - target)^2 / var) / 2
   with var at least eps; var, a number or a tensor, may lack the last dimension or have size 1 in
   any. full adds log(2 pi) / 2.]],
   composite = true,
   autocast = {gpu = "float32"},
   examples = {"T(3, 4), T(3, 4), P(3, 4)", "T(3, 4), T(3, 4), P(3, 1), true",
               "T(3, 4), T(3, 4), P(3), false, 1e-6, 'sum'", "T(3, 4), T(3, 4), P(1, 4)",
               "T(3, 4), T(3, 4), 0.5"}}

-- Probabilities -----------------------------------------------------------------------------------

F {"binary_cross_entropy(Tensor input, Tensor target, Tensor weight=nil, " .. reduced
     .. ") -> Tensor",
   node = "BinaryCrossEntropy",
   doc = [[Computes -(target * log(input) + (1 - target) * log(1 - input)) for input within [0, 1];
   logarithms below -100 count as -100. weight is broadcast.]],
   composite = true,
   autocast = {cpu = "float32", gpu = "refused"},
   examples = {"U(3, 4):abs() * 0.8 + 0.1, U(3, 4):abs()",
               "U(3):abs() * 0.8 + 0.1, U(3):abs(), P(3), 'sum'"}}
example("binary_cross_entropy", [[
   local F = torch.nn.functional
   local p, target = torch.tensor {0.5, 0.9}, torch.tensor {1.0, 1.0}
   print(F.binary_cross_entropy(p, target, {reduction = "none"}))
   --> tensor([0.6931, 0.1054])]])
op {"bce(Tensor self, Tensor target) -> Tensor",
    name = "binary_cross_entropy", internal = true, pointwise = {types = "floating"},
    grad = {self = "bce_backward(grad, self, target)",
            target = "grad * (log1p(neg(self)) - log(self))"}}
op {"bce_backward(Tensor grad_output, Tensor self, Tensor target) -> Tensor", internal = true,
    expr = "grad_output * (self - target) / clamp_min((1 - self) * self, 1e-12)"}
F {"binary_cross_entropy_with_logits(Tensor input, Tensor target, Tensor weight=nil, " .. reduced
      .. ", Tensor pos_weight=nil) -> Tensor",
   node = "BinaryCrossEntropyWithLogits",
   doc = [[Computes binary_cross_entropy of sigmoid(input) without overflow. pos_weight multiplies
   the term of positive targets.]],
   composite = true,
   autocast = "float32",
   examples = {"T(3, 4), U(3, 4):abs()", "T(3, 4), U(3, 4):abs(), P(3, 4), 'sum', P(4)"}}
example("binary_cross_entropy_with_logits", [[
   local F = torch.nn.functional
   local logits, target = torch.tensor {0.0, 3.0}, torch.tensor {1.0, 1.0}
   print(F.binary_cross_entropy_with_logits(logits, target))
   --> tensor(0.3709)]])
F {"kl_div(Tensor input, Tensor target, " .. reduced .. ", bool log_target=false) -> Tensor",
   doc = [[Computes target * (log(target) - input); input holds logarithms, and with log_target so
   does target. reduction = 'batchmean' divides the sum by the first size.]],
   also = true, composite = true,
   autocast = "float32",
   examples = {"T(3, 4), P(3, 4)", "T(3, 4), T(3, 4), 'batchmean', true", "T(3), P(3), 'sum'"}}
example("kl_div", [[
   local F = torch.nn.functional
   local p, q = torch.tensor {{0.5, 0.5}}, torch.tensor {{0.25, 0.75}}
   print(F.kl_div(q:log(), p, {reduction = "batchmean"}))
   --> tensor(0.1438)]])

F {"multilabel_soft_margin_loss(Tensor input, Tensor target, Tensor weight=nil, " .. reduced
     .. ") -> Tensor",
   doc = [[Computes binary_cross_entropy_with_logits, averaged over the classes (the last dimension)
   before reduction.]],
   composite = true, examples = {"T(3, 4), U(3, 4):abs()", "T(3, 4), U(3, 4):abs(), P(4), 'none'"}}
F {"soft_margin_loss(Tensor input, Tensor target, " .. reduced .. ") -> Tensor",
   doc = "Computes log(1 + exp(-target * input)) for targets 1 or -1.",
   node = "SoftMarginLoss", expr = "reduced(neg(logsigmoid(target * input)), reduction)",
   autocast = "float32",
   examples = {"T(3, 4), T(3, 4):sign()"}}
F {"hinge_embedding_loss(Tensor input, Tensor target, float margin=1.0, " .. reduced
     .. ") -> Tensor",
   doc = "Computes input where target is 1, and max(0, margin - input) where it is -1.",
   also = true,
   expr = [[reduced(where(ne(target, 1), clamp_min(margin - input, 0), 0) + where(ne(target, -1),
   input, 0), reduction)]],
   autocast = "float32",
   examples = {"T(3, 4), T(3, 4):sign()", "T(3), T(3):sign(), 0.3, 'sum'"}}
F {"margin_ranking_loss(Tensor input1, Tensor input2, Tensor target, float margin=0.0, " .. reduced
     .. ") -> Tensor",
   doc = "Computes max(0, -target * (input1 - input2) + margin) for targets 1 or -1.", also = true,
   expr = "reduced(clamp_min(neg(target) * (input1 - input2) + margin, 0), reduction)",
   autocast = "float32",
   examples = {"T(3), T(3), T(3):sign()", "T(3), T(3), T(3):sign(), 0.5, 'sum'"}}

-- Distances ---------------------------------------------------------------------------------------

F {"cosine_similarity(Tensor x1, Tensor x2, dim dim=1, float eps=1e-08) -> Tensor",
   doc = [[Returns the cosine of the angle between x1 and x2 along dim; norms below eps count as
   eps.]],
   also = true,
   composite = true,
   autocast = {gpu = "float32"},
   examples = {"T(3, 4), T(3, 4)", "T(3, 4), T(4), 2", "T(4), T(4), 1"}}
example("cosine_similarity", [[
   local a, b = torch.tensor {{1.0, 0.0}}, torch.tensor {{1.0, 1.0}}
   print(torch.nn.functional.cosine_similarity(a, b))
   --> tensor([0.7071])]])
F {[[pairwise_distance(Tensor x1, Tensor x2, Number p=2.0, float eps=1e-06, bool keepdim=false)
      -> Tensor]],
   doc = "Returns the p-norm of x1 - x2 + eps over the last dimension.", also = true,
   node = "Norm", expr = "norm(x1 - x2 + eps, p, -1, keepdim)",
   examples = {"T(3, 4), T(3, 4)", "T(3, 4), T(4), 1, 1e-6, true"}}
F {"cosine_embedding_loss(Tensor input1, Tensor input2, Tensor target, float margin=0.0, "
     .. reduced .. ") -> Tensor",
   doc = [[With the cosine c of input1 and input2 (N, D) or (D), computes 1 - c where target is 1,
   max(0, c - margin) where it is -1, and 0 for any other target, even NaN.]],
   also = true, composite = true,
   autocast = "float32",
   examples = {"T(3, 4), T(3, 4), T(3):sign()", "T(4), T(4), T():sign(), 0.1, 'sum'"}}
F {"triplet_margin_loss(Tensor anchor, Tensor positive, Tensor negative, float margin=1.0, "
     .. "Number p=2.0, float eps=1e-06, bool swap=false, " .. reduced .. ") -> Tensor",
   doc = [[Computes max(0, margin + d(anchor, positive) - d(anchor, negative)), where d is
   pairwise_distance; with swap d(positive, negative) replaces d(anchor, negative) where it is
   smaller.]],
   also = true, composite = true,
   autocast = "float32",
   examples = {"T(3, 4), T(3, 4), T(3, 4)", "T(3, 4), T(3, 4), T(3, 4), 0.5, 1, 1e-6, true, 'sum'"}}

takes_complex "triplet_margin_loss"
