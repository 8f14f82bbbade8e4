-- Operators that compute one layer of a recurrent network in one direction. Ordinary backward
-- passes use a fused derivative. While a graph of the gradient itself is recorded, differentiable
-- operators compute the derivative.

-- Packed input has two additional arguments. batch_sizes is on the CPU; offsets has the first row
-- of each step and the end of the last step.
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

-- Counts the FLOPs of a layer: the FLOPs of the products with its weights. As in
-- torch.utils.flop_counter, elementwise work on the gates is not counted. In the backward pass each
-- product with a weight leads to two products: one for the gradient of the weight, and one for the
-- gradient of the other factor, an input or a state. The gradient of the first state is counted
-- even if it is not needed.
local rows = "2 * numel(input) / size(input, -1) * ("
local flops = rows .. "numel(weight_ih) + numel(weight_hh) + numel(weight_hr))"
local backward_flops = rows .. [[
   numel(weight_ih) * (choose(want_input, 1, 0) + choose(want_weight_ih, 1, 0))
   + numel(weight_hh) * (1 + choose(want_weight_hh, 1, 0))
   + numel(weight_hr) * (1 + choose(want_weight_hr, 1, 0)))]]

-- The order of this list must be that of tlk_RnnMode.
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
