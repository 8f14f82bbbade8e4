-- Operators for lua/tlua/compile/convolutions.lua: convolutions with packed weights, and maxima of
-- windows. The comment on tlk_conv_packed (src/core/kernel/image_kernels.h) describes the form of a
-- packed weight. Results are channels-last.

op {[[_conv2d_packed(Tensor self, Tensor weight, Tensor bias, int channels, int[2] kernel,
      float low, float high, int[2] stride=1, int[2] padding=0, int[2] dilation=1,
      bool depthwise=false, Tensor other=nil) -> Tensor]],
    doc = [[Returns the convolution of self (N, C, H, W) or (C, H, W) and a packed weight, plus
    `other`, limited to the range from low to high. torch.compile makes programs that call it. CPU
    only.]],
    method = false, nondiff = "torch.compile calls it without gradients",
    examples = {"torch.ones(1, 4, 3, 3), torch.ones(16, 16), torch.ones(16), 3, {2, 2}, 0, 6",
       "torch.ones(1, 16, 3, 3), torch.ones(9, 16), torch.ones(16), 16, {3, 3}, 0, 6, 1, 1, 1, "
       .. "true, torch.ones(1, 16, 3, 3)"}}
op {[[_max_pool2d_packed(Tensor self, int[2] kernel, int[2] stride=1, int[2] padding=0,
      int[2] dilation=1, bool ceil_mode=false) -> Tensor]],
    doc = [[Returns the largest elements of the windows of self (N, C, H, W) with at least 16
    channels. torch.compile makes programs that call it. CPU only.]],
    method = false, nondiff = "torch.compile calls it without gradients",
    examples = {"torch.ones(1, 16, 3, 3), {2, 2}"}}
