-- One layer of a recurrent network in one direction. Its derivative is fused for ordinary backward
-- passes; while a graph of the gradient itself is recorded, the derivative is composed of
-- differentiable operators instead.

-- Packed input has two further arguments: batch_sizes, on the CPU, and offsets, which are the first
-- row of each step and the end of the last step.
local inputs = "Tensor input, Tensor batch_sizes, Tensor offsets, Tensor hx, Tensor cx, "
   .. "Tensor weight_ih, Tensor weight_hh, Tensor weight_hr, Tensor bias_ih, Tensor bias_hh"
local differentiable = {
   "input", "hx", "cx", "weight_ih", "weight_hh", "weight_hr", "bias_ih", "bias_hh",
}

local needs, wants, results = {}, {}, {}
for i, name in ipairs(differentiable) do
   needs[i], wants[i] = ("needs(%s)"):format(name), "bool want_" .. name
   results[i] = "Tensor " .. name
end
local function list(items) return table.concat(items, ", ") end

-- Counts only the products with the weights, like linear and its gradient; elementwise work on the
-- gates is not counted, as in torch.utils.flop_counter. In the backward pass each product with a
-- weight has two products: one for the gradient of its other factor, which for states continues to
-- earlier steps, and one for the weight's gradient. (Those of the first state are counted even if
-- they are not needed.)
local rows = "2 * numel(input) / size(input, -1) * ("
local flops = rows .. "numel(weight_ih) + numel(weight_hh) + numel(weight_hr))"
local backward_flops = rows .. [[
   numel(weight_ih) * (choose(want_input, 1, 0) + choose(want_weight_ih, 1, 0))
   + numel(weight_hh) * (1 + choose(want_weight_hh, 1, 0))
   + numel(weight_hr) * (1 + choose(want_weight_hr, 1, 0)))]]

-- The list is in the order of tlk_RnnMode.
for mode, name in ipairs {"rnn_relu", "rnn_tanh", "lstm", "gru"} do
   op {name .. "_layer(" .. inputs .. ", bool reverse) "
          .. "-> (Tensor output, Tensor hn, Tensor cn, Tensor reserve)",
       name = name, internal = true, materialize = false, flops = flops, nograd = {reserve = true},
       any_device = {batch_sizes = true},
       grad = {[list(differentiable)] = "rnn_layer_backward(grad_output, grad_hn, grad_cn, "
          .. inputs:gsub("Tensor ", "") .. (", output, reserve, %d, reverse, "):format(mode - 1)
          .. list(needs) .. ")"}}
end
op {"rnn_layer_backward(Tensor grad_output, Tensor grad_hn, Tensor grad_cn, " .. inputs
    .. ", Tensor output, Tensor reserve, int mode, bool reverse, " .. list(wants) .. ") -> ("
    .. list(results) .. ")",
    internal = true, composite = true, flops = backward_flops}
