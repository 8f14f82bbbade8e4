-- Operators that compute losses for class labels.

local function F(entry)
   entry.module, entry.method = "nn.functional", false
   op(entry)
end

local reduced = "string reduction='mean'"

F {"nll_loss(Tensor input, Tensor target, Tensor weight=nil, int ignore_index=-100, " .. reduced
     .. ") -> Tensor",
   doc = [[Computes -weight[target] * input[target] for log-probabilities input (N, C, ...) or (C)
   and labels target (N, ...). Labels equal to ignore_index do not count; the mean is weighted.
   weight has no derivative.]],
   composite = true,
   autocast = "float32",
   examples = {"T(3, 4), I(4, 3)", "T(3, 4), I(4, 3), P(4):detach()",
               "T(2, 3, 5), I(3, 2, 5), nil, 2, 'sum'", "T(4), I(4)",
               "T(3, 4), I(4, 3), P(4):detach(), 1, 'none'"}}
example("nll_loss", [[
   local log_probabilities = torch.tensor {{0.25, 0.75}}:log()
   print(torch.nn.functional.nll_loss(log_probabilities, torch.tensor {2}))
   --> tensor(0.2877)]])
F {"cross_entropy(Tensor input, Tensor target, Tensor weight=nil, int ignore_index=-100, "
     .. reduced
      .. ", float label_smoothing=0.0) -> Tensor",
   doc = [[Computes nll_loss of log_softmax(input, 2): input holds logits (N, C, ...) or (C), target
   labels (N, ...), or probabilities of input's shape. label_smoothing is the share of the
   probability that is spread evenly over all classes.]],
   composite = true,
   autocast = "float32",
   examples = {"T(3, 4), I(4, 3)", "T(3, 4), I(4, 3), P(4):detach()",
               "T(2, 3, 5), I(3, 2, 5), nil, 2, 'sum'", "T(4), I(4)",
               "T(3, 4), P(3, 4)", "T(3, 4), I(4, 3), P(4):detach(), -100, 'mean', 0.1",
               "T(3, 4), P(3, 4), P(4), -100, 'none', 0.1"}}
example("cross_entropy", [[
   local logits = torch.tensor {{0.0, 0.0}, {0.0, math.log(3)}}
   local labels = torch.tensor {1, 2} -- classes count from 1
   local F = torch.nn.functional
   print(F.cross_entropy(logits, labels, {reduction = "none"}))
   --> tensor([0.6931, 0.2877])]])
op {[[class_loss(Tensor input, Tensor target, Tensor weight, int ignore_index, bool logits)
      -> (Tensor loss, Tensor weights, Tensor norm)]],
    name = "nll_loss", internal = true, nograd = {weights = true, norm = true},
    grad = {input = [[class_loss_backward(grad_loss, input, target, weight, norm, ignore_index,
    logits)]]}}
op {[[class_loss_backward(Tensor grad_output, Tensor input, Tensor target, Tensor weight,
      Tensor norm, int ignore_index, bool logits) -> Tensor]], internal = true, composite = true}
op {[[class_total(Tensor input, Tensor target, Tensor weight, int ignore_index, bool logits,
      bool mean) -> (Tensor loss, Tensor count, Tensor norm)]],
    name = "nll_loss", internal = true, nograd = {count = true, norm = true},
    grad = {input = [[class_total_backward(grad_loss, input, target, weight, count, norm,
    ignore_index, logits, mean)]]}}
op {[[class_total_backward(Tensor grad_output, Tensor input, Tensor target, Tensor weight,
      Tensor count, Tensor norm, int ignore_index, bool logits, bool mean) -> Tensor]],
    internal = true, composite = true}
op {[[class_spread(Tensor grad_output, Tensor target, Tensor weight, int[] size, int ignore_index)
      -> Tensor]],
    name = "nll_loss_backward",
    internal = true, grad = {grad_output = "class_pick(grad, target, weight, ignore_index)"}}
op {"class_pick(Tensor input, Tensor target, Tensor weight, int ignore_index) -> Tensor",
    internal = true,
    composite = true}
F {"multi_margin_loss(Tensor input, Tensor target, int p=1, float margin=1.0, Tensor weight=nil, "
     .. reduced .. ") -> Tensor",
   doc = [[For input (N, C) or (C): sums max(0, margin - input[target] + input[i])^p over all
   classes i except the target, times weight[target], divided by C; p is 1 or 2.]],
   node = "MultiMarginLoss", composite = true,
   autocast = "float32",
   examples = {"T(3, 4), I(4, 3)", "T(3, 4), I(4, 3), 2, 0.5, P(4), 'sum'", "T(4), I(4)"}}
F {"multilabel_margin_loss(Tensor input, Tensor target, " .. reduced .. ") -> Tensor",
   node = "MultilabelMarginLoss",
   doc = [[For input (N, C) or (C) and lists of labels of that shape, each ended by -1 unless it is
   full: sums max(0, 1 - input[j] + input[i]) over labels j and classes i that are not labels,
   divided by C.]],
   composite = true,
   autocast = "float32", examples = {"T(2, 4), torch.tensor{{4, 1, -1, 2}, {2, -1, -1, -1}}"}}
