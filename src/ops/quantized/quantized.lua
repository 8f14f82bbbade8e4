-- Products of 8-bit integers, for lua/tlua/ao/programs.lua. A weight has its channels in panels of
-- 16, (channels / 16, depth / 4, 16, 4) in int8, with zeros where sizes are no multiples; `scales`
-- has the scale of each channel, `sums` the sum of its integers in int32. The input is rounded to
-- bytes by a scale and a zero point, in float32; a scale of 0 stands for those of the range of each
-- row, or of each image. An input with NaN gives NaN. In the depth of a convolution's weight the
-- channels are innermost, padded to a multiple of 4.

op {[[_quantized_linear(Tensor self, Tensor weight, Tensor scales, Tensor sums, Tensor bias=nil,
      float scale=0.0, int zero=0, bool relu=false) -> Tensor]],
    doc = [[Returns the product of self (*, in), rounded to bytes, and a weight of 8-bit
    integers in panels. torch.ao.quantization.quantize_ makes programs that call it. CPU only.]],
    method = false, nondiff = "it rounds",
    examples = {"torch.ones(2, 4), torch.ones({1, 1, 16, 4}, {dtype = 'int8'}), torch.ones(3), "
       .. "torch.full({3}, 4, {dtype = 'int32'})"}}
op {[[_quantized_conv2d(Tensor self, Tensor weight, Tensor scales, Tensor sums, Tensor bias,
      int[2] kernel, int[2] stride=1, int[2] padding=0, int[2] dilation=1, float scale=0.0,
      int zero=0, bool relu=false) -> Tensor]],
    doc = [[Returns the convolution of self (N, C, H, W), rounded to bytes, and a weight of
    8-bit integers in panels. torch.ao.quantization.quantize_ makes programs that call it. CPU
    only.]],
    method = false, nondiff = "it rounds",
    examples = {"torch.ones(1, 4, 3, 3), torch.ones({1, 4, 16, 4}, {dtype = 'int8'}), "
       .. "torch.ones(3), torch.full({3}, 16, {dtype = 'int32'}), torch.zeros(3), {2, 2}"}}
