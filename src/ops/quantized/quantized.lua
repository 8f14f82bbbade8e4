-- Operators that multiply 8-bit integers, for lua/tlua/ao/programs.lua. A weight is int8 and stored
-- in panels of 16 channels. Its shape is (channels / 16, depth / 4, 16, 4), after channels and
-- depth are padded with zeros to multiples of 16 and 4. `scales` has the scale of each channel,
-- `sums` the int32 sum of its integers. The float32 input is rounded to bytes with a scale and a
-- zero point; if scale is 0, both are computed from the range of each row or image. An input with
-- NaN gives NaN. In the depth of a convolution's weight, the channels are innermost, padded to a
-- multiple of
-- 4. The weight of a depthwise convolution is (kernel width, quads, channels, 4). A quad consists
-- of 4 elements, and each column of the kernel is padded with zeros to whole quads.

op {[[_quantized_linear(Tensor self, Tensor weight, Tensor scales, Tensor sums, Tensor bias=nil,
      float scale=0.0, int zero=0, bool relu=false) -> Tensor]],
    doc = [[Returns the product of self (*, in), rounded to bytes, and a weight of 8-bit
    integers in panels. torch.ao.quantization.quantize_ makes programs that call it. CPU only.]],
    method = false, nondiff = "it rounds",
    examples = {"torch.ones(2, 4), torch.ones({1, 1, 16, 4}, {dtype = 'int8'}), torch.ones(3), "
       .. "torch.full({3}, 4, {dtype = 'int32'})"}}
op {[[_quantized_conv2d(Tensor self, Tensor weight, Tensor scales, Tensor sums, Tensor bias,
      int[2] kernel, int[2] stride=1, int[2] padding=0, int[2] dilation=1, float scale=0.0,
      int zero=0, bool relu=false, float most=0.0, float out_scale=0.0, int out_zero=0,
      Tensor other=nil, bool depthwise=false) -> Tensor]],
    doc = [[Returns the convolution of self (N, C, H, W), rounded to bytes, and a weight of
    8-bit integers in panels, plus `other`; then relu, and `most` as an upper limit unless it is 0.
    The result is channels-last. If out_scale is above 0, the result is rounded to bytes, uint8,
    which the next layer takes with the same scale and zero. If `depthwise` is set, each channel of
    the result is computed from that channel of self alone. torch.ao.quantization.quantize_ makes
    programs that call it. CPU only.]],
    method = false, nondiff = "it rounds",
    examples = {"torch.ones(1, 4, 3, 3), torch.ones({1, 4, 16, 4}, {dtype = 'int8'}), "
       .. "torch.ones(3), torch.full({3}, 16, {dtype = 'int32'}), torch.zeros(3), {2, 2}"}}
