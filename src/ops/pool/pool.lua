-- Pooling operators, which reduce each window of the last dimensions to one number. Inputs are (N,
-- C, ...) or (C, ...).

local function F(entry)
   entry.module, entry.method = "nn.functional", false
   op(entry)
end

local function examples(n, list)
   local sizes = {"T(2, 3, 7)", "T(2, 3, 5, 6)", "T(1, 2, 4, 4, 5)"}
   local out = {}
   for i, text in ipairs(list) do out[i] = (text:gsub("X", sizes[n])) end
   return out
end

for n = 1, 3 do
   local ints = ("int[%d]"):format(n)
   local three = n == 3 and {cpu = "float32"} or nil
   -- Returns the name that PyTorch gives to the autograd node. PyTorch has no node for
   -- one-dimensional pooling: it adds a second dimension and then removes it, so the last node is
   -- "Squeeze".
   local function title(format) return n > 1 and format:format(n) or "Squeeze" end
   local titles = {max = title "MaxPool%dDWithIndices", unpool = title "MaxUnpool%dD",
      avg = title "AvgPool%dD", adaptive = title "AdaptiveAvgPool%dD",
      adaptive_max = title "AdaptiveMaxPool%dD"}
   local windows = ("Tensor input, %s kernel_size, %s stride=nil, %s padding=0")
      :format(ints, ints, ints)

   -- Maxima
   local max_windows = windows .. (", %s dilation=1, bool ceil_mode=false"):format(ints)
   F {("max_pool%dd(%s, bool return_indices=false) -> (Tensor values, Tensor indices)")
         :format(n, max_windows),
      node = titles.max,
      doc = [[Returns the largest element of each window; NaN if the window holds one. Windows begin
      `stride` (default: kernel_size) apart, in the input padded by `padding` elements of -infinity;
      with ceil_mode the last window may reach beyond. With return_indices also returns the
      elements' positions in the channel, from 1, in row-major order.]],
      also = true, composite = true, autocast = three,
      examples = examples(n, {"X, 2", "X, 3, 2, 1", "X, 2, 2, 0, 2, true",
                              "X, {kernel_size = 2, return_indices = true}"})}
   F {("max_pool%dd_with_indices(%s) -> (Tensor values, Tensor indices)"):format(n, max_windows),
      node = titles.max,
      doc = "The same as max_pool with return_indices = true.",
      also = n == 1 or nil, composite = true,
      examples = examples(n, {"X, 2"})}
   F {([[max_unpool%dd(Tensor input, Tensor indices, %s kernel_size, %s stride=nil, %s padding=0,
         int[] output_size=nil) -> Tensor]]):format(n, ints, ints, ints),
      node = titles.unpool,
      doc = [[Writes each element to the position where max_pool found it (its indices), and zeros
      elsewhere. If several output sizes fit, output_size chooses one.]],
      composite = true, autocast = {cpu = "float32"},
      examples = {({"T(1, 2, 2), torch.tensor{{{1, 3}, {2, 4}}}, 2",
                    "T(1, 1, 2, 2), torch.tensor{{{{1, 4}, {9, 16}}}}, 2",
                    "T(1, 1, 2, 1, 2), torch.tensor{{{{{1, 4}}, {{20, 32}}}}}, {2, 4, 2}"})[n]}}
   F {([[adaptive_max_pool%dd(Tensor input, %s output_size, bool return_indices=false)
         -> (Tensor values, Tensor indices)]]):format(n, ints),
      node = titles.adaptive_max,
      doc = [[Divides the input evenly into output_size windows and returns the largest element of
      each; -1 keeps a size.]],
      also = n == 1 or nil, composite = true, autocast = three,
      examples = examples(n, {"X, 3", "X, 4, true"})}
   F {([[adaptive_max_pool%dd_with_indices(Tensor input, %s output_size)
         -> (Tensor values, Tensor indices)]])
         :format(n, ints),
      node = titles.adaptive_max, doc = "The same as adaptive_max_pool with return_indices = true.",
      composite = true, autocast = three,
      examples = examples(n, {"X, 3"})}

   -- Averages
   F {("avg_pool%dd(%s, bool ceil_mode=false, bool count_include_pad=true%s) -> Tensor"):format(
         n, windows, n > 1 and ", int divisor_override=nil" or ""),
      node = titles.avg,
      doc = [[Returns the mean of each window. The padding counts as zeros, or not at all with
      count_include_pad = false]]
         .. (n > 1 and "; divisor_override replaces the number of elements as the divisor." or "."),
      also = n == 1 or nil, composite = true, autocast = three,
      examples = examples(n, {"X, 2", "X, 3, 2, 1", "X, 3, 2, 1, true, false",
                              n > 1 and "X, 2, 2, 1, true, true, 3" or nil})}
   F {("adaptive_avg_pool%dd(Tensor input, %s output_size) -> Tensor"):format(n, ints),
      node = titles.adaptive,
      doc = [[Divides the input evenly into output_size windows and returns the mean of each; -1
      keeps a size.]],
      also = n == 1 or nil, composite = true, autocast = three,
      examples = examples(n, {"X, 3", "X, 1", "X, 9"})}
   F {([[lp_pool%dd(Tensor input, float norm_type, %s kernel_size, %s stride=nil,
         bool ceil_mode=false) -> Tensor]])
         :format(n, ints, ints),
      doc = [[Returns the norm of each window, (sum of x^norm_type)^(1/norm_type); windows are those
      of avg_pool.]],
      composite = true, examples = examples(n, {"X:abs() + 0.5, 2, 2", "X:abs() + 0.5, 3, 2, 1"})}
end
example("max_pool2d", [=[
   local x = torch.arange(16, {dtype = torch.float32}):view(1, 1, 4, 4)
   print(torch.nn.functional.max_pool2d(x, 2):squeeze())
   --> tensor([[ 5.,  7.],
   -->         [13., 15.]])]=])
example("avg_pool2d", [=[
   local x = torch.arange(16, {dtype = torch.float32}):view(1, 1, 4, 4)
   print(torch.nn.functional.avg_pool2d(x, 2):squeeze())
   --> tensor([[ 2.5000,  4.5000],
   -->         [10.5000, 12.5000]])]=])
example("adaptive_avg_pool2d", [[
   local x = torch.ones(8, 64, 7, 7)
   print(table.unpack(torch.nn.functional.adaptive_avg_pool2d(x, 1).shape))
   --> 8	64	1	1]])

op {[[max_windows(Tensor self, int[] kernel, int[] stride, int[] padding, int[] dilation,
      bool ceil_mode, int n, bool want_indices) -> (Tensor values, Tensor indices)]],
    name = "max_pool", node = "MaxPoolWithIndices", internal = true,
    grad = {self = "plane_scatter(grad_values, indices, sizes(self), n, true)"}}
op {[[max_windows_adaptive(Tensor self, int[] output_size, int n, bool want_indices)
      -> (Tensor values, Tensor indices)]], name = "adaptive_max_pool", internal = true,
    grad = {self = "plane_scatter(grad_values, indices, sizes(self), n, true)"}}
op {[[average_windows(Tensor self, int[] kernel, int[] stride, int[] padding, bool ceil_mode,
      bool include_pad, int divisor) -> Tensor]], name = "avg_pool", internal = true,
    grad = {self = [[average_spread(grad, sizes(self), kernel, stride, padding, ceil_mode,
    include_pad, divisor)]]}}
op {[[average_spread(Tensor self, int[] size, int[] kernel, int[] stride, int[] padding,
      bool ceil_mode, bool include_pad, int divisor) -> Tensor]], name = "avg_pool_backward",
    internal = true,
    grad = {self = [[average_windows(grad, kernel, stride, padding, ceil_mode, include_pad,
    divisor)]]}}
op {"average_adaptive(Tensor self, int[] output_size) -> Tensor",
    name = "adaptive_avg_pool", internal = true,
    grad = {self = "average_adaptive_spread(grad, sizes(self), output_size)"}}
op {"average_adaptive_spread(Tensor self, int[] size, int[] output_size) -> Tensor",
    name = "adaptive_avg_pool_backward", internal = true,
    grad = {self = "average_adaptive(grad, output_size)"}}

-- These operators gather and scatter elements by their positions in planes. A plane consists of the
-- last n dimensions of a tensor. If several elements have the same destination, `add` adds them;
-- otherwise the last element is kept.
op {"plane_gather(Tensor self, Tensor indices, int n) -> Tensor",
    name = "max_pool_backward", internal = true,
    grad = {self = "plane_scatter(grad, indices, sizes(self), n, true)"}}
op {"plane_scatter(Tensor self, Tensor indices, int[] size, int n, bool add) -> Tensor",
    name = "max_unpool", internal = true,
    grad = {self = "plane_gather(grad, indices, n)"}}
