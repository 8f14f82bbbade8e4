-- One layer of a recurrent network in one direction. Its derivative is fused for ordinary backward
-- passes; while a graph of the gradient itself is recorded, the layer is composed of differentiable
-- operators instead.

-- Packed input has batch_sizes, on the CPU, and offsets, where the rows of each step begin and the
-- last ones end.
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

-- Products with the weights alone, as of linear and its gradient: what is done for each element
-- of the gates is not counted, as torch.utils.flop_counter does not. Back, each weight's product
-- has one for what it was multiplied with, which of the states goes on to earlier steps, and one
-- for the weight's gradient. (Those of the first step's state count whether wanted or not.)
local rows = "2 * numel(input) / size(input, -1) * ("
local flops = rows .. "numel(weight_ih) + numel(weight_hh) + numel(weight_hr))"
local backward_flops = rows .. [[
   numel(weight_ih) * (choose(want_input, 1, 0) + choose(want_weight_ih, 1, 0))
   + numel(weight_hh) * (1 + choose(want_weight_hh, 1, 0))
   + numel(weight_hr) * (1 + choose(want_weight_hr, 1, 0)))]]

-- In the order of tlk_RnnMode.
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
