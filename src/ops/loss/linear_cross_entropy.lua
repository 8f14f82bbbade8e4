-- The cross-entropy of a linear layer's results. The logits of all rows are never in memory at
-- once: they are computed in chunks of rows, and once more in the backward pass.

op {[[linear_cross_entropy(Tensor input, Tensor linear_weight, Tensor target, *,
      Tensor linear_bias=nil, Tensor weight=nil, string reduction='mean', int ignore_index=nil,
      float label_smoothing=0.0, int chunk_size=nil) -> Tensor]],
    module = "nn.functional", method = false, autocast = "lower",
    doc = [[cross_entropy(linear(input, linear_weight, linear_bias), target, weight, ...) for input
    (N, in) or (in), linear_weight (C, in), labels target (N) or (), linear_bias (C). Logits, which
    would be (N, C), exist for chunk_size rows at a time, by default some 16 MB; of half types the
    loss is computed in float32, and is float32. Probabilities as target, label_smoothing and a
    linear_weight (C, ..., in), whose logits are (N, C, ...), go the plain way.]],
    composite = true, out = false,
    examples = {"T(5, 3), T(4, 3), I(4, 5)", "T(3), T(4, 3), I(4)",
                "T(5, 3), T(4, 3), I(4, 5), {linear_bias = T(4), chunk_size = 2}",
                "T(5, 3), T(4, 3), I(4, 5), {weight = P(4):detach(), ignore_index = 2, "
                   .. "chunk_size = 3, reduction = 'sum'}",
                "T(3, 2), T(4, 2), I(4, 3), {reduction = 'none', chunk_size = 1}",
                "T(3, 2), T(4, 2), I(4, 3), {label_smoothing = 0.1}",
                "T(3, 2), T(4, 2), P(3, 4):detach()",
                "T(3, 2), T(4, 2, 2), I(4, 3, 2), {linear_bias = T(4, 2)}"}}

local operands = "Tensor input, Tensor linear_weight, Tensor linear_bias, Tensor target, "
   .. "Tensor weight, "
op {"linear_class_loss(" .. operands .. "int ignore_index, int rows) "
       .. "-> (Tensor loss, Tensor weights, Tensor norm)",
    name = "linear_cross_entropy", internal = true, nograd = {weights = true, norm = true},
    grad = {["input, linear_weight, linear_bias"] = [[linear_class_loss_backward(grad_loss, input,
    linear_weight, linear_bias, target, weight, norm, ignore_index, rows, needs(input),
    needs(linear_weight), needs(linear_bias))]]}}
op {"linear_class_loss_backward(Tensor grad_output, " .. operands
       .. "Tensor norm, int ignore_index, int rows, bool want_input, bool want_weight, "
       .. "bool want_bias) -> (Tensor input, Tensor linear_weight, Tensor linear_bias)",
    name = "linear_cross_entropy_backward", internal = true, composite = true}
