-- Operators that compute convolutions. Inputs are (N, C, ...) or (C, ...).

local function F(entry)
   entry.module, entry.method = "nn.functional", false
   op(entry)
end

local places = {"(N, C, L)", "(N, C, H, W)", "(N, C, D, H, W)"}
local one, examples = {}, {}
examples[1] = {
   "T(2, 3, 7), T(4, 3, 3), T(4)", "T(2, 4, 7), T(2, 2, 3), nil, 2, 1, 1, 2",
   "T(3, 7), T(4, 3, 2), nil, 1, 2, 3",
   "T(1, 2, 5), T(2, 2, 1)",
}
examples[2] = {
   "T(2, 3, 5, 4), T(4, 3, 3, 3), T(4)",
   "T(1, 4, 5, 5), T(4, 2, 3, 2), T(4), {2, 1}, {1, 0}, {1, 2}, 2",
   "T(2, 3, 4, 4), T(3, 1, 3, 3), nil, 1, 1, 1, 3", "T(3, 4, 4), T(2, 3, 1, 1), T(2)",
   "T(0, 3, 4, 4), T(2, 3, 3, 3)",
}
examples[3] = {"T(1, 2, 3, 4, 3), T(2, 2, 2, 3, 2), T(2)",
   "T(1, 2, 3, 4, 4), T(2, 1, 2, 2, 2), nil, 2, 1, 1, 2"}
one[1] = {"T(2, 3, 6), T(3, 4, 3), T(4)", "T(1, 4, 5), T(4, 2, 3), nil, 2, 1, 1, 2, 2"}
one[2] = {"T(2, 3, 3, 4), T(3, 4, 3, 2), T(4)",
   "T(1, 4, 3, 3), T(4, 1, 3, 3), T(2), 2, 1, {1, 0}, 2, {1, 2}",
          "T(3, 3, 3), T(3, 2, 2, 2)"}
one[3] = {"T(1, 2, 2, 3, 2), T(2, 2, 2, 2, 2), T(2), 2, 1, 1"}

local large <const> = "\n" .. [[
      Large convolutions in float32 with a kernel of 3 x 3, stride and dilation 1, use Winograd's
      method: errors are up to 1e-5, rather than 1e-6, of the size of the numbers around an
      element.]]

for n = 1, 3 do
   local ints = ("int[%d]"):format(n)
   local options = (" %s stride=1, %%s, %s dilation=1, int groups=1"):format(ints, ints)
   F {("conv%dd(Tensor input, Tensor weight, Tensor bias=nil,%s) -> Tensor"):format(
         n, options:format(ints .. " padding=0")),
      doc = ([[Slides weight (out, C / groups, kernel) over input %s, which has `padding` zeros
      around it, in steps of `stride`, the kernel's elements `dilation` apart. Each of the groups of
      channels has its own part of the weight. Numbers hold for all dimensions, lists give one each;
      input may lack N. padding may be 'valid' (none) or 'same' (so much that the size is kept;
      stride must be 1).]]):format(places[n])
         .. (n == 2 and large or ""),
      also = true, composite = true, autocast = "lower", examples = examples[n]}
   F {("conv%dd.padding(Tensor input, Tensor weight, Tensor bias=nil,%s) -> Tensor"):format(
         n, options:format("string padding='valid'")),
      doc = [[The same with padding by name: 'valid' (none) or 'same', which keeps the input's
      size.]], also = true, composite = true, autocast = "lower",
      examples = {({"T(2, 3, 7), T(4, 3, 4), T(4), 1, 'same', 2",
                    "T(2, 3, 5, 4), T(4, 3, 3, 2), nil, 1, 'same'",
                    "T(1, 2, 3, 4, 3), T(2, 2, 2, 3, 2), nil, 1, 'valid'"})[n]}}
   F {([[conv_transpose%dd(Tensor input, Tensor weight, Tensor bias=nil, %s stride=1, %s padding=0,
         %s output_padding=0, int groups=1, %s dilation=1) -> Tensor]])
         :format(n, ints, ints, ints, ints),
      doc = ([[Computes the gradient of conv%dd with respect to its input, as an operator: weight is
      (C, out / groups, kernel), the result has size (in - 1) * stride - 2 * padding + dilation *
      (kernel - 1) + output_padding + 1 in each dimension.]]):format(n),
      also = true, composite = true, autocast = "lower", examples = one[n]}
end
example("conv1d", [=[
   local x = torch.tensor {{{1.0, 2.0, 3.0, 4.0}}} -- (batch, channels, length)
   local weight = torch.tensor {{{1.0, 0.0, -1.0}}}
   print(torch.nn.functional.conv1d(x, weight))
   --> tensor([[[-2., -2.]]])]=])
example("conv2d", [[
   local x = torch.ones(1, 3, 5, 5) -- x is (batch, channels, height, width)
   local weight = torch.ones(8, 3, 3, 3) -- (out, in, 3, 3)
   local y = torch.nn.functional.conv2d(x, weight, {padding = 1})
   print(y[{1, 1, 3, 3}]:item(), y[{1, 1, 1, 1}]:item(), table.unpack(y.shape))
   --> 27.0	12.0	1	8	5	5]])
example("conv_transpose2d", [[
   local F = torch.nn.functional
   local x = torch.ones(1, 3, 4, 4)
   local weight = torch.ones(3, 2, 2, 2) -- (in, out, 2, 2)
   print(table.unpack(F.conv_transpose2d(x, weight, {stride = 2}).shape))
   --> 1	2	8	8]])

op {[[convolution(Tensor input, Tensor weight, Tensor bias, int[] stride, int[] padding,
      int[] dilation, bool transposed, int[] output_padding, int groups) -> Tensor]],
    internal = true, flops = [[2 * numel(weight) / size(weight, 1)
       * choose(transposed, numel(input), numel(result))]],
    grad = {["input, weight, bias"] = [[convolution_backward(grad, input, weight, stride, padding,
    dilation, transposed, output_padding, groups, needs(input), needs(weight), needs(bias))]]}}
op {[[convolution_backward(Tensor grad_output, Tensor input, Tensor weight, int[] stride,
      int[] padding, int[] dilation, bool transposed, int[] output_padding, int groups,
      bool want_input, bool want_weight, bool want_bias)
      -> (Tensor input, Tensor weight, Tensor bias)]], internal = true, materialize = false,
    flops = [[(choose(want_input, 1, 0) + choose(want_weight, 1, 0)) * 2 * numel(weight)
       / size(weight, 1) * choose(transposed, numel(input), numel(grad_output))]],
    grad = {["grad_output, input, weight"] = [[convolution_second(grad_input, grad_weight,
    grad_bias, grad_output, input, weight, stride, padding, dilation, transposed, output_padding,
    groups)]]}}
op {[[convolution_second(Tensor into_input, Tensor into_weight, Tensor into_bias,
      Tensor grad_output, Tensor input, Tensor weight, int[] stride, int[] padding, int[] dilation,
      bool transposed, int[] output_padding, int groups)
      -> (Tensor grad_output, Tensor input, Tensor weight)]], internal = true, composite = true}

takes_complex [[conv1d conv1d_padding conv2d conv2d_padding conv3d conv3d_padding conv_transpose1d
   conv_transpose2d conv_transpose3d]]
