-- unfold copies windows to columns (im2col), and fold sums columns into windows (col2im).

local function F(entry)
   entry.module, entry.method = "nn.functional", false
   op(entry)
end

F {[[unfold.windows(Tensor input, int[2] kernel_size, int[2] dilation=1, int[2] padding=0,
      int[2] stride=1) -> Tensor]],
   doc = [[Returns the windows of input (N, C, H, W) as columns (N, C * kernel_h * kernel_w,
   windows), in the order in which conv2d visits them.]],
   composite = true,
   examples = {"T(2, 3, 4, 5), 3", "T(1, 2, 5, 5), {2, 3}, 1, {1, 0}, 2", "T(2, 4, 4), 2, 2"}}
F {[[fold(Tensor input, int[2] output_size, int[2] kernel_size, int[2] dilation=1, int[2] padding=0,
      int[2] stride=1) -> Tensor]],
   node = "Col2Im",
   doc = [[Adds up columns (N, C * kernel_h * kernel_w, windows), such as unfold returns, at their
   windows' places: (N, C, output_size).]],
   composite = true, examples = {"T(2, 12, 12), {4, 5}, {2, 2}", "T(1, 8, 9), {4, 4}, 2, 1, 1, 2"}}
op {"im2col(Tensor self, int[] kernel, int[] dilation, int[] padding, int[] stride) -> Tensor",
    name = "unfold", node = "Im2Col", internal = true,
    grad = {self = "col2im(grad, sizes(self), kernel, dilation, padding, stride)"}}
op {[[col2im(Tensor self, int[] size, int[] kernel, int[] dilation, int[] padding, int[] stride)
      -> Tensor]],
    name = "fold", node = "Col2Im",
    internal = true, grad = {self = "im2col(grad, kernel, dilation, padding, stride)"}}

takes_complex "unfold_windows"
